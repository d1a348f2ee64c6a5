"""What Spark's JSON reader changes without a word: kept as it is, or refused under `strict`."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from pipelines.formats import decode
from pipelines.formats.decode import Side
from pipelines.formats.json import JsonValues

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = (
    "id INT, amount DECIMAL(10,2), at TIMESTAMP, "
    "lines ARRAY<STRUCT<price: DECIMAL(6,1), tag: STRING>>, by MAP<STRING, TIMESTAMP>"
)

REFUSED = [
    ('{"amount": 1.239}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": "1.239"}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1.00000000000000000000001}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1e-3}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": "2,5"}', "amount DECIMAL(10,2) would lose its comma"),
    ('{"amount": "1,00.25"}', "amount DECIMAL(10,2) would lose its comma"),
    ('{"lines": [{"price": "1,5"}]}', "lines[].price DECIMAL(6,1) would lose its comma"),
    ('{"at": 1700000000000}', "at TIMESTAMP is a number"),
    ('{"ID": 1}', "key ID in another letter case"),
    ('{"lines": [{"price": 1.5}, {"price": 1.55}]}', "lines[].price DECIMAL(6,1) would be rounded"),
    ('{"lines": [{"Tag": "x"}]}', "key lines[].Tag in another letter case"),
    ('{"by": {"a": "2024-01-01", "b": 7}}', "by[] TIMESTAMP is a number"),
]

TAKEN = [
    '{"id": 1, "amount": 1.2300, "at": "2024-01-01T00:00:00Z", "other": 1.23456}',
    '{"amount": -1.5e2, "lines": [{"price": 2.50, "tag": "x"}, null], "by": {}}',
    '{"amount": "-1,234,567.25"}',
    '{"amount": "1,000.25", "lines": [], "at": null, "amount2": 1.239}',
    "{}",
]


def source(spark: SparkSession, values: list[str]) -> DataFrame:
    rows = [(value.encode(), n) for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "value BINARY, offset LONG")
    place = {"topic": F.lit("t"), "partition": F.lit(0), "timestamp": F.lit(None), "key": F.lit("")}
    return frame.withColumns(place)


def test_strict_refuses_each_with_its_reason_at_every_depth(spark: SparkSession) -> None:
    schema: Any = StructType.fromDDL(SCHEMA)
    values = [value for value, _ in REFUSED]
    reading = (Side(column="value", values=JsonValues(schema, strict=True)),)

    parsed = decode.parsed(source(spark, [*values, *TAKEN]), reading)

    bad = decode.bad_rows(parsed, reading, "events").orderBy("offset").collect()
    assert [(bytes(row.value).decode(), row.reason) for row in bad] == [
        (value, f"does not fit the schema: {reason}") for value, reason in REFUSED
    ]
    assert decode.good_rows(parsed, reading).count() == len(TAKEN)


def test_without_strict_they_are_what_from_json_makes_of_them(spark: SparkSession) -> None:
    schema: Any = StructType.fromDDL(SCHEMA)
    values = ['{"amount": 1.239}', '{"at": 1700000000}', '{"ID": 1}', '{"amount": "2,5"}']
    reading = (Side(column="value", values=JsonValues(schema)),)

    parsed = decode.parsed(source(spark, values), reading)

    amount, at, other, comma = (
        row.value for row in decode.good_rows(parsed, reading).orderBy("offset").collect()
    )
    assert amount.amount == decimal.Decimal("1.24")
    assert at.at.replace(tzinfo=datetime.UTC) == datetime.datetime(
        2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC
    )
    assert other.id is None
    assert comma.amount == decimal.Decimal("25.00")
