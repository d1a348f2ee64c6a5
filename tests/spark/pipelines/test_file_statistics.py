"""Spark skips data files by their statistics, and finds the rows of its filters."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.unit.josefine_lake.writer.filtered_rows import (
    KINDS,
    SCHEMA,
    compacted,
    numbered,
    table_of,
)

pytestmark = pytest.mark.spark

FILTERS = [
    "d > 5 OR f < -2", "b = true", "s > 'xxxxx'", "a < 0 OR w > 1000 OR e > '2026-01-01'",
    "z > '1970-01-01 00:00:00.0009'", "st.x = 1",
]  # fmt: skip
STRUCTS = [{"x": 1, "deep": {"y": float("nan")}}, None, {"x": -1, "deep": None}]


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_spark_finds_the_rows_of_its_filters(spark: SparkSession, tmp_path: Path) -> None:
    values = {name: [None, *each] for name, (_, each) in KINDS.items()}
    values |= {"st": STRUCTS, "bin": [b"\x01", None], "l": [[1], None]}
    columns = {name: islice(cycle(each), 12) for name, each in values.items()}
    rows = numbered(
        [[dict(zip(columns, row, strict=True))] for row in zip(*columns.values(), strict=True)]
    )
    # Half of them in one file, of a compaction.
    table_of(tmp_path / "t", [[row] for row in rows[:6]])
    compacted(tmp_path / "t")
    table_of(tmp_path / "t", [[row] for row in rows[6:]])

    table = spark.read.format("delta").load(str(tmp_path / "t"))
    memory = spark.createDataFrame(pa.Table.from_pylist(rows, SCHEMA))

    found, expected = found_ids(table), found_ids(memory)
    for number, how in enumerate(FILTERS):
        assert found[number] == expected[number], how
        assert 0 < len(found[number]) < len(rows), how


def found_ids(frame: DataFrame) -> dict[int, list[Any]]:
    """The ids of the rows of each filter, by one scan for each."""
    parts = [
        frame.where(how).select(f.lit(number).alias("filter"), "id")
        for number, how in enumerate(FILTERS)
    ]
    union = parts[0]
    for each in parts[1:]:
        union = union.union(each)
    found: dict[int, list[Any]] = {number: [] for number in range(len(FILTERS))}
    for row in union.collect():
        found[row["filter"]].append(row["id"])
    return {number: sorted(each) for number, each in found.items()}
