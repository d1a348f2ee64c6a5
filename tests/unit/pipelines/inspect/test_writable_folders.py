"""Folders that a run cannot write: told by key, path and cause, before Spark starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_cli.main import run
from pipelines.base.errors import SetupError
from pipelines.config.validate import read_pipeline
from pipelines.inspect.writable_folders import refuse_unwritable
from tests.unit.pipelines.config.test_validate import GOOD


def pipeline_at(tmp_path, checkpoint, table):
    file = tmp_path / "f.yaml"
    file.write_text(GOOD.replace("/ck", checkpoint).replace("/lake", table))
    return read_pipeline(file, {})


def test_folders_below_a_file_are_told_with_key_path_and_cause(tmp_path):
    there = tmp_path / "afile"
    there.touch()
    pipeline = pipeline_at(tmp_path, f"{there}/_ck", f"file://{there}/deep/orders")

    with pytest.raises(SetupError) as refused:
        refuse_unwritable(pipeline, {})

    assert str(refused.value).splitlines() == [
        f"{tmp_path}/f.yaml: spark.checkpoint: {there}/_ck cannot be written: "
        f"{there} is not a folder",
        f"{tmp_path}/f.yaml: sinks.lake.path: file://{there}/deep/orders cannot be written: "
        f"{there} is not a folder",
    ]


def test_a_folder_without_permission_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(tmp_path))
    pipeline = pipeline_at(tmp_path, "/ck", f"{tmp_path}/lake")

    with pytest.raises(SetupError, match=f"no permission to write in {tmp_path}$"):
        refuse_unwritable(pipeline, {})


@pytest.mark.parametrize("below", ["lake/_delta_log", "ck/f.lake/offsets", "ck/f.lake/commits"])
def test_what_somebody_else_has_made_below_a_folder_is_told_too(tmp_path, monkeypatch, below):
    """As root once did: the folder itself is open to all."""
    theirs = tmp_path / below
    theirs.mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda path, mode: str(path) != str(theirs))
    pipeline = pipeline_at(tmp_path, f"{tmp_path}/ck", f"{tmp_path}/lake")

    with pytest.raises(SetupError, match=f"no permission to write in {theirs}$"):
        refuse_unwritable(replace(pipeline, name="f"), {})


def test_new_folders_and_other_places_are_left_alone(tmp_path):
    refuse_unwritable(pipeline_at(tmp_path, f"{tmp_path}/a/b", "s3a://bucket/afile"), {})
    (tmp_path / "afile").touch()
    below = pipeline_at(tmp_path, f"{tmp_path}/ck", f"{tmp_path}/afile/orders")
    refuse_unwritable(below, {"HADOOP_CONF_DIR": "/etc/hadoop"})


def test_the_run_command_ends_with_79(tmp_path, capsys):
    (tmp_path / "afile").touch()
    pipeline_at(tmp_path, f"{tmp_path}/ck", f"{tmp_path}/afile/orders")

    assert run(["pipeline", "run", str(tmp_path / "f.yaml")]) == 79
    assert "sinks.lake.path" in capsys.readouterr().err
