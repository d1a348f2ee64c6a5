"""JSON that is read where records are decoded gives the rows that Spark's own reader gives."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StructType

from josefine_spark.read.json_rows import JsonRows
from josefine_spark.source import JosefineDataSource
from pipelines.formats import decode
from pipelines.formats.json import JsonValues
from pipelines.model.pipeline import Format
from pipelines.sources import josefine
from tests.unit.josefine_spark.json_documents import SCHEMA, documents

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COUNT = 20_000


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_rows_are_those_of_sparks_reader(
    spark: SparkSession, tmp_path: Path, seed: int, is_kept: bool
) -> None:
    values = pa.array(documents(seed, COUNT), pa.binary())
    taken = JsonRows(SCHEMA).read(values)
    table = pa.table({"number": pa.array(range(COUNT)), "value": values, decode.OBJECTS: taken})
    pq.write_table(table, tmp_path / "values.parquet")
    frame = spark.read.parquet(str(tmp_path))
    reading = (decode.Side(column="value", values=JsonValues(SCHEMA)),)

    by_both = decode.parsed(frame, reading, is_kept=is_kept)
    by_both = by_both.localCheckpoint() if is_kept else by_both
    by_spark = decode.parsed(frame.drop(decode.OBJECTS), reading)

    assert by_both.columns == by_spark.columns
    assert taken.null_count < COUNT / 2
    differ = by_both.alias("a").join(by_spark.alias("b"), "number")
    # As text, for 0.0 and -0.0 are equal.
    same = F.to_json("a._parsed_value").eqNullSafe(F.to_json("b._parsed_value"))
    same &= F.col("a._parsed_value").eqNullSafe(F.col("b._parsed_value"))
    good = F.col("a._good") == F.col("b._good")
    assert differ.where(~(same & good)).select("a.value").limit(3).collect() == []
    assert by_both.where("_good").count() >= COUNT - taken.null_count


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("with_objects", [False, True])
def test_a_value_is_parsed_once(spark: SparkSession, with_objects: bool, is_kept: bool) -> None:
    reading = (decode.Side(column="value", values=JsonValues(SCHEMA)),)
    # Of rows that are not known when the plan is made.
    schema = StructType().add("value", BinaryType()).add(decode.OBJECTS, SCHEMA)
    frame = spark.createDataFrame([(b"{}", None)], schema)
    frame = frame if with_objects else frame.drop(decode.OBJECTS)

    parsed = decode.parsed(frame, reading, is_kept=is_kept)

    rows = parsed if is_kept else decode.good_rows(parsed, reading)
    plan: Any = rows._jdf.queryExecution()
    assert plan.optimizedPlan().toString().count("from_json(") == 1


def test_columns_are_made_once_for_all_batches_of_a_context(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    class Counted(JsonValues):
        def parse(self, data: Column) -> Column:
            calls.append(data)
            return super().parse(data)

    reading = (decode.Side(column="value", values=Counted(SCHEMA)),)
    frame = spark.range(1).select(F.lit(b'{"id":7}').alias("value"))

    for _ in range(2):
        (row,) = decode.good_rows(decode.parsed(frame, reading), reading).collect()
        assert row.value.id == 7
    assert len(calls) == 1

    here = spark.sparkContext
    other = SimpleNamespace(_jvm=here._jvm, _gateway=here._gateway)
    monkeypatch.setattr(SparkContext, "_active_spark_context", other)
    decode.parsed(frame, reading)
    assert len(calls) == 2


def test_plain_json_is_asked_for_where_records_are_decoded(spark: SparkSession) -> None:
    def asked(schema: str, **words: Any) -> dict[str, str]:
        placed = SimpleNamespace(text=schema)
        how: Any = {"format": Format.JSON, "schema": placed}
        how |= dict.fromkeys(("framed", "strict", "explodes"), False)
        source: Any = SimpleNamespace(decode=SimpleNamespace(**how | words))
        return josefine._objects(source)

    options = {"bootstrapServers": "127.0.0.1:9092", "subscribe": "t", **asked("id INT NOT NULL")}

    assert JosefineDataSource(options).schema().names[-1] == decode.OBJECTS
    assert asked("id INT", strict=True) == asked("id INT", framed=True) == {}
    assert asked("id INT", explodes=True) == {}
    assert asked("id INT", format=Format.CSV) == asked("ids ARRAY<INT>") == {}
