"""The partials of a batch merged into a local Delta table by delta-rs, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.model.direct_merge import (
    BYTES_MAX,
    ROWS_MAX,
    TABLE_BYTES_MAX,
    Bounds,
    Fold,
    why_out_of_range,
)
from pipelines.model.table_columns import Fields
from pipelines.sinks.direct_table import NewFile, NotDirectError

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable


def rows_of(files: Sequence[NewFile]) -> Any:
    """The rows of the files, an Arrow table; None: there are none. Raises NotDirectError for more
    than are merged here."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    footers = [pq.read_metadata(each.path) for each in files]
    count = sum(each.num_rows for each in footers)
    if count > ROWS_MAX:
        raise NotDirectError(f"a batch has {count:,} rows to merge")
    groups = (each.row_group(at) for each in footers for at in range(each.num_row_groups))
    size = sum(each.total_byte_size for each in groups)
    if size > BYTES_MAX:
        raise NotDirectError(f"a batch has {size:,} bytes to merge")
    found = [each.path for each, footer in zip(files, footers, strict=True) if footer.num_rows]
    # Not as a data set: it would take a part of the folder's name for a column.
    return pa.concat_tables([pq.ParquetFile(each).read() for each in found]) if found else None


def merge(
    rows: Any, fold: Fold, fields: Fields, table: DeltaTable, properties: CommitProperties
) -> None:
    """Merge partials, an Arrow table. Raises NotDirectError, DeltaError."""
    ranged = [*fold.ranged(fields)]
    known = _bounds_there(table, [name for name, _, _ in ranged])
    why = why_out_of_range(ranged, known, {name: _bounds([rows[name]]) for name, _, _ in ranged})
    if why:
        raise NotDirectError(why)
    (
        table.merge(
            rows,
            fold.same,
            source_alias="s",
            target_alias="t",
            streamed_exec=False,  # the partials are in memory
            commit_properties=properties,
        )
        .when_matched_update(fold.update)
        .when_not_matched_insert(fold.insert)
        .execute()
    )


def _bounds_there(table: DeltaTable, names: Sequence[str]) -> dict[str, Bounds | None]:
    """The bounds over all files by their statistics. Raises NotDirectError for a large table."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(table.get_add_actions(flatten=True))
    if files.num_rows and pc.sum(files["size_bytes"]).as_py() > TABLE_BYTES_MAX:
        raise NotDirectError("its files are large")
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
