"""The data files of a commit in mode upsert: those that have changed rows are written again.

The rows are those of the SQL in `merge`: a change replaces or deletes a row of its key if it is
later, and is inserted if its key has no row. Columns that the changes lack keep their values.
Memory is bounded by the changes and one row group: of a file, its keys are read first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from josefine_lake.writer.changes import DELETED, Changes, numbers, same_values
from josefine_lake.writer.compaction import FILE_BYTES
from josefine_lake.writer.rewrite import Rewrite
from pipelines.sinks.table_files import BATCH_ROWS, StoredFile, rows_of

if TYPE_CHECKING:
    from deltalake.transaction import AddAction, RemoveAction

    from pipelines.storage.folders import TableFolder

KEPT = -1
"""In place of a change: the row stays as it is."""
_OFFSET, _PARTITION, _ROW, _CHANGE = "offset", "partition", "row", "change"
_OLD = "old "


def merged(
    folder: TableFolder,
    files: Iterable[StoredFile],
    changes: Changes,
    schema: pa.Schema,
    removed: Collection[str],
    columns_max: int,
) -> list[AddAction | RemoveAction]:
    """Write the new files; the actions of the commit, none if no row changes. `schema`: the
    table's; `removed`: columns that the topic has no more. Raises OSError."""
    merge = Merge(changes, schema, removed)
    names = [*changes.keys, *changes.order]
    gone = []
    with Rewrite(folder, schema, columns_max, FILE_BYTES, changes.at_ms) as new:
        for file in files:
            if not merge.may_have(file.bounds):
                continue
            found = [merge.find(rows) for rows in rows_of(folder, file, schema, names)]
            if not any((each != KEPT).any() for each in found):
                continue
            gone.append(file)
            places = np.concatenate(found)
            # This reading may cut the file at other rows: an Arrow array has at most 2 GiB.
            for rows in rows_of(folder, file, schema):
                for each in merge.changed(rows, places[: rows.num_rows]):
                    new.add(each, data_change=True)
                places = places[rows.num_rows :]
        for rows in merge.inserted():
            new.add(rows, data_change=True)
        new.close(data_change=True)
    return [*(each.removed(changes.at_ms, data_change=True) for each in gone), *new.closed]


class Merge:
    """The changes of one commit. Mutable: which of them have met a row of their key."""

    def __init__(self, changes: Changes, schema: pa.Schema, removed: Collection[str]) -> None:
        self._schema, self._removed, self._keys = schema, removed, changes.keys
        self._order = changes.order
        (rows,) = pa.Table.from_batches(changes.rows.to_batches()).combine_chunks().to_batches()
        self._is_delete = numbers(rows.column(DELETED).cast(pa.int64())).astype(bool)
        self._rows = rows
        self._met = np.zeros(rows.num_rows, bool)
        of = [self._cast(name) for name in (*changes.keys, *changes.order)]
        self._by_key = pa.table(
            [*of, pa.array(np.arange(rows.num_rows))],
            [*map(_key, range(len(changes.keys))), _OFFSET, _PARTITION, _CHANGE],
        )
        self._bounds = dict(self._all_bounds(schema))

    def may_have(self, file: Mapping[str, Any]) -> bool:
        """Whether a file may have rows of these keys, by its bounds in the log."""
        for name, (low, top) in self._bounds.items():
            least, most = file.get(f"min.{name}"), file.get(f"max.{name}")
            if least is not None and most is not None and (most < low or least > top):
                return False
        return True

    def find(self, rows: Any) -> Any:
        """For each row of a file, the number of the change that replaces or deletes it, or KEPT.
        `rows`: its keys and order."""
        keys = [_key(at) for at in range(len(self._keys))]
        old = pa.table(
            [*map(same_values, rows.columns), pa.array(np.arange(rows.num_rows))],
            [*keys, _OLD + _OFFSET, _OLD + _PARTITION, _ROW],
        )
        pairs = old.join(self._by_key, keys, join_type="inner", use_threads=False).combine_chunks()
        found = np.full(rows.num_rows, KEPT)
        if pairs.num_rows:
            row, change = (numbers(pairs[name].combine_chunks()) for name in (_ROW, _CHANGE))
            self._met[change] = True
            is_later = numbers(_is_later(pairs).cast(pa.int64()).combine_chunks()).astype(bool)
            found[row[is_later]] = change[is_later]
        return found

    def changed(self, rows: Any, found: Any) -> Iterator[Any]:
        """Rows of a file after the changes that `find` has found for them."""
        is_kept = found == KEPT
        yield rows.filter(pa.array(is_kept))
        is_replaced = ~is_kept
        is_replaced[is_replaced] = ~self._is_delete[found[is_replaced]]
        if is_replaced.any():
            old = rows.filter(pa.array(is_replaced))
            yield self._new(found[is_replaced], old)

    def inserted(self) -> Iterator[Any]:
        """The changes that met no row. To be called after all files."""
        places = np.flatnonzero(~self._met & ~self._is_delete)
        for at in range(0, len(places), BATCH_ROWS):
            yield self._new(places[at : at + BATCH_ROWS], None)

    def _new(self, changes: Any, old: Any | None) -> Any:
        """Rows with the values of changes; `old`: the rows that have the other columns."""
        places = pa.array(changes)
        columns = []
        for field in self._schema:
            if field.name in self._rows.schema.names:
                columns.append(self._cast(field.name).take(places))
            elif old is None or field.name in self._removed:
                # What the topic has no more would otherwise keep the value of an earlier row.
                columns.append(pa.nulls(len(changes), field.type))
            else:
                columns.append(old.column(field.name))
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cast(self, name: str) -> Any:
        column, kind = self._rows.column(name), self._schema.field(name).type
        return column if column.type == kind else column.cast(kind)

    def _all_bounds(self, schema: pa.Schema) -> Iterator[tuple[str, tuple[Any, Any]]]:
        for name in self._keys:
            kind = schema.field(name).type
            # In the log's flat form a point may also be that of a column within a struct.
            if "." not in name and (pa.types.is_integer(kind) or pa.types.is_string(kind)):
                found = pc.min_max(self._rows.column(name)).as_py()
                if found["min"] is not None:
                    yield name, (found["min"], found["max"])


def _key(at: int) -> str:
    return f"key {at}"


def _is_later(pairs: Any) -> Any:
    """`merge.is_later`; NULL, that is a row without offset or partition, counts as later."""
    partition, old_partition = pairs[_PARTITION], pairs[_OLD + _PARTITION]
    offset, old_offset = pairs[_OFFSET], pairs[_OLD + _OFFSET]
    is_same = pc.equal(partition, old_partition)
    is_higher = pc.or_kleene(
        pc.greater(offset, old_offset),
        pc.and_kleene(pc.equal(offset, old_offset), pc.greater(partition, old_partition)),
    )
    return pc.fill_null(pc.or_kleene(is_same, is_higher), True)
