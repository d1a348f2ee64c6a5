"""A new Parquet file of a table: rows go in as they are read, the file is closed before a commit.

Rules: row groups are written at once, so memory is bounded by one of them; a file on this machine
is synced, with its folder, before a commit names it; a file that no commit names is removed, or
left to VACUUM after a crash.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from pipelines.sinks.parquet_statistics import (
    INDEXED_COLUMNS,
    Unseen,
    statistics,
    with_footer_bounds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pipelines.storage.folders import TableFolder

GROUP_ROWS = 131_072
GROUP_BYTES = 8 << 20
"""Arrow bytes that wait for a row group. A reader skips whole row groups, a writer holds one."""
PART_BYTES_MIN = 256 << 10
"""Arrow bytes of an archive's row group: fewer are not worth its entry in the footer."""


class DataFile:
    """An open file. Mutable: what was written, and the rows of the next row group."""

    def __init__(
        self, folder: TableFolder, schema: pa.Schema, columns_max: int = INDEXED_COLUMNS
    ) -> None:
        """`columns_max`: the number of columns that have statistics in the log; -1: all."""
        self.name = f"part-00000-{uuid4()}-c000.zstd.parquet"
        self.rows = self.bytes = 0
        self._folder = folder
        self._file: Any = _opened(folder, self.name)
        self._schema = schema
        self._writer = pq.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            # Only values that repeat: a dictionary of distinct ones costs a third of the time.
            use_dictionary=[each.name for each in schema if pa.types.is_string(each.type)],
            write_statistics=with_footer_bounds(schema),
        )
        self._columns_max = columns_max
        self._unseen = Unseen(schema, columns_max)
        self._waiting: list[Any] = []
        self._waiting_rows = self._waiting_bytes = 0

    def add(self, rows: Any) -> None:
        """Add a record batch."""
        self._waiting.append(rows)
        self.rows += rows.num_rows
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= GROUP_ROWS or self._waiting_bytes >= GROUP_BYTES:
            self._write_group()

    @property
    def size(self) -> int:
        """Bytes of the file, with an estimate for the rows that wait."""
        return int(self._file.tell()) + self._waiting_bytes // 4

    def close(self, at_ms: int, *, data_change: bool = True) -> AddAction:
        """Write the rest, sync, close; the action that adds the file to its table. Not
        `data_change`: its rows are those of files that the same commit removes."""
        self._write_group()
        self._writer.close()
        size = self.bytes = _closed(self._file, self._folder, self.name)
        footer = self._writer.writer.metadata
        return AddAction(
            path=self.name,
            size=size,
            partition_values={},
            modification_time=at_ms,
            data_change=data_change,
            stats=statistics(footer, self._columns_max, self._unseen),
        )

    def discard(self) -> None:
        """Close and remove a file that no commit names."""
        with suppress(OSError, pa.ArrowException):
            self._writer.close()
        with suppress(OSError, pa.ArrowException):
            self._file.close()
        with suppress(OSError, pa.ArrowException):
            self._folder.arrow().delete_file(self.name)

    def _write_group(self) -> None:
        if self._waiting:
            for rows in self._parts(pa.Table.from_batches(self._waiting, self._schema)):
                self._unseen.add(rows)
                self._writer.write_table(rows, row_group_size=self.rows)
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def _parts(self, rows: Any) -> Iterable[Any]:
        """The row groups to write of the rows that waited."""
        return (rows,)


class ArchiveFile(DataFile):
    """A data file whose row groups are in the order of partition and offset, each of one partition
    or of some small ones: a reader of a range decodes few rows of other partitions."""

    def _parts(self, rows: Any) -> Iterator[Any]:
        rows = rows.sort_by([("partition", "ascending"), ("offset", "ascending")])
        partitions = rows.column("partition").to_numpy()
        ends = [*(np.flatnonzero(np.diff(partitions)) + 1).tolist(), rows.num_rows]
        start = 0
        for end in ends:
            part = rows.slice(start, end - start)
            # The last one may be smaller.
            if part.nbytes >= PART_BYTES_MIN or end == rows.num_rows:
                yield part
                start = end


def _opened(folder: TableFolder, name: str) -> Any:
    if folder.at is None:
        path = Path(folder.path)
        path.mkdir(parents=True, exist_ok=True)
        return (path / name).open("xb")
    return folder.arrow().open_output_stream(name)


def _closed(file: Any, folder: TableFolder, name: str) -> int:
    """Sync and close; the size in bytes."""
    size = int(file.tell())
    if folder.at is None:
        file.flush()
        os.fsync(file.fileno())
        file.close()
        descriptor = os.open(folder.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    else:
        file.close()
    return size
