"""The header `journal.action`: the action of a record on its journal, as JSON.

Field-compatible with kafka-journal; `expectedSeqNr` of an append, `expectedOffset` of a purge and
`partitions` of any action are our additions, which other programs ignore. Rules: absent optional
fields are omitted; unknown fields are ignored; an unknown kind of action is None, because a later
version may have more; everything else that does not match is a JournalError.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from josefine_journal.errors import JournalError
from josefine_journal.events import JsonObject, SeqNr, check_seq_nr
from josefine_journal.json_text import compact, parse_object

ACTION_HEADER = "journal.action"


class PayloadType(Enum):
    """How an append's value is encoded."""

    JSON = "json"
    BINARY = "binary"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeqRange:
    """First and last sequence number of an append, both inclusive."""

    first: SeqNr
    last: SeqNr

    def __post_init__(self) -> None:
        check_seq_nr(self.first)
        check_seq_nr(self.last)
        if self.last < self.first:
            raise ValueError(f"a range from {self.first} to {self.last}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """The record's value contains these events."""

    range: SeqRange
    payload_type: PayloadType
    origin: str | None = None
    version: str | None = None
    metadata: JsonObject | None = None
    """The header's `metadata.data`; None also for appends of versions without metadata."""
    expected_seq_nr: int | None = None
    """The last sequence number that the writer expects, 0: no event; None: no expectation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Deletes the existing events up to and including `to`."""

    to: SeqNr
    origin: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Changes nothing; its offset is a position that a reader can read up to."""

    id: str
    origin: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Purge:
    """Deletes the journal, including its sequence number."""

    origin: str | None = None
    version: str | None = None
    expected_offset: int | None = None
    """The offset of the journal's last append that the writer expects; None: no expectation."""


Action = Append | Delete | Mark | Purge


def encode_action(action: Action, partitions: int | None = None) -> bytes:
    """The header's value. `partitions`: the topic's partition count, by which the record's
    partition was chosen. Raises JournalError for metadata that is not valid JSON."""
    match action:
        case Append():
            kind, fields = "append", _append_fields(action)
        case Delete():
            kind, fields = "delete", {"to": action.to, **_origin_fields(action)}
        case Mark():
            kind, fields = "mark", {"id": action.id, **_origin_fields(action)}
        case Purge():
            kind, fields = "purge", _origin_fields(action)
            if action.expected_offset is not None:
                fields["expectedOffset"] = action.expected_offset
    if partitions is not None:
        fields["partitions"] = partitions
    return compact({kind: fields}).encode()


def _append_fields(action: Append) -> dict[str, Any]:
    fields: dict[str, Any] = {"range": {"from": action.range.first, "to": action.range.last}}
    fields |= _origin_fields(action)
    fields["payloadType"] = action.payload_type.value
    fields["metadata"] = {} if action.metadata is None else {"data": action.metadata}
    if action.expected_seq_nr is not None:
        fields["expectedSeqNr"] = action.expected_seq_nr
    return fields


def _origin_fields(action: Action) -> dict[str, Any]:
    named = {"origin": action.origin, "version": action.version}
    return {name: value for name, value in named.items() if value is not None}


def decode_action(header: bytes) -> Action | None:
    """The reverse; None for an unknown kind of action. Raises JournalError."""
    kinds = parse_object(header, ACTION_HEADER)
    for kind, decode in _DECODERS.items():
        if kind in kinds:
            fields = kinds[kind]
            if not isinstance(fields, dict):
                raise JournalError(f"{ACTION_HEADER}: {kind} is {json.dumps(fields)[:80]}")
            try:
                return decode(fields)
            except KeyError as error:
                raise JournalError(f"{ACTION_HEADER}: {kind} has no {error}") from error
            except (TypeError, ValueError) as error:
                raise JournalError(f"{ACTION_HEADER}: {kind}: {error}") from error
    return None


def partitions_of(header: bytes) -> int | None:
    """The topic's partition count as recorded by the action's writer; None: not recorded, or the
    header cannot be read."""
    try:
        kinds = parse_object(header, ACTION_HEADER)
        (fields,) = kinds.values()
        return _integer(fields["partitions"])
    except (JournalError, KeyError, TypeError, ValueError):
        return None


def with_partitions(header: bytes, partitions: int) -> bytes:
    """The same action with another count; all other fields are kept. Raises JournalError."""
    kinds = parse_object(header, ACTION_HEADER)
    by_kind = {kind: {**fields, "partitions": partitions} for kind, fields in kinds.items()}
    return compact(by_kind).encode()


def _decode_append(fields: Mapping[str, Any]) -> Append:
    metadata = fields.get("metadata") or {}
    expected = fields.get("expectedSeqNr")
    return Append(
        range=SeqRange(first=_seq_nr(fields["range"]["from"]), last=_seq_nr(fields["range"]["to"])),
        payload_type=PayloadType(fields["payloadType"]),
        origin=_text(fields, "origin"),
        version=_text(fields, "version"),
        metadata=_object(metadata, "data"),
        expected_seq_nr=None if expected is None else _integer(expected),
    )


def _decode_delete(fields: Mapping[str, Any]) -> Delete:
    origin, version = _text(fields, "origin"), _text(fields, "version")
    return Delete(to=_seq_nr(fields["to"]), origin=origin, version=version)


def _decode_mark(fields: Mapping[str, Any]) -> Mark:
    if not isinstance(fields["id"], str):
        raise TypeError(f"its id is {fields['id']!r}")
    return Mark(id=fields["id"], origin=_text(fields, "origin"), version=_text(fields, "version"))


def _decode_purge(fields: Mapping[str, Any]) -> Purge:
    expected = fields.get("expectedOffset")
    return Purge(
        origin=_text(fields, "origin"),
        version=_text(fields, "version"),
        expected_offset=None if expected is None else _integer(expected),
    )


_DECODERS: dict[str, Callable[[Mapping[str, Any]], Action]] = {
    "append": _decode_append,
    "delete": _decode_delete,
    "mark": _decode_mark,
    "purge": _decode_purge,
}


def _integer(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _seq_nr(value: object) -> SeqNr:
    number = _integer(value)
    check_seq_nr(number)
    return SeqNr(number)


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}")
    return value


def _object(fields: Mapping[str, Any], name: str) -> JsonObject | None:
    if not isinstance(fields, dict):
        raise TypeError(f"metadata is {fields!r}")
    value = fields.get(name)
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"metadata.{name} is {value!r}")
    return value
