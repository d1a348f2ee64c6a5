"""A JSON value is stored as it was sent, or refused with its reason: no clock, no rounding."""

from __future__ import annotations

import datetime
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from pipelines.formats import decode
from pipelines.formats.decode import Side
from pipelines.formats.json import JsonValues

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = (
    "id INT, d DATE, at TIMESTAMP, local TIMESTAMP_NTZ, x DOUBLE, f FLOAT, days ARRAY<DATE>, "
    "s STRUCT<at: TIMESTAMP>, by MAP<STRING, DOUBLE>"
)

NO_TIME = "is no date with a time of at most six decimal places"

REFUSED = [
    ('{"d": "20240105"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "2020011"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "1"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "2024"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "2024-01-05 rubbish"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "2024-01-05\\n"}', "d DATE is not YYYY-MM-DD"),
    ('{"d": "2024-01-05T10:00:00"}', "d DATE is not YYYY-MM-DD"),
    ('{"days": ["2024-01-05", "7"]}', "days[] DATE is not YYYY-MM-DD"),
    ('{"at": "10:15:00"}', f"at TIMESTAMP {NO_TIME}"),
    ('{"at": "T10:15"}', f"at TIMESTAMP {NO_TIME}"),
    ('{"at": "1:1"}', f"at TIMESTAMP {NO_TIME}"),
    ('{"at": "2024-01-05T10:15:30.1234567Z"}', f"at TIMESTAMP {NO_TIME}"),
    ('{"s": {"at": "10:15"}}', f"s.at TIMESTAMP {NO_TIME}"),
    ('{"local": "2024-01-05 10:15:30.1234567"}', f"local TIMESTAMP_NTZ {NO_TIME}"),
    ('{"x": 1e400}', "x DOUBLE is out of range"),
    ('{"x": -1e400}', "x DOUBLE is out of range"),
    ('{"f": 1e39}', "f FLOAT is out of range"),
    ('{"by": {"a": 1, "b": 1e999}}', "by[] DOUBLE is out of range"),
    ('{"id": 1, "id": 2}', "key id twice"),
    ('{"d": "20240105", "d": "20240105"}', "key d twice"),
]

TAKEN = [
    '{"d": "2024-01-05", "at": "2024-01-05T10:15:30.123456Z", "x": 1.5, "f": 1e38}',
    '{"at": "2024-01-05 10:15:30+01:00", "local": "2024-01-05T10:15:30.12"}',
    '{"at": "2024-01-05 10:15:30 Europe/Berlin", "local": "2024-01-05"}',
    '{"at": "2024-01-05T10:15:30.123456000Z", "days": ["0001-01-01", null]}',
    '{"at": 1700000000, "s": null, "by": {}, "other": "10:15", "x": null}',
    '{"id": 1, "other": 1, "other": 2}',
    "{}",
]

BEHIND_AN_OBJECT = [
    '{"id":1}] rubbish',
    '{"id":3}]',
    '{"id":4}]]',
    '{"id":1}}',
    '{"id":1}} rubbish}',
    '{"id":1}],[{"id":2}',
    '{"id":1},"value":{"id":2}',
    '{"id":1},',
    '{"id":1} {"id":2}',
    '{"s":{}}]{}',
]


def rows_of(spark: SparkSession, values: list[str]) -> DataFrame:
    rows = [(value.encode(), n) for n, value in enumerate(values)]
    frame = spark.createDataFrame(rows, "value BINARY, offset LONG")
    place = {"topic": F.lit("t"), "partition": F.lit(0), "timestamp": F.lit(None), "key": F.lit("")}
    return frame.withColumns(place)


def decoded(spark: SparkSession, values: list[str], ddl: str = SCHEMA) -> tuple[Any, Any]:
    """(offset → row) of the good values, (offset → reason) of the others."""
    schema: Any = StructType.fromDDL(ddl)
    reading = (Side(column="value", values=JsonValues(schema)),)
    parsed = decode.parsed(rows_of(spark, values), reading)
    good = {row.offset: row.value for row in decode.good_rows(parsed, reading).collect()}
    bad = {row.offset: row.reason for row in decode.bad_rows(parsed, reading, "events").collect()}
    return good, bad


def test_what_spark_would_change_is_refused_with_its_reason(spark: SparkSession) -> None:
    good, bad = decoded(spark, [*(value for value, _ in REFUSED), *TAKEN])

    told = [reason for _, reason in sorted(bad.items())]
    assert told == [f"does not fit the schema: {reason}" for _, reason in REFUSED]
    assert len(good) == len(TAKEN)


@pytest.mark.parametrize("ddl", ["id INT", "id INT, s STRUCT<y: INT>"])
def test_text_behind_an_object_is_no_object(spark: SparkSession, ddl: str) -> None:
    good, bad = decoded(spark, BEHIND_AN_OBJECT, ddl)

    assert good == {}
    assert set(bad.values()) == {"not JSON"}


PARTS = st.sampled_from(
    ["2024", "20", "1", "-", "-01", "-05", "-5", "T", " ", "10", ":15", ":30", ".123", ".1234567",
     "Z", "+01:00", "z", "rubbish", "\n", "10:15:00", "2024-01-05", "T10:15:30"]
)  # fmt: skip
TEXTS = st.lists(PARTS, min_size=1, max_size=6).map("".join)


@given(texts=st.lists(TEXTS, min_size=50, max_size=200))
@settings(max_examples=10, deadline=None)
def test_a_stored_date_is_its_text_and_a_stored_time_begins_with_its_date(
    spark: SparkSession, texts: list[str]
) -> None:
    values = [json.dumps({key: text}) for text in texts for key in ("d", "local")]

    good, bad = decoded(spark, values, "d DATE, local TIMESTAMP_NTZ")

    assert good.keys() | bad.keys() == set(range(len(values)))
    for at, row in good.items():
        text = texts[at // 2]
        if at % 2 == 0:
            assert row.d == datetime.date.fromisoformat(text)
            assert row.d.isoformat() == text
        else:
            assert _microseconds(row.local) == _digits(text)
    for at in set(range(0, len(values), 2)) - good.keys():
        assert not _is_date(texts[at // 2])


def _microseconds(at: datetime.datetime) -> str:
    return at.strftime("%Y%m%d%H%M%S%f")


def _digits(text: str) -> str:
    """Year to microseconds, without what separates them."""
    whole, _, part = text.partition(".")
    return re.sub("[^0-9]", "", whole).ljust(14, "0") + part.rstrip("0").ljust(6, "0")


def _is_date(text: str) -> bool:
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text, re.ASCII) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True
