"""The change data feed of a Delta table as a stream: each change once, whatever is lost."""

from __future__ import annotations

import shutil

import pytest

from pipelines.base.errors import RunError
from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FEED = """\
version: 1
name: feed
spark: { checkpoint: "${LAB}/ck" }
sources:
  bronze:
    type: delta
    stream: true
    changes: true
    path: "${LAB}/bronze"
    schema: n BIGINT
    limit: { files: 1 }
transforms:
  rows:
    { inputs: [bronze], sql: "select n, _change_type kind, _commit_version v from bronze" }
sinks:
  silver: { type: delta, inputs: [rows], path: "${LAB}/silver", mode: append }
trigger: { available_now: true }
"""


def found(lab: FilesLab) -> list[tuple[int, str, int]]:
    return sorted((row.v, row.kind, row.n) for row in lab.collected("silver"))


def test_each_change_is_a_row_once_after_a_lost_checkpoint(spark, tmp_path):
    lab = FilesLab(spark, tmp_path, FEED, ())
    table = f"delta.`{tmp_path}/bronze`"
    spark.sql(
        f"CREATE TABLE {table} (n BIGINT) USING delta "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    spark.sql(f"INSERT INTO {table} VALUES (1), (2)")
    lab.run()
    spark.sql(f"UPDATE {table} SET n = 20 WHERE n = 2")
    lab.die("after_commit_before_log")
    shutil.rmtree(tmp_path / "ck")
    spark.sql(f"DELETE FROM {table} WHERE n = 1")
    spark.sql(f"OPTIMIZE {table}")
    lab.run()
    shutil.rmtree(tmp_path / "ck")
    lab.run()

    assert found(lab) == [
        (1, "insert", 1),
        (1, "insert", 2),
        (2, "update_postimage", 20),
        (2, "update_preimage", 2),
        (3, "delete", 1),
    ]


def test_table_without_a_feed_stops_the_sink_with_the_way_out(spark, tmp_path):
    lab = FilesLab(spark, tmp_path, FEED, ())
    spark.sql(f"CREATE TABLE delta.`{tmp_path}/bronze` (n BIGINT) USING delta")
    spark.sql(f"INSERT INTO delta.`{tmp_path}/bronze` VALUES (1)")
    with pytest.raises(RunError, match=r"delta\.enableChangeDataFeed = true"):
        lab.run()
