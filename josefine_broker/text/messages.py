"""A message of the text protocol: JSON in, a record in the log, JSON out; and the choice of its
partition.

`Body` is the record's value, `Key` its key, `Header` the record header of that name. An empty key
counts as none. Bytes that are not UTF-8 (a Kafka client may write any) are shown as U+FFFD.
"""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from josefine_broker.records.builder import Record
from josefine_broker.text.errors import TextError, shown

HEADER = "Header"
NAMES = {"header": "header", "key": "key", "body": "body"}
FNV_OFFSET, FNV_PRIME = 0x811C9DC5, 0x01000193


class Message(NamedTuple):
    """A published message. None: the JSON does not have the field."""

    header: str | None = None
    key: str | None = None
    body: str | None = None

    def as_record(self, timestamp_ms: int) -> Record:
        header = () if self.header is None else ((HEADER, self.header.encode()),)
        key = self.key.encode() if self.key else None
        return Record(key, (self.body or "").encode(), header, timestamp_ms)


def parse_message(text: str) -> Message:
    """Raises TextError naming the problem in the JSON."""
    try:
        found = json.loads(text, object_pairs_hook=_Pairs, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "it cannot be read"
        raise TextError(f"Error, the message is not JSON: {why}") from None
    if not isinstance(found, _Pairs):
        raise TextError("Error, the message must be a JSON object with Header, Key and Body")
    fields: dict[str, str] = {}
    for name, value in found.pairs:
        field = NAMES.get(name.lower())
        if field is None:
            raise TextError(
                f"Error, the message has '{shown(name)}'; only Header, Key and Body are known"
            )
        if field in fields:
            raise TextError(f"Error, the message names {field.capitalize()} twice")
        if not isinstance(value, str):
            raise TextError(f"Error, {field.capitalize()} of the message must be a text")
        if any("\ud800" <= each <= "\udfff" for each in value):
            raise TextError(f"Error, {field.capitalize()} of the message is half a character")
        fields[field] = value
    return Message(**fields)


class _Pairs:
    """A JSON object as it was written, including repeated names."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def _no_constant(name: str) -> None:
    raise ValueError(name)


def partition_of(key: str, partition_count: int) -> int:
    """FNV-1a of 32 bits over the key's UTF-8, modulo all partitions of the topic."""
    found = FNV_OFFSET
    for byte in key.encode():
        found = ((found ^ byte) * FNV_PRIME) & 0xFFFFFFFF
    return (found & 0x7FFFFFFF) % partition_count


def ok(data: Sequence[object], *, is_more: bool = False) -> str:
    """The reply line of a command that answers with data."""
    reply: dict[str, object] = {"Ok": True, "Data": data}
    if is_more:
        reply["More"] = True
    return json.dumps(reply, ensure_ascii=False, separators=(",", ":"))


def shown_record(record: Record) -> dict[str, object]:
    """A record in the format of CONS."""
    header = next((value for name, value in record.headers if name == HEADER), None)
    return {
        "Header": _text(header),
        "Body": _text(record.value),
        "Key": _text(record.key),
        "Offset": record.offset,
        "Timestamp": record.timestamp_ms,
    }


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")
