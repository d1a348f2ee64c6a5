"""The staging folder of a family's files, and where its tables are written by Spark alone."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.sinks.commits import Link
from pipelines.sinks.family.rows import NAME, PLACE
from pipelines.sinks.family.staging import KEEP_S, Staging, files_of
from pipelines.sinks.family.tables import why_not_direct
from pipelines.sinks.target import TableAt, TargetRun
from tests.unit.pipelines.sinks.test_table_family import sink_of


def test_a_batch_leaves_nothing_and_what_a_killed_run_left_is_removed_a_day_later(
    tmp_path: Path,
) -> None:
    staging, left = Staging(str(tmp_path)), tmp_path / "_staging" / "old"
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

    found = files_of(tmp_path, "t-1")

    assert [each.path for each in found] == [tmp_path / f"{NAME}=t-1" / "part-0.parquet"]
    assert files_of(tmp_path, "t-2") == []
    assert NAME not in PLACE.values()


@pytest.mark.parametrize(
    ("is_local", "system", "path", "why"),
    [
        (True, "file:///", "/lake/{topic}", ""),
        (False, "file:///", "/lake/{topic}", "other machines"),
        (True, "hdfs://n:1", "/lake/{topic}", "other machines"),
        (True, "file:///", "s3a://b/{topic}", "folder of this machine"),
    ],
)
def test_tables_that_may_be_elsewhere_are_written_by_spark(
    is_local: bool, system: str, path: str, why: str
) -> None:
    context = SimpleNamespace(
        hadoopConfiguration=lambda: {"fs.defaultFS": system},
        sc=lambda: SimpleNamespace(isLocal=lambda: is_local),
    )
    spark: Any = SimpleNamespace(_jsc=context, conf=SimpleNamespace(getAll={}))
    link = Link(pipeline="p", sink="s", run="r")
    run = TargetRun(session=lambda: spark, link=link, losses=TableAt(path="/l"))
    sink = replace(sink_of(path), constraints={}, cluster_by=(), partition_by=(), wishes=())
    assert sink.family is not None

    found = why_not_direct(sink, sink.family, run)

    assert found == why or (why and why in found)
