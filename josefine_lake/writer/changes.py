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
FOLD_BYTES = 8 << 20
"""Arrow bytes after which replaced rows are dropped."""
PART_BYTES = 1 << 20
"""Arrow bytes of parts that are made one, so that few parts are left of many replaced rows."""
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
        found = pa.concat_tables(self._waiting)
        names, columns, self._waiting = found.column_names, found.columns, []
        del found
        # Column by column: the chunks of one are the system's again before the next one is made one
        # piece.
        for at, each in enumerate(columns):
            columns[at] = each.combine_chunks()
            del each
            pa.default_memory_pool().release_unused()
        rows = pa.table(columns, names)
        return Changes(rows=rows, at_ms=at_ms, keys=self._keys, order=self._order)

    def discard(self) -> None:
        self._waiting, self._bytes, self._folded_bytes = [], 0, 0

    def _fold(self) -> None:
        """Drop replaced rows, part by part: no more than one part is in memory twice."""
        is_latest = latest(pa.concat_tables(self._waiting), self._keys, self._order)
        old, new, at = self._waiting[::-1], list[Any](), 0
        self._waiting = []
        while old:
            part = old.pop()
            kept = is_latest[at : at + part.num_rows]
            at += part.num_rows
            if not kept.all():
                part = part.filter(pa.array(kept))
            if new and part.nbytes + new[-1].nbytes < PART_BYTES:
                part = pa.concat_tables([new.pop(), part]).combine_chunks()
            new.append(part)
        self._waiting = new
        self._bytes = self._folded_bytes = sum(each.nbytes for each in new)
        # What was freed in between would stay with this process.
        pa.default_memory_pool().release_unused()


def latest(rows: Any, keys: Sequence[str], order: tuple[str, str]) -> Any:
    """For each row, whether it is the latest one of its key."""
    first, then = (numbers(rows.column(name).cast(pa.int64()).combine_chunks()) for name in order)
    places = np.arange(rows.num_rows)
    is_later = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (then[1:] >= then[:-1]))
    if not is_later.all():
        places = np.lexsort((then, first))
    # The place of a row in the order, so that the largest one of a key is that of its latest row.
    rank = np.empty_like(places)
    rank[places] = np.arange(rows.num_rows)
    ranked = rows.select(list(keys)).append_column(_AT, pa.array(rank))
    last = ranked.group_by(list(keys), use_threads=False).aggregate([(_AT, "max")])
    found = np.zeros(rows.num_rows, bool)
    found[places[numbers(last.column(f"{_AT}_max").combine_chunks())]] = True
    return found


def same_values(column: Any) -> Any:
    """A key's values, of which equal ones have the same bytes, by which Arrow and delta-rs compare:
    SQL knows one zero and one NaN."""
    if not pa.types.is_floating(column.type):
        return column
    nan, zero = (pa.scalar(each, column.type) for each in (float("nan"), 0.0))
    return pc.if_else(pc.is_nan(column), nan, pc.add(column, zero))


def numbers(column: Any) -> Any:
    """The numpy array of 64-bit integers without nulls. Not by `to_numpy`, which imports pandas."""
    found = np.frombuffer(column.buffers()[1], np.int64)
    return found[column.offset : column.offset + len(column)]
