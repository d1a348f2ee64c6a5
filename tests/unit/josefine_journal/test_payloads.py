"""The value of an append, against kafka-journal's own files and what they imply."""

import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_journal.actions import PayloadType
from josefine_journal.durations import read_duration, write_duration
from josefine_journal.errors import JournalError
from josefine_journal.events import (
    SEQ_NR_MAX,
    Binary,
    Event,
    Events,
    Json,
    Payload,
    PayloadMetadata,
    SeqNr,
    Text,
)
from josefine_journal.payloads import (
    decode_payload,
    encode_binary,
    encode_json,
    encode_payload,
)

GOLDEN = Path(__file__).parents[2] / "golden" / "kafka-journal"
METADATA = PayloadMetadata(expire_after=timedelta(days=1), data={"key": "value"})
BINARY, JSON = PayloadType.BINARY, PayloadType.JSON


def event(number: int, payload: Payload | None, tags: str) -> Event:
    return Event(seq_nr=SeqNr(number), tags=tuple(tags), payload=payload)


def many(kind: type[Text] | type[Binary] | type[Json]) -> tuple[Event, ...]:
    """Three events, of which the n-th has n + 1 tags and its number as payload."""
    values = [str(n).encode() if kind is Binary else str(n) for n in (1, 2, 3)]
    return tuple(event(n, kind(values[n - 1]), "01234"[: n + 1]) for n in (1, 2, 3))


MIXED = (
    event(1, None, "01"),
    event(2, Binary(b"binary"), "012"),
    event(3, Text("text"), "0123"),
    event(4, Json("json"), "41023"),
)
BYTES = [
    ("v0-events-text-many", Events(events=many(Text))),
    ("v1-events-binary-many", Events(events=many(Binary), metadata=METADATA)),
    ("v1-events-empty-binary-text-json", Events(events=MIXED, metadata=METADATA)),
    ("v1-events-json", Events(events=(event(1, Json("json"), "01"),), metadata=METADATA)),
]
TEXTS = [
    ("Payload-json-many", Events(events=many(Json)[:2], metadata=METADATA)),
    ("Payload-text", Events(events=(event(1, Text(' {"key":"value"} '), "01"),))),
    ("Payload-v0-empty", Events(events=(event(1, None, "01"),))),
]


@pytest.mark.parametrize(("name", "events"), BYTES, ids=[name for name, _ in BYTES])
def test_golden_bytes_are_read_and_version_1_is_written_byte_for_byte(
    name: str, events: Events
) -> None:
    """Checklist row 56."""
    golden = (GOLDEN / f"{name}.bin").read_bytes()

    assert decode_payload(BINARY, golden) == events
    if golden[0] == 1:
        assert encode_binary(events) == golden


@pytest.mark.parametrize(("name", "events"), TEXTS, ids=[name for name, _ in TEXTS])
def test_golden_json_is_read_and_written(name: str, events: Events) -> None:
    """Checklist row 56."""
    golden = (GOLDEN / f"{name}.json").read_bytes()

    assert decode_payload(JSON, golden) == events
    assert json.loads(encode_json(events)) == {"metadata": {}, **json.loads(golden)}


@pytest.mark.parametrize("kind", [Text, Binary, Json])
@pytest.mark.parametrize("version", [0, 1, 2, 255])
def test_every_version_of_every_kind_of_payload_is_read(
    kind: type[Text] | type[Binary] | type[Json], version: int
) -> None:
    """Checklist row 56. What a newer version has behind the events is not known."""
    events = Events(events=many(kind), metadata=METADATA if version == 1 else PayloadMetadata())
    value = bytearray(encode_binary(events))
    value[0] = version
    if version == 0:
        del value[-2:]  # the metadata, {}
    if version > 1:
        value += b"\x00what comes next\xff"

    assert decode_payload(BINARY, bytes(value)) == events


def test_json_is_written_unless_an_event_is_binary() -> None:
    plain = Events(events=(event(1, Text("a"), ""), event(2, Json({"n": 2**63}), "x")))
    mixed = Events(events=MIXED)

    assert encode_payload(plain) == (JSON, encode_json(plain))
    assert encode_payload(mixed) == (BINARY, encode_binary(mixed))


def test_a_payload_without_a_type_is_json() -> None:
    (found,) = decode_payload(JSON, b'{"events":[{"seqNr":1,"payload":"a"}]}').events

    assert found.payload == Json("a")


def test_what_json_cannot_say_is_refused_before_anything_is_written() -> None:
    for bad in (float("nan"), {1, 2}, "\ud800"):
        with pytest.raises(JournalError, match="not representable as JSON"):
            encode_payload(Events(events=(event(1, Json(bad), ""),)))
    with pytest.raises(JournalError, match="a tag of event 1 is not valid UTF-8"):
        encode_binary(Events(events=(event(1, Text("a"), "\ud800"),)))


NUMBERS = st.lists(st.integers(1, SEQ_NR_MAX), min_size=1, max_size=4, unique=True).map(sorted)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=5,
)
PAYLOADS = (
    st.none()
    | st.builds(Json, VALUES)
    | st.builds(Text, st.text(max_size=6))
    | st.builds(Binary, st.binary(max_size=6))
)
DAYS = st.timedeltas(min_value=timedelta(), max_value=timedelta(days=9999))
DATA = st.none() | st.dictionaries(st.text(max_size=3), VALUES, max_size=2)


@st.composite
def any_events(draw: st.DrawFn) -> Events:
    tags = st.lists(st.text(max_size=3), unique=True, max_size=3).map(tuple)
    made = [
        Event(seq_nr=SeqNr(number), tags=draw(tags), payload=draw(PAYLOADS))
        for number in draw(NUMBERS)
    ]
    metadata = PayloadMetadata(expire_after=draw(st.none() | DAYS), data=draw(DATA))
    return Events(events=tuple(made), metadata=metadata)


@settings(deadline=None, max_examples=200)
@given(events=any_events())
def test_events_come_back_as_they_were(events: Events) -> None:
    """Checklist row 57."""
    kind, value = encode_payload(events)

    assert decode_payload(kind, value) == events
    assert decode_payload(BINARY, encode_binary(events)) == events


@settings(deadline=None, max_examples=500)
@given(events=any_events(), at=st.integers(0, 10_000), byte=st.integers(0, 255), cut=st.booleans())
def test_damaged_bytes_are_events_or_one_error(
    events: Events, at: int, byte: int, cut: bool
) -> None:
    for kind, encoded in ((BINARY, encode_binary(events)), encode_payload(events)):
        value = bytearray(encoded)
        place = at % len(value)
        value[place:] = b"" if cut else bytes((byte,)) + value[place + 1 :]
        try:
            decode_payload(kind, bytes(value))
        except JournalError:
            continue


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "it is empty"),
        (b"\x01\x00\x00", "the number of events"),
        (b"\x01\x00\x00\x00\x00{}", "0 events"),
        (b"\x01\x7f\xff\xff\xff" + bytes(40), "2147483647 events"),
        (b"\x01\xff\xff\xff\xff" + bytes(40), "-1 events"),
        (b"\x01\x00\x00\x00\x01\x00\x00\x00\x7f" + bytes(20), "127 bytes"),
    ],
)
def test_an_error_says_what_is_not_there(value: bytes, said: str) -> None:
    with pytest.raises(JournalError, match=said):
        decode_payload(BINARY, value)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"{}", "events is missing or not a list"),
        (b'{"events":[]}', "at least one event"),
        (b'{"events":[7]}', r"events\[0\] is not an object"),
        (b'{"events":[{"seqNr":"1"}]}', r"events\[0\]: seqNr is '1'"),
        (b'{"events":[{"seqNr":1,"tags":[1]}]}', r"events\[0\]: tags"),
        (b'{"events":[{"seqNr":1,"payloadType":"binary","payload":"eA=="}]}', "'binary'"),
        (b'{"events":[{"seqNr":1}],"metadata":{"expireAfter":"soon"}}', "'soon' is not a duration"),
        (b'{"events":[{"seqNr":2},{"seqNr":1}]}', "event 1 follows event 2"),
    ],
)
def test_an_error_in_json_says_where_it_is(value: bytes, said: str) -> None:
    with pytest.raises(JournalError, match=said):
        decode_payload(JSON, value)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("1 day", timedelta(days=1)),
        ("2 days", timedelta(days=2)),
        ("36 hours", timedelta(hours=36)),
        ("1 minute", timedelta(minutes=1)),
        ("1500 milliseconds", timedelta(seconds=1.5)),
        ("0 days", timedelta()),
    ],
)
def test_durations_are_written_as_scala_does(text: str, duration: timedelta) -> None:
    assert write_duration(duration) == text
    assert read_duration(text) == duration


def test_durations_are_read_in_every_form() -> None:
    assert read_duration(86_400_000) == timedelta(days=1)
    assert read_duration("24 hours") == timedelta(days=1)
    assert read_duration("2000 ns") == timedelta(microseconds=2)
    for bad in (True, 1.5, "day", "1 fortnight", 10**30):
        with pytest.raises(JournalError):
            read_duration(bad)
