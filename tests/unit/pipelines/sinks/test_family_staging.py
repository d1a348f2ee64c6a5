"""The staging folder of a family's files, and where its tables are written by Spark alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.sinks.direct_rows import why_not_direct
from pipelines.sinks.family.rows import NAME, PLACE
from pipelines.sinks.staging import KEEP_S, Staging, files_in
from pipelines.spark.settings import IS_DIRECT
from tests.unit.pipelines.sinks.test_table_family import sink_of


def test_a_batch_leaves_nothing_and_what_a_killed_run_left_is_removed_a_day_later(
    tmp_path: Path,
) -> None:
    staging, left = Staging(tmp_path), tmp_path / "old"
    left.mkdir(parents=True)
    with staging.batch() as folder:
        folder.mkdir()
    assert not folder.exists()
    os.utime(left, (1000, 1000))

    staging.clean(1000 + KEEP_S)
    assert left.exists()
    staging.clean(1001 + KEEP_S)
    assert not left.exists()


def test_a_tables_files_are_those_of_its_name(tmp_path: Path) -> None:
    for name in ("t-1", "t-10", "t.1"):
        (tmp_path / f"{NAME}={name}").mkdir()
        (tmp_path / f"{NAME}={name}" / "part-0.parquet").touch()
        (tmp_path / f"{NAME}={name}" / ".part-0.parquet.crc").touch()

    found = files_in(tmp_path / f"{NAME}=t-1")

    assert [each.path for each in found] == [tmp_path / f"{NAME}=t-1" / "part-0.parquet"]
    assert files_in(tmp_path / f"{NAME}=t-2") == []
    assert NAME not in PLACE.values()


@pytest.mark.parametrize(
    ("is_local", "system", "path", "conf", "why"),
    [
        (True, "file:///", "/lake/a", {}, ""),
        (False, "file:///", "/lake/a", {}, "other machines"),
        (True, "hdfs://n:1", "/lake/a", {}, "other machines"),
        (True, "file:///", "s3a://b/a", {}, "folder of this machine"),
        (True, "file:///", "/lake/a", {IS_DIRECT: "false"}, f"{IS_DIRECT} is false"),
    ],
)
def test_tables_that_may_be_elsewhere_are_written_by_spark(
    is_local: bool, system: str, path: str, conf: dict[str, str], why: str
) -> None:
    context = SimpleNamespace(
        hadoopConfiguration=lambda: {"fs.defaultFS": system},
        sc=lambda: SimpleNamespace(isLocal=lambda: is_local),
    )
    spark: Any = SimpleNamespace(_jsc=context, conf=SimpleNamespace(get=conf.get, getAll=conf))
    sink = replace(
        sink_of("/lake/{topic}"), constraints={}, cluster_by=(), partition_by=(), wishes=()
    )

    found = why_not_direct(sink, path, spark)

    assert found == why or (why and why in found)
