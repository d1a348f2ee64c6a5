"""A field of a CSV line is stored as it was sent, or its line is refused with the column's name."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from pipelines.formats import decode
from pipelines.formats.decode import Side
from pipelines.formats.text import CsvValues

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = "id INT, d DATE, at TIMESTAMP, local TIMESTAMP_NTZ, x DOUBLE, f FLOAT"

NO_TIME = "is no date with a time of at most six decimal places"

REFUSED = [
    ("1,20240105,,,,", "d DATE is not YYYY-MM-DD"),
    ("1,1,,,,", "d DATE is not YYYY-MM-DD"),
    ("1,2024-01-05 rubbish,,,,", "d DATE is not YYYY-MM-DD"),
    ("1,2024-01-05T10:00:00,,,,", "d DATE is not YYYY-MM-DD"),
    ("1,,10:15:00,,,", f"at TIMESTAMP {NO_TIME}"),
    ("1,,2024-01-05T10:15:30.1234567Z,,,", f"at TIMESTAMP {NO_TIME}"),
    ("1,,,2024-01-05 10:15:30.1234567,,", f"local TIMESTAMP_NTZ {NO_TIME}"),
    ("1,,,,1e400,", "x DOUBLE is out of range"),
    ("1,,,,NaN,", "x DOUBLE"),
    ("1,,,,,-1e39", "f FLOAT is out of range"),
    ("1,1,10:15,,,", f"d DATE is not YYYY-MM-DD, at TIMESTAMP {NO_TIME}"),
]

TAKEN = [
    "1,2024-01-05,2024-01-05T10:15:30.123456Z,2024-01-05 10:15:30,1.5,1e38",
    '2,"2024-01-05","2024-01-05 10:15:30+01:00",,-1e308,-0.5',
    "3,,,,,",
]


def test_what_spark_would_change_is_refused_with_its_columns(spark: SparkSession) -> None:
    schema: Any = StructType.fromDDL(SCHEMA)
    reading = (Side(column="value", values=CsvValues(schema)),)
    lines = [*(line for line, _ in REFUSED), *TAKEN]
    rows = [(line.encode(), n) for n, line in enumerate(lines)]
    place = {"topic": F.lit("t"), "partition": F.lit(0), "timestamp": F.lit(None), "key": F.lit("")}
    frame = spark.createDataFrame(rows, "value BINARY, offset LONG").withColumns(place)

    parsed = decode.parsed(frame, reading)

    bad = decode.bad_rows(parsed, reading, "events").orderBy("offset").collect()
    assert [row.reason for row in bad] == [
        f"does not fit the schema: {columns}" for _, columns in REFUSED
    ]
    good = decode.good_rows(parsed, reading).orderBy("offset").collect()
    assert [row.value.id for row in good] == [1, 2, 3]
