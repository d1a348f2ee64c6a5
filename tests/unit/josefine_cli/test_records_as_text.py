"""Records as lines and JSON: exact for programs, harmless for terminals."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.reader import Record
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import iso_time, printable
from josefine_cli.kafka.consume import parse_partitions
from josefine_cli.kafka.consume_records import as_object
from josefine_cli.kafka.produce import parse_json

TP = TopicPartition("t", 3)
BYTES = st.none() | st.binary(max_size=30)


@given(
    key=BYTES,
    value=BYTES,
    headers=st.lists(st.tuples(st.text(max_size=5), BYTES), max_size=3),
    timestamp_ms=st.integers(0, 2**50),
)
def test_what_consume_writes_as_json_produce_reads_back_exactly(
    key: bytes | None,
    value: bytes | None,
    headers: list[tuple[str, bytes | None]],
    timestamp_ms: int,
) -> None:
    record = Record(key, value, tuple(headers), timestamp_ms, 9)
    line = json.dumps(as_object(TP, record), ensure_ascii=False)

    read = parse_json(line.encode())

    assert (read.key, read.value, read.headers) == (key, value, tuple(headers))
    assert (read.partition, read.timestamp_ms) == (3, timestamp_ms)


def test_json_values_that_are_no_text_are_written_as_compact_json() -> None:
    read = parse_json('{"key": 5, "value": {"a": [1, "ü"]}, "headers": {"h": "v"}}'.encode())

    assert (read.key, read.value) == (b"5", '{"a":[1,"ü"]}'.encode())
    assert read.headers == (("h", b"v"),)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b'{"valeu": 1}', "unknown field 'valeu': there are key, value"),
        (b'{"value_base64": "?"}', "value_base64 is not valid base64"),
        (b'{"partition": "1"}', "partition must be a whole number"),
        (b'{"timestamp_ms": -5}', "timestamp_ms must be a whole number"),
        (b'{"headers": [1]}', "headers must be an object"),
    ],
)
def test_a_line_that_is_no_record_is_refused_with_the_reason(line: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_json(line)


@given(st.binary())
def test_nothing_that_is_shown_can_control_a_terminal(data: bytes) -> None:
    assert printable(data).isprintable()


def test_text_is_shown_as_it_is_and_null_as_null() -> None:
    assert printable("grüße 🦊".encode()) == "grüße 🦊"
    assert printable(b"\x1b[2J\xff\n") == "\\x1b[2J\\xff\\n"
    assert printable(None) == "null"


def test_times_are_utc_and_absent_ones_are_none() -> None:
    assert iso_time(1_356_998_400_123) == "2013-01-01T00:00:00.123Z"
    assert iso_time(-1) is None
    assert iso_time(2**62) is None


def test_partitions_are_numbers_and_ranges() -> None:
    assert parse_partitions("0,2,5-7") == [0, 2, 5, 6, 7]


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "1,,2", "1-b"])
def test_partitions_in_another_form_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not like"):
        parse_partitions(text)
