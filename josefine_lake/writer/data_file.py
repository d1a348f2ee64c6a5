"""A new Parquet file of a table: rows go in as they are read, the file is closed before a commit.

Rules: row groups are written at once, so memory is bounded by one of them; a file on this machine
is synced, with its folder, before a commit names it; a file that no commit names is removed, or
left to VACUUM after a crash.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

if TYPE_CHECKING:
    from pipelines.storage.folders import TableFolder

GROUP_ROWS = 131_072
GROUP_BYTES = 8 << 20
"""Arrow bytes that wait for a row group. A reader skips whole row groups, a writer holds one."""
STATISTIC_CHARS_MAX = 64
COLUMNS_MAX = 32
"""Columns with statistics in the Delta log, as Delta's own default."""


class DataFile:
    """An open file. Mutable: what was written, and the rows of the next row group."""

    def __init__(self, folder: TableFolder, schema: pa.Schema) -> None:
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
            write_statistics=True,
        )
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

    def close(self, at_ms: int) -> AddAction:
        """Write the rest, sync, close; the action that adds the file to its table."""
        self._write_group()
        self._writer.close()
        size = self.bytes = _closed(self._file, self._folder, self.name)
        footer = self._writer.writer.metadata
        bounded = {each.name for each in self._schema if _has_bounds(each.type)}
        stats = _statistics(footer, _plain_columns(self._schema), bounded, self.rows)
        return AddAction(
            path=self.name,
            size=size,
            partition_values={},
            modification_time=at_ms,
            data_change=True,
            stats=json.dumps(stats),
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
            self._writer.write_table(
                pa.Table.from_batches(self._waiting, self._schema), row_group_size=self.rows
            )
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def use_little_memory(env: Mapping[str, str]) -> None:
    """Let Arrow return freed memory to the system at once: its own pools keep row groups that are
    written. The environment's choice comes first."""
    if "ARROW_DEFAULT_MEMORY_POOL" not in env:
        pa.set_memory_pool(pa.system_memory_pool())


def _statistics(
    footer: Any, names: Mapping[str, int], bounded: Collection[str], rows: int
) -> dict[str, Any]:
    """What Delta's readers skip files by: nulls of the columns with plain types, and bounds of
    `bounded`."""
    low: dict[str, Any] = {}
    top: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    groups = [footer.row_group(at) for at in range(footer.num_row_groups)]
    for name, at in names.items():
        known = [group.column(at).statistics for group in groups]
        if any(each is None or not each.has_null_count for each in known):
            continue
        nulls[name] = sum(each.null_count for each in known)
        if name not in bounded:
            continue
        # A group of nulls alone has no bounds, and needs none.
        filled = [each for each in known if each.num_values]
        if filled and all(each.has_min_max for each in filled):
            bounds = [bound for each in filled for bound in (each.min, each.max)]
            if all(map(_is_plain, bounds)):
                low[name], top[name] = min(bounds), max(bounds)
    return {"numRecords": rows, "minValues": low, "maxValues": top, "nullCount": nulls}


def _plain_columns(schema: pa.Schema) -> dict[str, int]:
    """The first columns without parts → their place among the file's columns."""
    found: dict[str, int] = {}
    at = 0
    for field in schema:
        if field.type.num_fields == 0 and len(found) < COLUMNS_MAX:
            found[field.name] = at
        at += _leaves(field.type)
    return found


def _leaves(kind: pa.DataType) -> int:
    inside = [kind.field(at).type for at in range(kind.num_fields)]
    return sum(map(_leaves, inside)) if inside else 1


def _has_bounds(kind: pa.DataType) -> bool:
    """Whether bounds may be in the log. Others are not even read: Python has no dates and times
    after the year 9999, which records may have."""
    is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return is_number or pa.types.is_string(kind)


def _is_plain(value: Any) -> bool:
    """Whether a bound can be in the log as it is. A long text would need a cut, and NaN is
    no bound."""
    if isinstance(value, str):
        return len(value) <= STATISTIC_CHARS_MAX
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and value == value


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
