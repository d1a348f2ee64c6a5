"""The partials of a batch merged into a local Delta table without Spark: Arrow groups them with the
table's rows, and delta-rs commits the new file.

delta-rs's own MERGE is no way: it writes texts as Arrow's views, by which Arrow's readers cannot
filter (1.6).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from pipelines.model.direct_merge import (
    BYTES_MAX,
    ROWS_MAX,
    TABLE_BYTES_MAX,
    TABLE_MEMORY_MAX,
    TABLE_ROWS_MAX,
    Bounds,
    Fold,
    why_out_of_range,
)
from pipelines.model.table_columns import Fields
from pipelines.sinks.direct_table import Change, NewFile, NotDirectError
from pipelines.sinks.parquet_statistics import with_footer_bounds
from pipelines.storage.files import FolderFiles
from pipelines.storage.folders import TableFolder

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from pipelines.sinks.table_files import StoredFile

NEW = -1
"""In place of a file's number: a partial."""
_FILE = "file of the row"
"""No column's name: those of a merged table need no quotes."""
_ROWS_AT_ONCE = 4_096


def rows_of(files: Sequence[NewFile]) -> Any:
    """The rows of the files, an Arrow table; None: there are none. Raises NotDirectError for more
    than are merged here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    footers = [pq.read_metadata(each.path) for each in files]
    count = sum(each.num_rows for each in footers)
    if count > ROWS_MAX:
        raise NotDirectError(f"a batch has {count:,} rows to merge")
    found, room = [], BYTES_MAX
    for each, footer in zip(files, footers, strict=True):
        if footer.num_rows:
            # Not as a data set: it would take a part of the folder's name for a column.
            with pq.ParquetFile(each.path) as file:
                batches = file.iter_batches(_ROWS_AT_ONCE, use_threads=False)
                found.append(_within(room, batches, file.schema_arrow))
            room -= found[-1].nbytes
    return pa.concat_tables(found) if found else None


def merge(rows: Any, fold: Fold, fields: Fields, path: str, table: DeltaTable) -> Change:
    """Write the file of a merge of partials, an Arrow table, into the table at `path`. Raises
    NotDirectError, OSError."""
    import pyarrow as pa

    from pipelines.sinks.table_files import files_of, fitted, is_plain

    ranged = [*fold.ranged(fields)]
    stored = pa.table(table.get_add_actions(flatten=True))
    files = files_of(stored)
    if not all(map(is_plain, files)):
        raise NotDirectError("it has files elsewhere")
    schema = pa.schema(table.schema().to_arrow())
    try:
        # Before anything is read: Arrow wraps a sum around.
        known = _bounds_there(stored, [name for name, _, _ in ranged])
        mine = {name: _bounds([rows[name]]) for name, _, _ in ranged}
        if why := why_out_of_range(ranged, known, mine):
            raise NotDirectError(why)
        # All rows are read; files without a changed row stay.
        parts = [_tagged(fitted(rows, schema), NEW)]
        parts += [_tagged(each, at) for at, each in enumerate(_stored(path, files, schema))]
        folded, changed = _folded(pa.concat_tables(parts), fold)
        new = _written(Path(path), fitted(folded, schema))
    # Overflow: Python has no dates and times after the year 9999.
    except (pa.ArrowException, OverflowError) as error:
        raise NotDirectError(f"its rows cannot be merged: {error}") from error
    return Change(
        new=new,
        removed=[files[at].removed(new.at_ms, data_change=True) for at in sorted(changed.files)],
        metrics={
            "numTargetRowsInserted": str(rows.num_rows - changed.rows),
            "numTargetRowsUpdated": str(changed.rows),
            "numTargetFilesAdded": "1",
            "numTargetBytesAdded": str(new.path.stat().st_size),
            "numTargetFilesRemoved": str(len(changed.files)),
        },
    )


class _Changed(NamedTuple):
    """The files with rows that a batch changes, and how many rows."""

    files: set[int]
    rows: int


def _folded(rows: Any, fold: Fold) -> tuple[Any, _Changed]:
    """The rows of the new file. `rows`: the table's and the batch's, with `_FILE`. A null is equal
    to a null in a group. Raises NotDirectError for a key that one side has twice."""
    import pyarrow as pa
    import pyarrow.compute as pc

    # A table's count that is null stays so, as in SQL; the other functions skip nulls.
    counts = pc.ScalarAggregateOptions(skip_nulls=False)
    wanted = [
        (name, "sum", counts) if function == "count" else (name, function)
        for name, function in fold.functions.items()
    ]
    places = [(_FILE, "min"), (_FILE, "max"), (_FILE, "count")]
    found = rows.group_by([*fold.keys], use_threads=False).aggregate([*wanted, *places])
    # By their places: a column's name may be that of another one with a function.
    *columns, low, top, count = found.columns
    is_new, is_old = pc.equal(low, NEW), pc.not_equal(top, NEW)
    is_changed = pc.and_(is_new, is_old)
    sides = pc.add(pc.cast(is_new, "int64"), pc.cast(is_old, "int64"))
    if pc.any(pc.greater(count, sides)).as_py():
        raise NotDirectError("it has a key twice")
    files = pc.unique(top.filter(is_changed))
    written = pa.table(columns, [*fold.keys, *fold.functions])
    written = written.filter(pc.or_(is_new, pc.is_in(top, files)))
    return written, _Changed(set(files.to_pylist()), pc.sum(is_changed).as_py() or 0)


def _stored(path: str, files: Sequence[StoredFile], schema: Any) -> Iterator[Any]:
    """The rows of each file. Raises NotDirectError for a file that Arrow cannot read."""
    from pipelines.sinks import table_files

    folder, room = TableFolder(path=path, files=FolderFiles()), TABLE_MEMORY_MAX
    for each in files:
        try:
            batches = table_files.rows_of(folder, each, schema, at_once=_ROWS_AT_ONCE)
            found = _within(room, batches, schema)
        except OSError as error:
            raise NotDirectError(str(error)) from error
        room -= found.nbytes
        yield found


def _within(room: int, batches: Iterable[Any], schema: Any) -> Any:
    """The batches as one Arrow table. Raises NotDirectError for more than `room` bytes in memory,
    before they are there: a footer has the bytes of a text that is repeated only once."""
    import pyarrow as pa

    found = []
    for each in batches:
        found.append(each)
        room -= each.nbytes
        if room < 0:
            raise NotDirectError("its texts are too long")
    return pa.Table.from_batches(found, schema)


def _tagged(rows: Any, at: int) -> Any:
    import pyarrow as pa

    return rows.append_column(_FILE, pa.repeat(pa.scalar(at, pa.int64()), rows.num_rows))


def _written(folder: Path, rows: Any) -> NewFile:
    import pyarrow.parquet as pq

    path = folder / f"part-00000-{uuid4()}-c000.zstd.parquet"
    pq.write_table(
        rows,
        path,
        compression="zstd",
        compression_level=1,
        write_statistics=with_footer_bounds(rows.schema),
    )
    return NewFile(path=path, at_ms=path.stat().st_mtime_ns // 1_000_000)


def _bounds_there(files: Any, names: Sequence[str]) -> dict[str, Bounds | None]:
    """The bounds over all files, an Arrow table of delta-rs, by their statistics. Raises
    NotDirectError for a large table."""
    import pyarrow.compute as pc

    if files.num_rows and pc.sum(files["size_bytes"]).as_py() > TABLE_BYTES_MAX:
        raise NotDirectError("its files are large")
    if "num_records" in files.column_names:
        count = pc.sum(files["num_records"]).as_py() or 0
        if count > TABLE_ROWS_MAX:
            raise NotDirectError(f"it has {count:,} rows")
    if not files.num_rows:
        return dict.fromkeys(names, (None, None))
    found: dict[str, Bounds | None] = {}
    for name in names:
        columns = [f"{what}.{name}" for what in ("min", "max", "null_count")]
        if not {*columns, "num_records"} <= {*files.column_names}:
            found[name] = None
            continue
        low, high, nulls = (files[each] for each in columns)
        # A file of nulls alone has no bounds; of another one without them they are not known.
        unknown = pc.or_kleene(pc.is_null(low), pc.is_null(high))
        full = pc.fill_null(pc.not_equal(nulls, files["num_records"]), True)
        silent = pc.any(pc.and_kleene(unknown, full)).as_py()
        found[name] = None if silent else _bounds([low, high])
    return found


def _bounds(columns: Iterable[Any]) -> Bounds:
    import pyarrow.compute as pc

    pairs = [pc.min_max(each).as_py() for each in columns]
    some = [pair for pair in pairs if pair["min"] is not None]
    if not some:
        return None, None
    return min(pair["min"] for pair in some), max(pair["max"] for pair in some)
