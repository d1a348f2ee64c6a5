"""Archived rows as record batches of format 2, with the offsets that they had.

Rules: a batch has rows of one leader epoch and one timestamp type; offsets without a row (of
aborted transactions, markers, erased records) are gaps in or between batches, as compaction leaves
them. The batches name no leader epoch: a leader forgets epochs below its log start, and clients
that ask it for one would believe that records were lost. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from josefine_broker.records.batch import (
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP_MS,
    TIMESTAMP_TYPE_BIT,
    stamp_crc,
)
from josefine_broker.records.builder import encode_record

BATCH_BYTES = 256 << 10
"""Size after which a batch ends."""
LOG_APPEND_TIME = 1
assert CRC_START < HEADER_BYTES


class Row(NamedTuple):
    """One archived record."""

    offset: int
    timestamp_ms: int
    timestamp_type: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def rows_of(table: Any) -> Iterator[Row]:
    """The rows of an Arrow table of the archive, in its order."""
    for batch in table.to_batches(max_chunksize=4096):
        named = {name: batch.column(name) for name in batch.schema.names}
        times = named["timestamp"].cast("int64").to_pylist()
        headers = named["headers"].to_pylist()
        for at, (offset, time_us, kind, epoch, key, value) in enumerate(
            zip(
                named["offset"].to_pylist(),
                times,
                named["timestampType"].to_pylist(),
                named["leader_epoch"].to_pylist(),
                named["key"].to_pylist(),
                named["value"].to_pylist(),
                strict=True,
            )
        ):
            yield Row(
                offset,
                NO_TIMESTAMP_MS if time_us is None else time_us // 1000,
                kind,
                epoch,
                key,
                value,
                tuple((each["key"], each["value"]) for each in headers[at] or ()),
            )


class Encoded(NamedTuple):
    """Batches back to back; `next_offset`: the first one after them."""

    data: bytes
    next_offset: int


def encoded(rows: Iterator[Row], first: int, bytes_max: int) -> Encoded:
    """The batches of rows from offset `first` on, of about `bytes_max` bytes, at least one row."""
    batches: list[bytearray] = []
    size, next_offset = 0, first
    batch: list[Row] = []
    batch_bytes = 0
    for row in rows:
        row_bytes = 64 + len(row.key or b"") + len(row.value or b"")
        row_bytes += sum(8 + len(name) + len(value or b"") for name, value in row.headers)
        if size + batch_bytes + row_bytes > bytes_max and next_offset > first:
            break
        if batch and (_kind(batch[0]) != _kind(row) or batch_bytes + row_bytes > BATCH_BYTES):
            batches.append(_built(batch))
            size += len(batches[-1])
            batch, batch_bytes = [], 0
        batch.append(row)
        batch_bytes += row_bytes
        next_offset = row.offset + 1
    if batch:
        batches.append(_built(batch))
    return Encoded(b"".join(batches), next_offset)


def _kind(row: Row) -> tuple[int, int, int]:
    """Rows of one batch have this in common. With the broker's time, all have one time."""
    at_append = row.timestamp_type == LOG_APPEND_TIME
    return row.timestamp_type, row.leader_epoch, row.timestamp_ms if at_append else 0


def _built(rows: list[Row]) -> bytearray:
    base, base_ms = rows[0].offset, rows[0].timestamp_ms
    body = b"".join(
        encode_record(
            row.offset - base, row.timestamp_ms - base_ms, row.key, row.value, row.headers
        )
        for row in rows
    )
    batch = bytearray(HEADER_BYTES) + body
    attributes = TIMESTAMP_TYPE_BIT if rows[0].timestamp_type == LOG_APPEND_TIME else 0
    HEADER.pack_into(
        batch, 0, base, len(batch) - LENGTH_OVERHEAD_BYTES, NO_LEADER_EPOCH, MAGIC, 0, attributes,
        rows[-1].offset - base, base_ms, max(row.timestamp_ms for row in rows),
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, len(rows),
    )  # fmt: skip
    stamp_crc(batch)
    return batch
