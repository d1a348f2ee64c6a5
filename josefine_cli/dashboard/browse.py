"""The message browser: some records of one partition, from an offset or a time on. Blocking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.fetch import records_between
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient
from josefine_broker.client.operations import partition_error
from josefine_broker.records.builder import Record
from josefine_cli.base.output import iso_time, put_bytes

RECORDS_MAX = 200
SHOWN_BYTES_MAX = 64 * 1024
"""Bytes shown per key or value; the rest is cut."""
FETCH_BYTES_MAX = 4 * 1024 * 1024
FETCHES_MAX = 50
"""Fetches per search for a key; the result has the offset from which to continue."""


class Asked(NamedTuple):
    """The records to show. `key`: only those with this key."""

    topic: str
    partition: int
    offset: int | None
    timestamp_ms: int | None
    key: str | None
    limit: int


def asked(query: Mapping[str, str]) -> Asked:
    """Parse a query. Raises ValueError."""
    topic = query.get("topic", "")
    if not topic:
        raise ValueError("topic: name one")
    limit = _number(query, "limit", 20)
    if not limit or limit > RECORDS_MAX:
        raise ValueError(f"limit: expected a number from 1 to {RECORDS_MAX}")
    return Asked(
        topic,
        _number(query, "partition", 0) or 0,
        _number(query, "offset", None),
        _number(query, "timestamp", None),
        query.get("key") or None,
        limit,
    )


def _number(query: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 18:
        raise ValueError(f"{name}={text[:40]}: expected a number")
    return int(text)


def browse(client: BlockingClient, wanted: Asked) -> dict[str, Any]:
    """{"start", "end", "next", "records"}; by default the newest records. Raises KafkaError."""
    tp = TopicPartition(wanted.topic, wanted.partition)
    client.partition_count(wanted.topic)
    start = client.list_offsets({tp: EARLIEST})[tp].offset
    end = client.list_offsets({tp: LATEST})[tp].offset
    at = max(start, _begin(client, tp, wanted, end))
    records: list[dict[str, Any]] = []
    fetches = 0
    while at < end and len(records) < wanted.limit and fetches < FETCHES_MAX:
        fetches += 1
        part = client.fetch({tp: at}, partition_bytes_max=FETCH_BYTES_MAX)[tp]
        if part.error_code is not ErrorCode.none:
            raise partition_error(tp, part.error_code, None)
        before = at
        for record in records_between(part.records, at, end):
            at = record.offset + 1
            if wanted.key is None or (record.key or b"").decode("utf-8", "replace") == wanted.key:
                records.append(shown(record))
            if len(records) >= wanted.limit:
                break
        if at == before:  # only transaction markers
            break
    return {"start": start, "end": end, "next": at, "records": records}


def _begin(client: BlockingClient, tp: TopicPartition, wanted: Asked, end: int) -> int:
    if wanted.offset is not None:
        return wanted.offset
    if wanted.timestamp_ms is not None:
        found = client.list_offsets({tp: wanted.timestamp_ms})[tp].offset
        return end if found < 0 else found
    return 0 if wanted.key is not None else end - wanted.limit


def shown(record: Record) -> dict[str, Any]:
    """One record as JSON; bytes that are not text as base64, long ones cut."""
    found: dict[str, Any] = {"offset": record.offset, "time": iso_time(record.timestamp_ms)}
    for name, data in (("key", record.key), ("value", record.value)):
        put_bytes(found, name, _cut(data))
        found[f"{name}_bytes"] = None if data is None else len(data)
    found["headers"] = []
    for header, value in record.headers:
        shown: dict[str, Any] = {"name": header}
        put_bytes(shown, "value", _cut(value))
        found["headers"].append(shown)
    return found


def _cut(data: bytes | None) -> bytes | None:
    if data is None or len(data) <= SHOWN_BYTES_MAX:
        return data
    return data[:SHOWN_BYTES_MAX].decode("utf-8", "ignore").encode() or data[:SHOWN_BYTES_MAX]
