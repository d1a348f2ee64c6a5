"""JSON objects bound to Spark's types: what the workers return, and in which type."""

from __future__ import annotations

import pyarrow as pa
import pytest

from josefine_arrow.formats.json.options import JsonOptions
from pipelines.formats.json import JsonValues, time_zone

types = pytest.importorskip("pyspark.sql.types")
SparkSession = pytest.importorskip("pyspark.sql").SparkSession
T = types.TimestampType
OPTIONS = JsonOptions(time_zone="UTC")


def schema(*fields, nullable=True):
    made = types.StructType()
    for name, kind in fields:
        made.add(name, kind, nullable)
    return made


def test_an_object_is_a_row_and_anything_else_has_a_reason():
    values = JsonValues(schema(("id", types.IntegerType()), ("s", types.StringType())), OPTIONS)

    found, reasons = values.columns_decoder()()(
        pa.array([b'{"id": 1, "s": "a"}', b'{"id": "x"}', b"[]", b"", None])
    )

    assert found.to_pylist()[0] == {"id": 1, "s": "a"}
    assert found.to_pylist()[1:] == [None] * 4
    assert [reason is None for reason in reasons.to_pylist()] == [True, False, False, False, True]


def test_a_time_without_an_offset_is_of_the_given_zone():
    at = schema(("at", T()))
    rome = JsonValues(at, JsonOptions(time_zone="Europe/Rome")).columns_decoder()()
    utc = JsonValues(at, OPTIONS).columns_decoder()()
    one = pa.array([b'{"at": "2026-01-01T12:00:00"}'])

    assert (rome(one)[0][0]["at"].as_py() - utc(one)[0][0]["at"].as_py()).total_seconds() == -3600


def test_without_a_session_the_zone_is_utc():
    if SparkSession._instantiatedSession is not None:
        pytest.skip("a test of this process has started a session")

    assert time_zone() == "UTC"


def test_decoded_values_are_nullable_and_a_variant_comes_as_its_text():
    kind = schema(
        ("v", types.VariantType()),
        ("l", types.ArrayType(types.VariantType(), containsNull=False)),
        ("m", types.MapType(types.StringType(), types.IntegerType(), valueContainsNull=False)),
        ("s", schema(("a", types.VariantType()), nullable=False)),
        nullable=False,
    )

    stored = JsonValues(kind, OPTIONS).spark_type()

    assert stored.simpleString() == "struct<v:string,l:array<string>,m:map<string,int>,s:struct<a:"\
        "string>>"  # fmt: skip
    assert all(field.nullable for field in stored.fields)
    assert stored["l"].dataType.containsNull
    assert stored["m"].dataType.valueContainsNull


def test_without_a_variant_the_decoded_column_is_the_result_itself():
    """An expression around it would cost each batch its analysis."""

    class Parsed:
        def getField(self, name):  # noqa: N802
            return ("field", name)

    assert JsonValues(schema(("a", types.LongType())), OPTIONS).result(Parsed()) == (
        "field", "value",
    )  # fmt: skip
