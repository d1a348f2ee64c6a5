"""Messages: what JSON is taken, what comes out again, and which partition a key goes to."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.records.builder import Record
from josefine_broker.text.errors import TextError
from josefine_broker.text.messages import Message, ok, parse_message, partition_of, shown_record


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", Message()),
        ('{"Header":"h","Key":"k","Body":"b"}', Message("h", "k", "b")),
        ('{ "BODY" : "\\u00e9\\n" , "key": "" }', Message(None, "", "é\n")),
        ('{"Body":"\\ud83d\\ude00"}', Message(body="😀")),
    ],
)
def test_message_is_an_object_whose_names_come_in_any_case(text: str, message: Message) -> None:
    assert parse_message(text) == message


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the message is not JSON: Expecting value"),
        ("{", "the message is not JSON: Expecting property name enclosed in double quotes"),
        ("NaN", "the message is not JSON: it cannot be read"),
        ("[" * 100_000, "the message is not JSON: it cannot be read"),
        ("9" * 10_000, "the message is not JSON: it cannot be read"),
        ("[]", "the message must be a JSON object with Header, Key and Body"),
        ('"x"', "the message must be a JSON object with Header, Key and Body"),
        ('{"Value":"x"}', "the message has 'Value'; only Header, Key and Body are known"),
        ('{"Body":"x","body":"y"}', "the message names Body twice"),
        ('{"Body":1}', "Body of the message must be a text"),
        ('{"Key":null}', "Key of the message must be a text"),
        ('{"Body":"\\ud800"}', "Body of the message is half a character"),
    ],
)
def test_what_is_no_message_is_named(text: str, why: str) -> None:
    with pytest.raises(TextError) as caught:
        parse_message(text)

    assert str(caught.value) == f"Error, {why}"


@pytest.mark.parametrize(
    ("key", "fnv_1a"),
    [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)],  # of the authors' test suite
)
def test_key_goes_by_fnv_1a_over_all_partitions(key: str, fnv_1a: int) -> None:
    """Checklist row 44."""
    assert partition_of(key, 2**31) == fnv_1a & 0x7FFFFFFF
    assert partition_of(key, 7) == (fnv_1a & 0x7FFFFFFF) % 7


@given(*[st.text(st.characters(exclude_categories=["Cs"]))] * 3)
def test_the_same_text_comes_out_that_went_in(header: str, key: str, body: str) -> None:
    message = {"Header": header, "Key": key, "Body": body}
    record = parse_message(json.dumps(message)).as_record(5)

    shown = shown_record(record._replace(offset=9))

    assert shown == {**message, "Offset": 9, "Timestamp": 5}
    line = ok([shown])
    assert "\n" not in line
    assert json.loads(line) == {"Ok": True, "Data": [shown]}


def test_bytes_that_are_no_text_are_shown_as_far_as_they_are() -> None:
    record = Record(b"\xff", None, (("other", b"x"), ("Header", None)), 1, 2)

    assert shown_record(record) == {
        "Header": "", "Body": "", "Key": "\ufffd", "Offset": 2, "Timestamp": 1,
    }  # fmt: skip


def test_more_is_said_only_where_there_is_more() -> None:
    assert ok([]) == '{"Ok":true,"Data":[]}'
    assert ok(["a"], is_more=True) == '{"Ok":true,"Data":["a"],"More":true}'
