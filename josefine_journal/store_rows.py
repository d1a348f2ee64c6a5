"""The mapping between resolved actions and rows of the store. Arrow values, no files.

A row is the record: an append's value is stored as bytes and decoded only by the reader of the
event, so the replication cannot lose or refuse any of it. Tags and expiry are columns of their own,
for queries. `last_seq_nr` of a delete is the sequence number up to which it deletes.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from josefine_journal.actions import Action, Append, Delete, PayloadType, Purge, SeqRange
from josefine_journal.describing import described
from josefine_journal.events import SeqNr
from josefine_journal.json_text import compact
from josefine_journal.records import ActionRecord

SCHEMA_VERSION = 3
"""Version 1 had neither tags nor expiry: both are computed from the values when such files are
read. Up to version 2 the end of a partition was only in its Delta transaction, which RESTORE does
not change."""
APPEND, DELETE, PURGE = "append", "delete", "purge"

_HEADER = pa.struct([pa.field("name", pa.string()), pa.field("value", pa.binary())])
SCHEMA = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("offset", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("first_seq_nr", pa.int64()),
        pa.field("last_seq_nr", pa.int64()),
        pa.field("timestamp_ms", pa.int64()),
        pa.field("payload_type", pa.string()),
        pa.field("origin", pa.string()),
        pa.field("version", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("headers", pa.list_(_HEADER)),
        pa.field("value", pa.binary()),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("expire_on_ms", pa.int64()),
    ]
)
"""The table's columns; the files have all but `partition`, which is in their folder's name."""
FILE_SCHEMA = pa.schema([field for field in SCHEMA if field.name != "partition"])
OUTLINE_COLUMNS = ["key", "offset", "kind", "last_seq_nr"]


def table_of(records: Iterable[tuple[str, ActionRecord]]) -> pa.Table:
    """The rows of a file: by journal, and by offset within each."""
    rows = sorted(records, key=lambda each: (each[0], each[1].offset))
    return pa.Table.from_pylist([_row(key, record) for key, record in rows], schema=FILE_SCHEMA)


def _row(key: str, record: ActionRecord) -> dict[str, Any]:
    action = record.action
    row: dict[str, Any] = {
        "key": key,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "origin": action.origin,
        "version": action.version,
        "headers": [{"name": name, "value": value} for name, value in record.headers],
    }
    match action:
        case Append(range=numbers):
            metadata = None if action.metadata is None else compact(action.metadata)
            row |= {"kind": APPEND, "first_seq_nr": numbers.first, "last_seq_nr": numbers.last}
            row |= {"payload_type": action.payload_type.value, "metadata": metadata}
            row |= {"value": record.value, "expire_on_ms": record.expire_on_ms}
            row |= {"tags": list(record.tags) or None}
        case Delete(to=to):
            row |= {"kind": DELETE, "last_seq_nr": to}
        case Purge():
            row |= {"kind": PURGE}
        case _:
            raise AssertionError(f"{record} is not resolved")
    return row


def records_of(topic: str, partition: int, rows: pa.Table) -> list[tuple[str, ActionRecord]]:
    """The reverse of `table_of`."""
    return [(row["key"], _record(topic, partition, row)) for row in rows.to_pylist()]


def _record(topic: str, partition: int, row: dict[str, Any]) -> ActionRecord:
    return ActionRecord(
        action=_action(row),
        topic=topic,
        partition=partition,
        offset=row["offset"],
        timestamp_ms=row["timestamp_ms"],
        value=row["value"],
        headers=_headers(row["headers"] or ()),
        tags=tuple(row.get("tags") or ()),
        expire_on_ms=row.get("expire_on_ms"),
    )


def upgraded(topic: str, partition: int, rows: pa.Table) -> pa.Table:
    """Rows of a file of any version with all columns of this one."""
    if set(FILE_SCHEMA.names) <= set(rows.column_names):
        return rows.select(FILE_SCHEMA.names)
    found = records_of(topic, partition, rows)
    described_rows = [_row(key, described(record)) for key, record in found]
    return pa.Table.from_pylist(described_rows, schema=FILE_SCHEMA)


def _headers(listed: Sequence[dict[str, Any]]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["name"], each["value"]) for each in listed)


def _action(row: dict[str, Any]) -> Action:
    origin, version = row["origin"], row["version"]
    match row["kind"]:
        case "append":
            return Append(
                range=SeqRange(first=SeqNr(row["first_seq_nr"]), last=SeqNr(row["last_seq_nr"])),
                payload_type=PayloadType(row["payload_type"]),
                origin=origin,
                version=version,
                metadata=None if row["metadata"] is None else json.loads(row["metadata"]),
            )
        case "delete":
            return Delete(to=SeqNr(row["last_seq_nr"]), origin=origin, version=version)
        case _:
            return Purge(origin=origin, version=version)
