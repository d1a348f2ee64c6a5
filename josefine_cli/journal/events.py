"""The line format of a journal's events, for `josefine journal append` and `read`. No I/O.

A line is a JSON object with `seq_nr`, `tags` and one of `payload` (any JSON), `text` (plain text)
and `payload_base64` (bytes), or none of them for an event without a payload. Additional fields of
`read --json` are ignored, so that its lines can be appended elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import difflib
import json
from collections.abc import Iterable
from typing import Any

from josefine_cli.base.output import iso_time, printable, put_bytes
from josefine_journal.durations import write_duration
from josefine_journal.events import Binary, Event, Json, Payload, SeqNr, Text
from josefine_journal.records import EventRecord

PAYLOADS = ("payload", "text", "payload_base64")
FIELDS = ("seq_nr", "tags", *PAYLOADS)
PASSED_OVER = (
    "timestamp_ms", "time", "partition", "offset", "origin", "version", "metadata",
    "payload_metadata", "expire_after", "headers",
)  # fmt: skip


def parse_events(lines: Iterable[bytes]) -> list[tuple[int | None, Event]]:
    """The number in each line (None: it has none), and its event, in that case numbered from 1.

    Raises ValueError with the number of the line.
    """
    found: list[tuple[int | None, Event]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found.append(_event(line, len(found) + 1))
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from error
    return found


def _event(line: bytes, otherwise: int) -> tuple[int | None, Event]:
    try:
        fields = json.loads(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError("not a JSON object")
    _check_fields(fields)
    named = fields.get("seq_nr")
    if named is not None and (not isinstance(named, int) or isinstance(named, bool)):
        raise ValueError(f"seq_nr {json.dumps(named)} is not a whole number")
    tags = fields.get("tags") or []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("tags is not a list of strings")
    seq_nr = SeqNr(otherwise if named is None else named)
    return named, Event(seq_nr=seq_nr, tags=tuple(tags), payload=_payload(fields))


def _check_fields(fields: dict[str, Any]) -> None:
    for name in fields:
        if name not in (*FIELDS, *PASSED_OVER):
            near = difflib.get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(FIELDS)}"
            raise ValueError(f"unknown field '{name}': {hint}")
    there = [name for name in PAYLOADS if name in fields]
    if len(there) > 1:
        raise ValueError(f"{there[0]} and {there[1]}: an event has one payload")


def _payload(fields: dict[str, Any]) -> Payload | None:
    if "payload" in fields:
        return Json(fields["payload"])
    if "text" in fields:
        if not isinstance(fields["text"], str):
            raise ValueError("text is not a string")
        return Text(fields["text"])
    if "payload_base64" in fields:
        try:
            return Binary(base64.b64decode(fields["payload_base64"], validate=True))
        except (binascii.Error, TypeError, ValueError) as error:
            raise ValueError("payload_base64 is not valid base64") from error
    return None


def as_object(record: EventRecord) -> dict[str, Any]:
    """An event with all its data, as JSON."""
    event, metadata = record.event, record.metadata
    fields: dict[str, Any] = {"seq_nr": event.seq_nr}
    if event.tags:
        fields["tags"] = list(event.tags)
    fields |= payload_fields(event.payload)
    fields |= {
        "partition": record.partition_offset.partition,
        "offset": record.partition_offset.offset,
        "timestamp_ms": record.timestamp_ms,
        "time": iso_time(record.timestamp_ms),
    }
    expire_after = metadata.payload.expire_after
    values = {
        "origin": record.origin,
        "version": record.version,
        "metadata": metadata.header,
        "payload_metadata": metadata.payload.data,
        "expire_after": None if expire_after is None else write_duration(expire_after),
    }
    fields |= {name: value for name, value in values.items() if value is not None}
    if record.headers:
        fields["headers"] = [_header(name, value) for name, value in record.headers]
    return fields


def payload_fields(payload: Payload | None) -> dict[str, Any]:
    """The payload's field in a line, or none."""
    match payload:
        case Json(value):
            return {"payload": value}
        case Text(text):
            return {"text": text}
        case Binary(data):
            return {"payload_base64": base64.b64encode(data).decode()}
        case None:
            return {}


def _header(name: str, value: bytes | None) -> dict[str, Any]:
    header: dict[str, Any] = {"name": name}
    put_bytes(header, "value", value)
    return header


def as_line(record: EventRecord) -> str:
    """For people: the number, and the payload on one line."""
    tags = f" [{_printable(', '.join(record.event.tags))}]" if record.event.tags else ""
    return f"{record.event.seq_nr}\t{shown(record.event.payload)}{tags}"


def shown(payload: Payload | None) -> str:
    """For people, on one line."""
    match payload:
        case Json(value):
            return _printable(json.dumps(value, ensure_ascii=False))
        case Text(text):
            return _printable(text)
        case Binary(data):
            return printable(data)
        case None:
            return "-"


def _printable(text: str) -> str:
    return printable(text.encode("utf-8", "surrogatepass"))
