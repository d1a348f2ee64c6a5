"""The data files of a table's version, and their rows as the table's columns.

A file may lack columns that the table got later, and other programs write types that are only
equal in Delta (INT96, large strings): its rows are brought to the table's schema. Times that Spark
has written in another calendar would be read as others, so such a file is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import RemoveAction

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from pipelines.storage.folders import TableFolder

BATCH_ROWS = 32_768
BUFFER_BYTES = 1 << 20
_LEGACY = {b"org.apache.spark.legacyDateTime", b"org.apache.spark.legacyINT96"}
"""Keys of a footer: dates and times are those of the Julian calendar."""


class StoredFile(NamedTuple):
    """`bounds`: the file's flat entry in the log, with its integers and texts alone."""

    name: str
    size: int
    at_ms: int
    bounds: Mapping[str, Any]

    def removed(self, at_ms: int, *, data_change: bool) -> RemoveAction:
        """The action that removes the file from its table."""
        return RemoveAction(
            path=self.name,
            data_change=data_change,
            deletion_timestamp=at_ms,
            size=self.size,
            partition_values={},
        )


def stored_files(table: DeltaTable) -> list[StoredFile]:
    """The files of the open version, the oldest first."""
    return files_of(pa.table(table.get_add_actions(flatten=True)))


def files_of(found: Any) -> list[StoredFile]:
    """The files of delta-rs's flat add actions, an Arrow table, the oldest first."""
    # Python has no times after the year 9999.
    kept = [
        each.name
        for each in found.schema
        if pa.types.is_integer(each.type) or pa.types.is_string(each.type)
    ]
    files = [
        StoredFile(row["path"], row["size_bytes"], row["modification_time"], row)
        for row in found.select(kept).to_pylist()
    ]
    return sorted(files, key=lambda each: (each.at_ms, each.name))


def is_plain(file: StoredFile) -> bool:
    """Whether the file is in the table's folder itself, under the name that the log has: a shallow
    clone has files of another table, and a log may have names in URL encoding."""
    return not any(each in file.name for each in "/:%")


def rows_of(
    folder: TableFolder,
    file: StoredFile,
    schema: pa.Schema,
    names: Sequence[str] | None = None,
    at_once: int = BATCH_ROWS,
) -> Iterator[Any]:
    """The rows in their order, as record batches of the table's columns, or of some of them.
    Raises OSError, also for a file that cannot be read."""
    wanted = schema if names is None else pa.schema([schema.field(name) for name in names])
    try:
        with folder.arrow().open_input_file(file.name) as source:
            yield from _rows(source, wanted, at_once, is_far=folder.at is not None)
    except (pa.ArrowException, OSError) as error:
        raise OSError(f"{folder.path}/{file.name} cannot be read: {error}") from error


def _rows(source: Any, wanted: pa.Schema, at_once: int, *, is_far: bool) -> Iterator[Any]:
    parquet = pq.ParquetFile(
        source,
        buffer_size=0 if is_far else BUFFER_BYTES,
        # A store on a network: few large requests, which are one row group.
        pre_buffer=is_far,
        # Of the year 9999, too.
        coerce_int96_timestamp_unit="us",
    )
    if _LEGACY & {*(parquet.metadata.metadata or {})}:
        raise OSError("its times are of another calendar: let Spark write it again (OPTIMIZE)")
    columns = [name for name in wanted.names if name in parquet.schema_arrow.names]
    for group in range(parquet.num_row_groups):
        if not columns:
            count = parquet.metadata.row_group(group).num_rows
            yield pa.RecordBatch.from_pylist([{}] * count, wanted)
            continue
        batches = parquet.iter_batches(at_once, [group], columns, use_threads=False)
        for batch in batches:
            yield fitted(batch, wanted)


def fitted(rows: Any, wanted: pa.Schema) -> Any:
    """A record batch or an Arrow table as the wanted columns, null where it has none."""
    columns = []
    for field in wanted:
        at = rows.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(rows.num_rows, field.type))
        else:
            column = rows.column(at)
            columns.append(column if column.type == field.type else column.cast(field.type))
    return type(rows).from_arrays(columns, schema=wanted)
