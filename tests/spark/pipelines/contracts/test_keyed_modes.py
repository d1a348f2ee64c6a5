"""The same key sent again and again is one row, in tables that store keys in their own way."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.pipelines.files_lab import FilesLab

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

FILE = """
version: 1
name: keys
spark: { checkpoint: "${LAB}/ck" }
sources:
  ev:
    { type: file, path: "${LAB}/ev",
      decode: { value: { format: json, schema: "k STRING, v INT" } } }
transforms: { rows: { inputs: [ev], sql: "select value.*, offset as _offset from ev" } }
sinks:
  out: { type: delta, inputs: [rows], path: "${LAB}/lake", MODE }
trigger: { available_now: true }
"""
UPSERT = "mode: upsert, keys: [k], order_by: _offset"
SCD2 = "mode: scd2, keys: [k], order_by: _offset"
MERGE = 'mode: merge, keys: [k], aggregate: { n: "count(*)" }'


@pytest.mark.long_proof(share=3)
@pytest.mark.parametrize("key", ["k CHAR(3)", "k STRING"])
@pytest.mark.parametrize(
    ("mode", "columns", "rows"),
    [
        (UPSERT, "v INT, _offset BIGINT", 1),
        (MERGE, "n BIGINT", 1),
        (SCD2, "v INT, _offset BIGINT, _valid_from BIGINT, _valid_to BIGINT, _current BOOLEAN", 3),
    ],
    ids=["upsert", "merge", "scd2"],
)
def test_a_key_sent_in_each_batch_is_one_key(
    spark: SparkSession, tmp_path: Path, key: str, mode: str, columns: str, rows: int
) -> None:
    lab = FilesLab(spark, tmp_path, FILE.replace("MODE", mode), ["ev"])
    sent = "x" if "CHAR" in key else ""
    spark.sql(
        f"create table delta.`{tmp_path}/lake` ({key}, {columns}) using delta partitioned by (k)"
    )

    for number in range(3):
        lab.add("ev", f'{{"k": "{sent}", "v": {number}}}')
        lab.run()

    table = lab.table()
    assert table.count() == rows
    assert table.select("k").distinct().count() == 1
    if mode is MERGE:
        assert [row.n for row in table.collect()] == [3]
    if mode is SCD2:
        assert table.where("_current").count() == 1
