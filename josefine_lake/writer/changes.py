"""The changes that a table in mode upsert gets with its next commit: the latest of each key.

A change is later than another one of its key if its offset is higher; of equal offsets, in several
partitions, the higher partition counts. Rows that a later one of the same key replaces are dropped
early, so memory is bounded by the keys of a commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

DELETED = "__josefine_deleted"
"""The flag of a change that deletes its row; never a column of a table. `__deleted` may be one: a
connector that unwraps its changes adds it."""
FOLD_BYTES = 16 << 20
"""Arrow bytes after which replaced rows are dropped."""
SIZE_FACTOR = 2
"""A merge holds its rows twice, so a commit is due at half of the size of an appended file."""
_AT = "__josefine_at"


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What a commit merges: one row for each key, with DELETED as the last column. `order`: the
    columns by which changes of a key are compared, the first one first, then the partition.
    `at_ms`: the time of the commit."""

    rows: Any
    at_ms: int = 0
    keys: tuple[str, ...]
    order: tuple[str, str]


class PendingChanges:
    """The changes until their commit, in place of an open data file. Mutable."""

    def __init__(self, keys: Sequence[str], order: tuple[str, str]) -> None:
        self._keys, self._order = tuple(keys), order
        self.bytes = 0
        self.rows = 0
        """Changes that were added, also those that a later one replaced."""
        self._waiting: list[Any] = []
        self._bytes = self._folded_bytes = 0

    @property
    def size(self) -> int:
        return SIZE_FACTOR * self._bytes

    def add(self, rows: Any) -> None:
        """Add a record batch with the columns of the table and DELETED."""
        self.rows += rows.num_rows
        for name in self._keys:
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), same_values(rows.column(at)))
        self._waiting.append(pa.Table.from_batches([rows]))
        self._bytes += rows.nbytes
        if self._bytes - self._folded_bytes >= FOLD_BYTES:
            self._fold()

    def close(self, at_ms: int) -> Changes:
        """The latest change of each key."""
        self._fold()
        self.bytes = self._bytes
        return Changes(rows=self._waiting[0], at_ms=at_ms, keys=self._keys, order=self._order)

    def discard(self) -> None:
        self._waiting, self._bytes, self._folded_bytes = [], 0, 0

    def _fold(self) -> None:
        found = latest(pa.concat_tables(self._waiting), self._keys, self._order)
        self._waiting, self._bytes = [found], found.nbytes
        self._folded_bytes = self._bytes


def latest(rows: Any, keys: Sequence[str], order: tuple[str, str]) -> Any:
    """The latest row of each key."""
    by = [(name, "ascending") for name in order]
    places = pc.sort_indices(rows.select(list(order)), by)
    # The place of a row in the order, so that the largest one of a key is that of its latest row.
    rank = np.empty(rows.num_rows, np.int64)
    rank[numbers(places)] = np.arange(rows.num_rows)
    ranked = rows.select(list(keys)).append_column(_AT, pa.array(rank))
    last = ranked.group_by(list(keys), use_threads=False).aggregate([(_AT, "max")])
    kept = numbers(places)[np.sort(numbers(last.column(f"{_AT}_max").combine_chunks()))]
    return rows.take(pa.array(kept)).combine_chunks()


def same_values(column: Any) -> Any:
    """A key's values, of which equal ones have the same bytes, by which Arrow and delta-rs compare:
    SQL knows one zero and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    nan, zero = (pa.scalar(each, column.type) for each in (float("nan"), 0.0))
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def numbers(column: Any) -> Any:
    """The numpy array of integers without nulls. Not by `to_numpy`, which imports pandas."""
    kind = np.uint64 if pa.types.is_unsigned_integer(column.type) else np.int64
    found = np.frombuffer(column.buffers()[1], kind)
    return found[column.offset : column.offset + len(column)].astype(np.int64)
