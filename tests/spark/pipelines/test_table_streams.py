"""Delta tables as streams, from bronze to gold: each row once, whatever dies or is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines.base.errors import ChainError, RunError
from pipelines.exactly_once.checkpoint_start import Trust
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


@contextmanager
def conf(spark, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


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


MEDALLION = """\
version: 1
name: lake
spark: { checkpoint: "${LAB}/ck" }
sources:
  lines:
    type: file
    path: "${LAB}/lines"
    decode: { value: { format: json, schema: "n BIGINT, who STRING", on_error: fail } }
  bronze: { type: delta, stream: true, path: "${LAB}/bronze", schema: "n BIGINT, who STRING" }
  silver: { type: delta, stream: true, path: "${LAB}/silver", schema: "n BIGINT, who STRING" }
transforms:
  raw: { inputs: [lines], sql: "select value.* from lines" }
  clean: { inputs: [bronze], sql: "select n, upper(who) as who from bronze where who != ''" }
sinks:
  gold:
    { type: delta, inputs: [silver], path: "${LAB}/gold", mode: merge, keys: [who],
      aggregate: { n: count(*), total: sum(n) } }
  silver: { type: delta, inputs: [clean], path: "${LAB}/silver", mode: append }
  bronze: { type: delta, inputs: [raw], path: "${LAB}/bronze", mode: append }
trigger: { available_now: true }
"""


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_one_run_carries_each_line_from_bronze_to_gold_once(spark, tmp_path):
    """The file names gold first. A driver dies in each sink, and each time all checkpoints go."""
    lab = FilesLab(spark, tmp_path, MEDALLION, ["lines"])
    lab.add("lines", *(f'{{"n": {n}, "who": "a{n % 2}"}}' for n in range(10)))
    lab.run()
    lab.add("lines", *(f'{{"n": {n}, "who": "a{n % 2}"}}' for n in range(10, 20)))
    # Each run finds the sinks before it finished, and dies in the next one.
    for fail in ("after_commit_before_log", "after_commit_before_log", "mid_commit:2"):
        lab.die(fail)
        shutil.rmtree(tmp_path / "ck")
    lab.run()

    assert sorted(row.n for row in lab.collected("bronze")) == list(range(20))
    gold = {row.who: (row.n, row.total) for row in lab.collected("gold")}
    assert gold == {"A0": (10, 90), "A1": (10, 100)}


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_optimize_and_vacuum_of_what_was_read_make_no_rows(lab):
    for n in range(4):
        write(lab, n * 5, n * 5 + 5)
    lab.run()
    spark, path = lab.spark, f"{lab.folder}/bronze"
    spark.sql(f"OPTIMIZE delta.`{path}`")
    with conf(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    shutil.rmtree(lab.folder / "ck")
    write(lab, 20, 25)
    lab.run()

    assert numbers(lab) == list(range(25))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_deleted_rows_stop_the_sink_or_are_passed_over(lab):
    write(lab, 0, 10)
    lab.run()
    lab.spark.sql(f"DELETE FROM delta.`{lab.folder}/bronze` WHERE n = 3")
    with pytest.raises(RunError, match="on_change: skip_changes"):
        lab.run()

    lab.write(SILVER.replace("stream: true\n", "stream: true\n    on_change: skip_changes\n"))
    write(lab, 10, 12)
    lab.run()
    # RESTORE adds the file before the delete again: a change too, so nothing is there twice.
    lab.spark.sql(f"RESTORE TABLE delta.`{lab.folder}/bronze` TO VERSION AS OF 0")
    write(lab, 12, 14)
    lab.run()

    assert numbers(lab) == list(range(14))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_files_that_vacuum_deleted_before_they_were_read_stop_the_sink(lab):
    write(lab, 0, 5)
    lab.run()
    write(lab, 5, 10)
    spark, path = lab.spark, f"{lab.folder}/bronze"
    write(lab, 10, 15, mode="overwrite")
    lab.write(SILVER.replace("stream: true\n", "stream: true\n    on_change: skip_changes\n"))
    with conf(spark, "spark.databricks.delta.retentionDurationCheck.enabled", "false"):
        spark.sql(f"VACUUM delta.`{path}` RETAIN 0 HOURS")
    with pytest.raises(RunError, match="VACUUM"):
        lab.run()

    assert numbers(lab) == list(range(5))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_table_that_was_created_again_stops_the_sink(lab):
    write(lab, 0, 5)
    lab.run()
    shutil.rmtree(lab.folder / "bronze")
    write(lab, 0, 5)
    write(lab, 5, 10)
    with pytest.raises(ChainError, match="created again"):
        lab.run()

    lab.run(Trust.TABLE)
    assert numbers(lab) == sorted([*range(5), *range(10)])


def test_column_of_another_type_stops_the_sink_before_its_first_batch(lab):
    write(lab, 0, 5)
    lab.write(SILVER.replace("n BIGINT, who STRING", "n INT, who STRING, what INT"))
    with pytest.raises(RunError, match=r"`n` is BIGINT, not INT, no column `what`"):
        lab.run()
    write(lab, 5, 6)
    lab.write(SILVER)
    lab.run()
    wider = lab.spark.sql("select 6L as n, 'a' as who, 1 as more")
    wider.write.format("delta").mode("append").option("mergeSchema", "true").save(
        f"{lab.folder}/bronze"
    )
    lab.run()
    assert numbers(lab) == list(range(7))


LATEST = SILVER.replace("stream: true\n", "stream: true\n    start: latest\n")


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_start_at_the_next_commit_is_kept_by_the_chain_alone(lab):
    """The driver dies on both sides of the commit of the position, and the checkpoint goes, too."""
    lab.write(LATEST)
    write(lab, 0, 5)
    lab.die("mid_start:1")
    write(lab, 5, 10)
    lab.die("mid_start:2")
    # From here on the sink has its position: what is committed now is its own.
    shutil.rmtree(lab.folder / "ck", ignore_errors=True)
    write(lab, 10, 15, files=3)
    lab.die("before_commit")
    shutil.rmtree(lab.folder / "ck")
    write(lab, 15, 20)
    lab.run()

    assert numbers(lab) == list(range(10, 20))


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_start_at_a_time_reads_the_commits_since_then(lab):
    write(lab, 0, 5)
    write(lab, 5, 10)
    history = lab.spark.sql(f"DESCRIBE HISTORY delta.`{lab.folder}/bronze`")
    at = history.where("version = 1").selectExpr(
        "date_format(timestamp, \"yyyy-MM-dd'T'HH:mm:ss.SSSXXX\") as at"
    )
    (row,) = at.collect()
    lab.write(LATEST.replace("start: latest", f'start: {{ timestamp: "{row.at}" }}'))
    lab.run()
    shutil.rmtree(lab.folder / "ck")
    write(lab, 10, 12)
    lab.run()

    assert numbers(lab) == list(range(5, 12))
