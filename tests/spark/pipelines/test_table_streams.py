"""Delta tables as streams, from bronze to gold: each row once, whatever dies or is lost."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SILVER = """\
version: 1
name: silver
spark: { checkpoint: "${LAB}/ck" }
sources:
  bronze:
    type: delta
    stream: true
    path: "${LAB}/bronze"
    schema: n BIGINT, who STRING
    limit: { files: 2 }
transforms:
  rows: { inputs: [bronze], sql: "select n, upper(who) as who from bronze" }
sinks:
  silver: { type: delta, inputs: [rows], path: "${LAB}/silver", mode: append }
trigger: { available_now: true }
"""


@pytest.fixture
def lab(spark, tmp_path: Path) -> FilesLab:
    return FilesLab(spark, tmp_path, SILVER, ())


def write(lab: FilesLab, first: int, end: int, files: int = 1, mode: str = "append") -> None:
    """One commit of the table `bronze`."""
    rows = [(n, f"a{n}") for n in range(first, end)]
    frame = lab.spark.createDataFrame(rows, "n BIGINT, who STRING").repartition(files)
    frame.write.format("delta").mode(mode).save(f"{lab.folder}/bronze")


def numbers(lab: FilesLab) -> list[int]:
    return sorted(row.n for row in lab.collected("silver"))


def test_stream_continues_inside_a_version_after_a_lost_checkpoint(lab):
    """Five files and two a batch: the first snapshot and a later version are cut by batches."""
    write(lab, 0, 20, files=5)
    lab.die("mid_commit:2@2")
    shutil.rmtree(lab.folder / "ck")
    lab.die("after_commit_before_log@1")
    shutil.rmtree(lab.folder / "ck")
    lab.run()
    assert numbers(lab) == list(range(20))

    write(lab, 20, 40, files=5)
    lab.die("after_commit_before_log@2")
    shutil.rmtree(lab.folder / "ck")
    write(lab, 40, 50)
    lab.run()

    assert numbers(lab) == list(range(50))
    shutil.rmtree(lab.folder / "ck")
    assert lab.run().sinks["silver"].rows == 0
