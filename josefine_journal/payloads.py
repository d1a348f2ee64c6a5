"""The encoding of an append's value: its events as JSON or as bytes, as in kafka-journal.

JSON if no event is binary: `{"events":[{"seqNr":1,"tags":["0"],"payloadType":"json",
"payload":1}],"metadata":{"expireAfter":"1 day","data":{}}}`; a payload without a type is JSON.

Bytes, big-endian: version (0, 1) · int32 count · per event { int32 size · int64 seqNr · int32 bytes
of tags { int32 length, UTF-8 }* · uint8 kind · int32 length · payload } · from version 1 on the
metadata as JSON to the end. A newer version is read as 1 without its metadata.
"""

import json
from collections.abc import Mapping
from struct import Struct
from typing import Any, NamedTuple

from josefine_journal.actions import PayloadType
from josefine_journal.durations import read_duration, write_duration
from josefine_journal.errors import JournalError
from josefine_journal.events import (
    Binary,
    Event,
    Events,
    Json,
    Payload,
    PayloadMetadata,
    SeqNr,
    Text,
)
from josefine_journal.json_text import compact, parse, parse_object

VERSION = 1
_NONE, _BINARY, _JSON, _TEXT = range(4)
"""Kinds of payload, one byte."""

_INT, _LONG = Struct(">i"), Struct(">q")
_EVENT_BYTES_MIN = _LONG.size + _INT.size + 1 + _INT.size


def encode_payload(events: Events) -> tuple[PayloadType, bytes]:
    """JSON, unless an event is binary. Raises JournalError for values that are not JSON."""
    if any(isinstance(event.payload, Binary) for event in events.events):
        return PayloadType.BINARY, encode_binary(events)
    return PayloadType.JSON, encode_json(events)


def decode_payload(kind: PayloadType, value: bytes) -> Events:
    """The reverse. Raises JournalError."""
    decode = decode_binary if kind is PayloadType.BINARY else decode_json
    try:
        return decode(value)
    except ValueError as error:  # invalid events, such as two of one number
        raise JournalError(f"payload: {error}") from error


# -- JSON


def encode_json(events: Events) -> bytes:
    """Raises JournalError for a binary event."""
    listed = [_json_event(event) for event in events.events]
    return compact({"events": listed, "metadata": _metadata_fields(events.metadata)}).encode()


def _json_event(event: Event) -> dict[str, Any]:
    fields: dict[str, Any] = {"seqNr": event.seq_nr, "tags": list(event.tags)}
    match event.payload:
        case Json(value):
            fields |= {"payloadType": "json", "payload": value}
        case Text(text):
            fields |= {"payloadType": "text", "payload": text}
        case Binary():
            raise JournalError(f"event {event.seq_nr} is binary, which JSON cannot contain")
    return fields


def decode_json(value: bytes) -> Events:
    """Raises JournalError, ValueError."""
    fields = parse_object(value, "payload")
    listed = fields.get("events")
    if not isinstance(listed, list):
        raise JournalError("payload: events is missing or not a list")
    events = tuple(_event_of(at, each) for at, each in enumerate(listed))
    return Events(events=events, metadata=_metadata_of(fields.get("metadata")))


def _event_of(at: int, fields: object) -> Event:
    where = f"payload: events[{at}]"
    if not isinstance(fields, dict):
        raise JournalError(f"{where} is not an object")
    seq_nr, tags = fields.get("seqNr"), fields.get("tags") or []
    if not isinstance(seq_nr, int) or isinstance(seq_nr, bool):
        raise JournalError(f"{where}: seqNr is {seq_nr!r}")
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise JournalError(f"{where}: tags is {json.dumps(tags)[:80]}")
    return Event(seq_nr=SeqNr(seq_nr), tags=tuple(tags), payload=_payload_of(where, fields))


def _payload_of(where: str, fields: Mapping[str, Any]) -> Payload | None:
    if "payload" not in fields:
        return None
    kind, payload = fields.get("payloadType", "json"), fields["payload"]
    if kind == "json":
        return Json(payload)
    if kind == "text" and isinstance(payload, str):
        return Text(payload)
    raise JournalError(f"{where}: a payload of type {kind!r} is {type(payload).__name__}")


# -- bytes


def encode_binary(events: Events) -> bytes:
    """In version 1."""
    parts = [bytes((VERSION,)), _INT.pack(len(events.events))]
    for event in events.events:
        encoded = _encode_event(event)
        parts += (_INT.pack(len(encoded)), encoded)
    parts.append(compact(_metadata_fields(events.metadata)).encode())
    return b"".join(parts)


def _encode_event(event: Event) -> bytes:
    tags = b"".join(_sized(_bytes(tag, f"a tag of event {event.seq_nr}")) for tag in event.tags)
    match event.payload:
        case None:
            kind, data = _NONE, b""
        case Binary(data):
            kind = _BINARY
        case Json(value):
            kind, data = _JSON, compact(value).encode()
        case Text(text):
            kind, data = _TEXT, _bytes(text, f"the text of event {event.seq_nr}")
    return _LONG.pack(event.seq_nr) + _sized(tags) + bytes((kind,)) + _sized(data)


def _bytes(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise JournalError(f"payload: {what} is not valid UTF-8: {error}") from error


def _sized(data: bytes) -> bytes:
    return _INT.pack(len(data)) + data


class _Part(NamedTuple):
    """A part that was read, and the position of the rest."""

    data: bytes
    rest: int


def decode_binary(value: bytes) -> Events:
    """Raises JournalError, ValueError."""
    if not value:
        raise JournalError("payload: it is empty")
    version, at = value[0], 1
    count = _int_at(value, at, "the number of events")
    at += _INT.size
    if not 0 < count <= (len(value) - at) // (_INT.size + _EVENT_BYTES_MIN):
        raise JournalError(f"payload: {count} events in {len(value)} bytes")
    events = []
    for number in range(count):
        part = _sized_at(value, at, f"event {number}")
        events.append(_decode_event(part.data, number))
        at = part.rest
    if version == 0:
        if at != len(value):
            raise JournalError(f"payload: {len(value) - at} bytes after the events")
        return Events(events=tuple(events))
    if version > VERSION:
        return Events(events=tuple(events))
    return Events(
        events=tuple(events), metadata=_metadata_of(parse(value[at:], "payload metadata"))
    )


def _decode_event(data: bytes, number: int) -> Event:
    what = f"event {number}"
    if len(data) < _EVENT_BYTES_MIN:
        raise JournalError(f"payload: {what} has {len(data)} bytes")
    (seq_nr,) = _LONG.unpack_from(data)
    tags = _sized_at(data, _LONG.size, f"the tags of {what}")
    if tags.rest >= len(data):
        raise JournalError(f"payload: {what} ends after its tags")
    kind = data[tags.rest]
    body = _sized_at(data, tags.rest + 1, f"the payload of {what}")
    if body.rest != len(data):
        raise JournalError(f"payload: {what} has {len(data) - body.rest} bytes too many")
    return Event(
        seq_nr=SeqNr(seq_nr),
        tags=_decode_tags(tags.data, what),
        payload=_decode_kind(kind, body.data, what),
    )


def _decode_tags(data: bytes, what: str) -> tuple[str, ...]:
    tags, at = [], 0
    while at < len(data):
        tag = _sized_at(data, at, f"a tag of {what}")
        tags.append(_utf8(tag.data, f"a tag of {what}"))
        at = tag.rest
    return tuple(tags)


def _decode_kind(kind: int, data: bytes, what: str) -> Payload | None:
    match kind:
        case 0 if not data:
            return None
        case 1:
            return Binary(data)
        case 2:
            return Json(parse(data, f"the payload of {what}"))
        case 3:
            return Text(_utf8(data, f"the payload of {what}"))
    raise JournalError(f"payload: {what} has {len(data)} bytes of kind {kind}")


def _utf8(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise JournalError(f"payload: {what} is not valid UTF-8: {error}") from error


def _int_at(data: bytes, at: int, what: str) -> int:
    if len(data) - at < _INT.size:
        raise JournalError(f"payload: it ends where {what} should be, at byte {at}")
    return int(_INT.unpack_from(data, at)[0])


def _sized_at(data: bytes, at: int, what: str) -> _Part:
    size = _int_at(data, at, f"the size of {what}")
    begin = at + _INT.size
    if not 0 <= size <= len(data) - begin:
        raise JournalError(f"payload: {what} has {size} bytes, {len(data) - begin} are there")
    return _Part(data[begin : begin + size], begin + size)


# -- metadata, in both


def _metadata_fields(metadata: PayloadMetadata) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if metadata.expire_after is not None:
        fields["expireAfter"] = write_duration(metadata.expire_after)
    if metadata.data is not None:
        fields["data"] = metadata.data
    return fields


def _metadata_of(fields: object) -> PayloadMetadata:
    if fields is None:  # of a version without metadata
        return PayloadMetadata()
    if not isinstance(fields, dict):
        raise JournalError(f"payload: metadata is {json.dumps(fields)[:80]}")
    expire_after, data = fields.get("expireAfter"), fields.get("data")
    if data is not None and not isinstance(data, dict):
        raise JournalError(f"payload: metadata.data is {json.dumps(data)[:80]}")
    return PayloadMetadata(
        expire_after=None if expire_after is None else read_duration(expire_after), data=data
    )
