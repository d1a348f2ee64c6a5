"""A JSON value is stored as it was sent, or refused with its reason: no clock, no rounding."""

from __future__ import annotations

import datetime
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructType

from josefine_arrow.formats.json.options import (
    EPOCH_MILLIS,
    EPOCH_SECONDS,
    GROUPED,
    ROUNDED,
    JsonOptions,
)
from josefine_spark.sessions.registration import make_active
from pipelines.formats import decode
from pipelines.formats.decode import Side
from pipelines.formats.json import JsonValues, time_zone

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SCHEMA = (
    "id INT, d DATE, at TIMESTAMP, local TIMESTAMP_NTZ, x DOUBLE, f FLOAT, days ARRAY<DATE>, "
    "s STRUCT<at: TIMESTAMP>, by MAP<STRING, DOUBLE>, amount DECIMAL(10,2), huge DECIMAL(38,0), "
    "lines ARRAY<STRUCT<price: DECIMAL(6,1), tag: STRING>>, text STRING, v VARIANT, b BINARY"
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
    ('{"x": 1e-400}', "x DOUBLE is out of range"),
    ('{"at": 1700000000}', "at TIMESTAMP is a number"),
    ('{"at": "2024-01-05 10:15 Nowhere/Town"}',
     "at TIMESTAMP has a zone that does not exist: Nowhere/Town"),
    ('{"at": "2024-01-05 10:15+18:01"}', "at TIMESTAMP has an offset that no zone has: +18:01"),
    ('{"local": "2024-01-05T10:15:30Z"}', f"local TIMESTAMP_NTZ {NO_TIME}"),
    ('{"amount": 1.239}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": "1.239"}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1.00000000000000000000001}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1e-3}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1e-999999999}', "amount DECIMAL(10,2) would be rounded"),
    ('{"amount": 1e999999999}', "amount DECIMAL(10,2)"),
    ('{"amount": 100000000}', "amount DECIMAL(10,2)"),
    ('{"amount": "2,5"}', "amount DECIMAL(10,2) has a comma"),
    ('{"amount": "1,000.25"}', "amount DECIMAL(10,2) has a comma"),
    ('{"lines": [{"price": 1.5}, {"price": 1.55}]}', "lines[].price DECIMAL(6,1) would be rounded"),
    ('{"text": "\\ud800"}', "text STRING has half a surrogate pair"),
    ('{"v": {"a": {"k": 1, "k": 2}}}', "key v.a.k twice"),
    ('{"v": 1e400}', "v VARIANT would change the number 1e400"),
    ('{"v": 0.12345678901234567890123456789012345678901}',
     "v VARIANT would change the number 0.12345678901234567890123456789012345..."),
    ('{"b": "!"}', "b BINARY"),
    ('{"id": 1.0, "lines": {}}', "id INT, lines ARRAY<STRUCT<price: DECIMAL(6,1), tag: STRING>>"),
    ('{"by": {"a": 1, "a": 2}}', "key by.a twice"),
    ('{"lines": [{"tag": "x", "tag": "y"}]}', "key lines[].tag twice"),
    ('{"id": 1, "id": 2}', "key id twice"),
    ('{"d": "20240105", "d": "20240105"}', "key d twice, d DATE is not YYYY-MM-DD"),
]  # fmt: skip

TAKEN = [
    '{"d": "2024-01-05", "at": "2024-01-05T10:15:30.123456Z", "x": 1.5, "f": 1e38}',
    '{"at": "2024-01-05 10:15:30+01:00", "local": "2024-01-05T10:15:30.12"}',
    '{"at": "2024-01-05 10:15:30 Europe/Berlin", "local": "2024-01-05"}',
    '{"at": "2024-01-05T10:15:30.123456000Z", "days": ["0001-01-01", null]}',
    '{"s": null, "by": {}, "other": "10:15", "x": null, "lines": [null], "b": "AAE="}',
    '{"id": 1, "amount": 1.2300, "huge": 99999999999999999999999999999999999999}',
    '{"amount": -1.5e2, "lines": [{"price": 2.50, "tag": 1.10}], "v": {"a": [1.5e2, null]}}',
    '{"ID": 1, "other": 1.23456}',
    '\ufeff{"id": 1}',
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


def decoded(
    spark: SparkSession,
    values: list[str],
    ddl: str = SCHEMA,
    options: JsonOptions | None = None,
) -> tuple[Any, Any]:
    """(offset → row) of the good values, (offset → reason) of the others."""
    schema: Any = StructType.fromDDL(ddl)
    reading = (Side(column="value", values=JsonValues(schema, options)),)
    parsed = decode.parsed(rows_of(spark, values), reading)
    good = {row.offset: row.value for row in decode.good_rows(parsed, reading).collect()}
    bad = {row.offset: row.reason for row in decode.bad_rows(parsed, reading, "events").collect()}
    return good, bad


def test_what_spark_would_change_is_refused_with_its_reason(spark: SparkSession) -> None:
    good, bad = decoded(spark, [*(value for value, _ in REFUSED), *TAKEN])

    told = [reason for _, reason in sorted(bad.items())]
    assert told == [f"does not fit the schema: {reason}" for _, reason in REFUSED]
    assert len(good) == len(TAKEN)


def test_a_text_is_the_one_that_was_sent(spark: SparkSession) -> None:
    sent = ["1.10", "-0", "1e400", "true", '{"b" : 1.0,"a":[ ]}', "[1, 2.50]", '"\u00e9\\n"']
    values = [f'{{"text": {text}, "v": {{"n": [1.10]}}}}' for text in sent]

    good, bad = decoded(spark, values, "text STRING, v VARIANT")

    assert bad == {}
    assert [row.text for _, row in sorted(good.items())] == [*sent[:-1], "\u00e9\n"]
    assert good[0].v.toJson() == '{"n":[1.10]}'


def test_what_is_accepted_by_name_is_no_misfit(spark: SparkSession) -> None:
    values = [
        '{"amount": 1.235}', '{"amount": -1.235}', '{"amount": "1,234.5"}', '{"at": 1700000000.5}',
        '{"amount": "12,34"}', '{"amount": 99999999.995}',
    ]  # fmt: skip
    accept = frozenset((ROUNDED, GROUPED, EPOCH_SECONDS))

    good, bad = decoded(
        spark, values, "amount DECIMAL(10,2), at TIMESTAMP", JsonOptions(accept=accept)
    )

    assert [str(good[at].amount) for at in range(3)] == ["1.24", "-1.24", "1234.50"]
    assert good[3].at.timestamp() == 1700000000.5
    assert sorted(bad) == [4, 5]
    millis = JsonOptions(accept=frozenset((EPOCH_MILLIS,)))
    good, _ = decoded(spark, ['{"at": 1700000000500}'], "at TIMESTAMP", millis)
    assert good[0].at.timestamp() == 1700000000.5


def test_strict_refuses_a_key_in_another_letter_case(spark: SparkSession) -> None:
    values = ['{"ID": 1}', '{"id": 1, "lines": [{"Tag": "x"}]}', '{"id": 1, "other": 2}']

    good, bad = decoded(
        spark, values, "id INT, lines ARRAY<STRUCT<tag: STRING>>", JsonOptions(strict=True)
    )

    assert list(good) == [2]
    assert bad == {
        0: "does not fit the schema: key ID in another letter case",
        1: "does not fit the schema: key lines[].Tag in another letter case",
    }


def test_a_local_time_is_in_the_time_zone_of_the_session(spark: SparkSession) -> None:
    values = ['{"at": "2024-07-01 12:00:00"}', '{"at": "2024-03-31 02:30:00"}']

    good, bad = decoded(spark, values, "at TIMESTAMP", JsonOptions(time_zone="Europe/Berlin"))

    assert good[0].at.timestamp() == 1719828000
    assert bad[1].endswith(
        "at TIMESTAMP does not exist in Europe/Berlin: its clocks are set forward"
    )


def test_every_thread_has_the_time_zone_of_its_session(spark: SparkSession) -> None:
    name = "spark.sql.session.timeZone"
    before = str(spark.conf.get(name))
    spark.conf.set(name, "Asia/Tokyo")
    other = spark.newSession()
    other.conf.set(name, "Europe/Berlin")

    def zone_with_other() -> str:
        make_active(other)
        other.createDataFrame([(1,)], "n INT")  # PySpark takes this for active in all threads
        return time_zone()

    try:
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(time_zone).result() == time_zone() == "Asia/Tokyo"
            assert threads.submit(zone_with_other).result() == "Europe/Berlin"
            assert time_zone() == "Asia/Tokyo"
    finally:
        spark.conf.set(name, before)


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
