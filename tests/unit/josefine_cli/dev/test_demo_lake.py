"""The lake of the demo: what is asked for, its pipeline's settings, its server."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from josefine_cli.base.errors import UsageError
from josefine_cli.dev import demo_check
from josefine_cli.dev.demo import PIPELINE
from josefine_cli.dev.demo_lake import check_lake, conf_of, opened, with_conf
from pipelines.storage.location import StorageError


@pytest.mark.parametrize("asked", ["gs://lake", "s4", "", "s3a:///folder", "s3:lake"])
def test_another_lake_is_refused_with_those_that_are_served(asked: str) -> None:
    with pytest.raises(UsageError, match="expected local, s3, or a folder s3a://BUCKET/FOLDER"):
        check_lake(asked, keep=False)


def test_a_lake_in_s3_starts_empty() -> None:
    check_lake("local", keep=True)
    with pytest.raises(UsageError, match="--keep continues with tables of this machine"):
        check_lake("s3", keep=True)


def test_the_pipeline_gets_the_store_s_settings_and_keeps_its_own() -> None:
    text = PIPELINE.read_text()
    conf = conf_of("http://store:9000")

    found, before = yaml.safe_load(with_conf(text, conf)), yaml.safe_load(text)

    assert found["spark"]["conf"] == {**before["spark"]["conf"], **conf}
    del found["spark"], before["spark"]
    assert found == before


def test_a_store_without_an_endpoint_is_aws() -> None:
    assert not any("endpoint" in name for name in conf_of(""))


def test_a_lake_of_the_user_s_is_a_new_folder_in_it(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:9000")
    with opened("s3://b/x/", tmp_path, 12.5) as lake:
        assert lake.root == "s3a://b/x/josefine-demo-12"
        assert lake.conf["spark.hadoop.fs.s3a.endpoint"] == "http://store:9000"


def test_the_demo_s_server_keeps_tables_that_the_check_reads(tmp_path: Path) -> None:
    with opened("s3", tmp_path, 0.0) as lake:
        path = f"{lake.root}/tables/dead_letters"
        assert demo_check.read_tables(lake).dead_letters == 0
        folder = lake.opener()(path)
        assert folder is not None
        write_deltalake(path, pa.table({"a": [1, 2]}), storage_options=dict(folder.options))

        assert demo_check.read_tables(lake).dead_letters == 2


def test_a_lake_without_its_bucket_is_reported_before_anything_starts(tmp_path: Path) -> None:
    with opened("s3", tmp_path, 0.0) as lake:
        lake.look()
        with pytest.raises(StorageError, match="there is no bucket `gone`"):
            replace(lake, root="s3a://gone/x").look()


def test_the_demo_s_server_is_not_interrupted_with_the_demo(tmp_path: Path) -> None:
    with opened("s3", tmp_path, 0.0) as lake:
        children = " ".join(each.read_text() for each in Path("/proc/self/task").glob("*/children"))
        commands = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in children.split()}
        (server,) = [int(pid) for pid, text in commands.items() if "ThreadedMotoServer" in text]

        assert os.getpgid(server) != os.getpgid(0)
        lake.look()
