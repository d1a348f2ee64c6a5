"""JSON that the source decodes gives the rows and reasons of the format's own decoder."""

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
from pyspark.sql.types import BinaryType, StringType, StructType

from josefine_spark.read.json_rows import JsonRows
from josefine_spark.source import JosefineDataSource
from pipelines.formats import decode
from pipelines.formats.json import JsonValues
from pipelines.model.pipeline import Format
from pipelines.sources import josefine
from tests.unit.josefine_spark.json_documents import SCHEMA, documents

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

COUNT = 5_000


@pytest.mark.long_proof(share=2)
@pytest.mark.parametrize("is_kept", [False, True])
def test_rows_and_reasons_are_those_of_the_format(
    spark: SparkSession, tmp_path: Path, is_kept: bool
) -> None:
    values = pa.array(documents(1, COUNT), pa.binary())
    objects, reasons = JsonRows(SCHEMA).decode(values)
    table = pa.table(
        {
            "number": pa.array(range(COUNT)),
            "value": values,
            decode.OBJECTS: objects,
            decode.REASONS: reasons,
        }
    )
    pq.write_table(table, tmp_path / "values.parquet")
    frame = spark.read.parquet(str(tmp_path))
    reading = (decode.Side(column="value", values=JsonValues(SCHEMA)),)

    by_source = decode.parsed(frame, reading, is_kept=is_kept)
    by_source = by_source.localCheckpoint() if is_kept else by_source
    by_format = decode.parsed(frame.drop(decode.OBJECTS, decode.REASONS), reading)

    assert by_source.columns == by_format.columns
    differ = by_source.alias("a").join(by_format.alias("b"), "number")
    # As text, for maps are not compared, and 0.0 and -0.0 are equal.
    same = F.to_json("a._parsed_value").eqNullSafe(F.to_json("b._parsed_value"))
    good = F.col("a._good") == F.col("b._good")
    assert differ.where(~(same & good)).select("a.value").limit(3).collect() == []
    assert by_source.where("_good").count() == COUNT - objects.null_count


@pytest.mark.long_proof(share=4)
@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("with_objects", [False, True])
def test_a_value_is_parsed_once(spark: SparkSession, with_objects: bool, is_kept: bool) -> None:
    reading = (decode.Side(column="value", values=JsonValues(SCHEMA)),)
    # Of rows that are not known when the plan is made.
    schema = StructType().add("value", BinaryType())
    schema = schema.add(decode.OBJECTS, SCHEMA).add(decode.REASONS, StringType())
    frame = spark.createDataFrame([(b"{}", None, None)], schema)
    frame = frame if with_objects else frame.drop(decode.OBJECTS, decode.REASONS)

    parsed = decode.parsed(frame, reading, is_kept=is_kept)

    rows = parsed if is_kept else decode.good_rows(parsed, reading)
    plan: Any = rows._jdf.queryExecution()
    assert plan.optimizedPlan().toString().count("ArrowEvalPython") == (0 if with_objects else 1)


@pytest.mark.long_proof(share=12, among="runs of pipelines")
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
    other = SimpleNamespace(_jvm=here._jvm, _gateway=here._gateway, _conf=here._conf)
    monkeypatch.setattr(SparkContext, "_active_spark_context", other)
    decode.parsed(frame, reading)
    assert len(calls) == 2


@pytest.mark.long_proof(share=12, among="runs of pipelines")
def test_json_is_asked_for_where_records_are_decoded(spark: SparkSession) -> None:
    def asked(schema: str, **words: Any) -> dict[str, str]:
        placed = SimpleNamespace(text=schema)
        how: Any = {"format": Format.JSON, "schema": placed, "accept": ()}
        how |= dict.fromkeys(("framed", "strict", "explodes"), False)
        source: Any = SimpleNamespace(decode=SimpleNamespace(**how | words))
        return josefine._objects(source)

    options = {"bootstrapServers": "127.0.0.1:9092", "subscribe": "t"}
    options |= asked("id INT NOT NULL, ids ARRAY<INT>", strict=True, accept=("epoch_seconds",))

    assert JosefineDataSource(options).schema().names[-2:] == [decode.OBJECTS, decode.REASONS]
    assert options["jsonTimeZone"] == spark.conf.get("spark.sql.session.timeZone")
    assert (options["jsonStrict"], options["jsonAccept"]) == ("true", "epoch_seconds")
    assert asked("id INT", framed=True) == asked("id INT", format=Format.CSV) == {}
    assert asked("v VARIANT") == {}
    assert asked("id INT", explodes=True) == {}
