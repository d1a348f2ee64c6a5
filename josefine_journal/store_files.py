"""A Parquet file of the store: rows sorted by journal and offset, in small row groups, so that one
journal is a small read. Written once, never changed.

Rules: a file and its folder are synced before a commit names the file; the first and last journal
of a row group are in the file's footer, which is read once.
"""

import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from josefine_journal.store_place import ObjectPlace, Place
from josefine_journal.store_rows import FILE_SCHEMA

GROUP_ROWS_MAX = 2_048
GROUP_BYTES_MAX = 1024 * 1024
"""Size of a row group: the least that is read of a file for one journal."""
_REPEATED = ["kind", "payload_type", "origin", "version"]


def write(path: Place, rows: pa.Table) -> int:
    """Write a new file; returns its size in bytes. Raises OSError."""
    if isinstance(path, ObjectPlace):
        buffer = BytesIO()
        _write(buffer, rows)
        path.write_bytes(buffer.getbuffer())
        return buffer.tell()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("xb") as file:
        _write(file, rows)
        file.flush()
        os.fsync(file.fileno())
        size = file.tell()
    for folder in (path.parent, path.parent.parent):
        _sync_folder(folder)
    return size


def _write(file: Any, rows: pa.Table) -> None:
    per_group = max(1, int(rows.num_rows * GROUP_BYTES_MAX / max(1, rows.nbytes)))
    pq.write_table(
        rows,
        file,
        row_group_size=min(GROUP_ROWS_MAX, per_group),
        compression="zstd",
        use_dictionary=_REPEATED,
    )


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class StoreFile:
    """An open file, for one thread at a time."""

    def __init__(self, path: Place) -> None:
        """Raises OSError, and pyarrow.ArrowInvalid for a file that is not Parquet."""
        if isinstance(path, ObjectPlace):
            self._file = pq.ParquetFile(path.opened(), pre_buffer=True)
        else:
            self._file = pq.ParquetFile(path, memory_map=True, pre_buffer=False)
        footer = self._file.metadata
        names = self._file.schema_arrow.names
        groups = [footer.row_group(n) for n in range(footer.num_row_groups)]
        keys = [group.column(names.index("key")).statistics for group in groups]
        numbers = [group.column(names.index("last_seq_nr")).statistics for group in groups]
        self._all = any(each is None or not each.has_min_max for each in keys)
        """The keys are too long for statistics, so every row group is searched."""
        self._first = [] if self._all else [each.min for each in keys]
        self._last = [] if self._all else [each.max for each in keys]
        self._seq_nr_max = [
            None if each is None or not each.has_min_max else each.max for each in numbers
        ]

    def groups_of(self, key: str) -> range:
        """The row groups that may contain the journal."""
        if self._all:
            return range(len(self._seq_nr_max))
        begin = bisect_left(self._last, key)
        end = begin
        while end < len(self._first) and self._first[end] <= key:
            end += 1
        return range(begin, end)

    def groups_from(self, key: str, begin: int) -> list[int]:
        """The row groups of the journal that may contain a sequence number of at least `begin`."""
        most = self._seq_nr_max
        return [n for n in self.groups_of(key) if (last := most[n]) is None or last >= begin]

    def groups_of_any(self, keys: Sequence[str]) -> list[int]:
        return sorted({group for key in keys for group in self.groups_of(key)})

    def read(self, groups: Sequence[int], keys: Sequence[str], columns: Any = None) -> pa.Table:
        """The rows of these journals."""
        rows = _fitted(self._file.read_row_groups(list(groups), columns=columns, use_threads=False))
        wanted = pa.array(keys, pa.string())
        if len(keys) == 1:
            return rows.filter(pc.equal(rows["key"], keys[0]))
        return rows.filter(pc.is_in(rows["key"], value_set=wanted))

    def appends(self, key: str, begin_offset: int, begin: int) -> Iterator[pa.Table]:
        """The appends of one journal, in order, one row group at a time."""
        for group in self.groups_from(key, begin):
            rows = _fitted(self._file.read_row_group(group, use_threads=False))
            found = appends_of(rows, key, begin_offset, begin)
            if found.num_rows:
                yield found

    @property
    def group_count(self) -> int:
        return len(self._seq_nr_max)

    def group(self, number: int, columns: Sequence[str] | None) -> pa.Table | None:
        """A row group; None if one of the columns does not exist. No columns: all of them."""
        if columns is not None and not set(columns) <= set(self._file.schema_arrow.names):
            return None
        wanted = None if columns is None else list(columns)
        return _fitted(self._file.read_row_group(number, columns=wanted, use_threads=False))

    def everything(self) -> pa.Table:
        return _fitted(self._file.read(use_threads=False))


def _fitted(rows: pa.Table) -> pa.Table:
    """The store's columns with their types: in a file that it rewrites delta-rs has texts as
    Arrow's views, by which Arrow cannot filter, and columns that others have added."""
    fields = [field for field in FILE_SCHEMA if field.name in rows.schema.names]
    return rows.select([field.name for field in fields]).cast(pa.schema(fields))


def appends_of(rows: pa.Table, key: str, begin_offset: int, begin: int) -> pa.Table:
    """The appends of one journal from an offset and a sequence number on."""
    wanted = pc.equal(rows["key"], key)
    for test in (
        pc.equal(rows["kind"], "append"),
        pc.greater_equal(rows["offset"], begin_offset),
        pc.greater_equal(rows["last_seq_nr"], begin),
        pc.is_valid(rows["value"]),
    ):
        wanted = pc.and_(wanted, test)
    return rows.filter(wanted)
