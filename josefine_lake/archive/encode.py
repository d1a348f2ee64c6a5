"""Archived rows as record batches of format 2, with the offsets that they had.

Rules: a batch has rows of one leader epoch and one timestamp type; offsets without a row (of
aborted transactions, markers, erased records) are gaps in or between batches, as compaction leaves
them. The batches name no leader epoch: a leader forgets epochs below its log start, and clients
that ask it for one would believe that records were lost. Nothing is done per row in Python.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_arrow.batches.encoder import BytesView, encode_loops, header_views
from josefine_broker.records.batch import (
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
from josefine_lake.writer.columns import ARCHIVE_SCHEMA

BATCH_BYTES = 256 << 10
"""Size after which a batch ends."""
DELTA_MAX = 2**31 - 1
"""Of the offsets of a batch: the gaps of a compacted topic may be wider."""
LOG_APPEND_TIME = 1
ROW_BYTES = 64
"""At most, of a record without its key, value and headers; no row counts for less."""
HEADER_ENTRY_BYTES = 10
"""At most, of a header without its name and value."""


class Encoded(NamedTuple):
    """Batches back to back; `next_offset`: the first one after them."""

    data: bytes | memoryview
    next_offset: int


def encoded(rows: Any, first: int, bytes_max: int) -> Encoded:
    """The batches of the first rows of an Arrow table, of about `bytes_max` bytes, at least one
    row. `first`: the offset to continue from if there is no row."""
    if not rows.num_rows:
        return Encoded(b"", first)
    rows = _Rows(rows.slice(0, max(1, bytes_max // ROW_BYTES)))
    count = max(1, int(np.searchsorted(rows.ends, bytes_max, "right")))
    batches = list(rows.batches(count))
    out = np.empty(HEADER_BYTES * len(batches) + int(rows.ends[count - 1]), np.uint8)
    at = 0
    for start, end in batches:
        at = rows.write(start, end, out, at)
    return Encoded(out[:at].data, int(rows.offsets[count - 1]) + 1)


def warm_up() -> None:
    """Load the kernels, or compile them at the first time."""
    row = {"topic": "", "partition": 0, "offset": 0, "timestampType": 0, "leader_epoch": 0}
    encoded(pa.Table.from_pylist([row], ARCHIVE_SCHEMA), 0, 1)


@cache
def _loops() -> Any:
    return encode_loops()


class _Rows:
    """The columns as the kernels take them. `ends`: the bytes up to each row's end, at most."""

    def __init__(self, table: Any) -> None:
        named = {name: _whole(table.column(name)) for name in table.column_names}
        self.offsets = _numbers(named["offset"], 0)
        # Rounded down, as an integer division in Arrow is not for times before 1970.
        times_us = named["timestamp"].cast(pa.int64())
        missing = NO_TIMESTAMP_MS * 1_000
        self.times = np.floor_divide(_numbers(times_us, missing), 1_000)
        self.types = _numbers(named["timestampType"], 0)
        self.epochs = _numbers(named["leader_epoch"], NO_LEADER_EPOCH)
        key, value = BytesView(named["key"]), BytesView(named["value"])
        headers = header_views(named["headers"])
        self.columns = *key.arrays, *value.arrays, *headers
        list_ends, _, name_ends, _, value_ends, _ = headers
        sizes = ROW_BYTES + np.diff(key.ends).astype(np.int64) + np.diff(value.ends)
        for ends in (name_ends, value_ends):
            sizes += np.diff(ends[list_ends].astype(np.int64))
        sizes += HEADER_ENTRY_BYTES * np.diff(list_ends)
        self.ends = np.cumsum(sizes)
        self._loops = _loops()
        for each in (self.offsets, self.times):
            each.flags.writeable = False  # numba compiles another kernel for each kind of array

    def batches(self, count: int) -> Any:
        """(first row, end) of the batches of the first rows."""
        differs = np.diff(self.types) != 0
        differs |= np.diff(self.epochs) != 0
        # With the broker's time, all records of a batch have one time.
        differs |= (self.types[1:] == LOG_APPEND_TIME) & (np.diff(self.times) != 0)
        cuts = [*(np.flatnonzero(differs[: count - 1]) + 1).tolist(), count]
        start = 0
        for cut in cuts:
            while start < cut:
                before = int(self.ends[start - 1]) if start else 0
                end = int(np.searchsorted(self.ends, before + BATCH_BYTES, "right"))
                last = int(self.offsets[start]) + DELTA_MAX
                far = int(np.searchsorted(self.offsets, last, "right"))
                end = min(cut, max(start + 1, end), far)
                yield start, end
                start = end

    def write(self, start: int, end: int, out: Any, at: int) -> int:
        """Write the batch of rows [start, end); the position after it."""
        done, after = self._loops.encode_stored(
            start, end, self.offsets, self.times, *self.columns, out, at + HEADER_BYTES
        )
        assert done == end - start, "the space was computed"
        batch = memoryview(out)[at:after]
        attributes = TIMESTAMP_TYPE_BIT if self.types[start] == LOG_APPEND_TIME else 0
        base, base_ms = int(self.offsets[start]), int(self.times[start])
        HEADER.pack_into(
            batch, 0, base, len(batch) - LENGTH_OVERHEAD_BYTES, NO_LEADER_EPOCH, MAGIC, 0,
            attributes, int(self.offsets[end - 1]) - base, base_ms,
            int(self.times[start:end].max()), NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE,
            end - start,
        )  # fmt: skip
        stamp_crc(batch)
        return int(after)


def _whole(column: Any) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _numbers(column: Any, missing: int) -> Any:
    """A numpy array of integers. Not a view of Arrow's memory."""
    return np.array(pc.fill_null(column, missing).to_numpy(zero_copy_only=False), np.int64)
