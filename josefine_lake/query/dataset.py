"""The Arrow dataset of one version of a table, with the bounds of its files that are true.

delta-rs gives each file a guarantee of its statistics, and for a column without bounds in the log
one with null in place of them: a filter on such a column then finds no row. The table writer logs
no bounds of decimals, times and structs, so the guarantees here are made of those bounds alone that
are there, of types whose order is the same everywhere. The rest is skipped by the bounds in the
files themselves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyarrow import dataset as ds
from pyarrow.fs import FileSystem


def dataset_of(delta: DeltaTable, system: FileSystem, schema: pa.Schema) -> Any:
    """The rows with the columns of `schema`; those that files lack are null. Raises DeltaError for
    a table that delta-rs cannot read as a dataset."""
    found = delta.to_pyarrow_dataset(filesystem=system, schema=schema)
    partitions = frozenset(delta.metadata().partition_columns)
    bounds = _bounds(delta)
    fragments = []
    for each in found.get_fragments():
        # Equalities alone, which are of the partition's columns.
        values = ds.get_partition_keys(each.partition_expression) if partitions else {}
        whole = pc.scalar(True)
        for name in partitions:
            whole = whole & _is(pc.field(name), values.get(name), schema.field(name).type)
        for part in _within(bounds.get(_name(each.path), {}), schema, partitions):
            whole = whole & part
        fragments.append(found.format.make_fragment(each.path, system, partition_expression=whole))
    return ds.FileSystemDataset(fragments, schema, found.format, system)


def _is(column: Any, value: Any, kind: pa.DataType) -> Any:
    return column.is_null() if value is None else column == pa.scalar(value, kind)


def _within(
    action: Mapping[str, Any], schema: pa.Schema, partitions: Collection[str]
) -> Iterator[Any]:
    """The bounds of a file's columns. `action`: its flat entry in the log."""
    for field in schema:
        low, top = action.get(f"min.{field.name}"), action.get(f"max.{field.name}")
        is_whole = pa.types.is_integer(field.type) and field.name not in partitions
        if low is None or top is None or not is_whole:
            continue
        column = pc.field(field.name)
        bound = (column >= low) & (column <= top)
        # Without a count there may be nulls.
        has_nulls = action.get(f"null_count.{field.name}") != 0
        yield bound | column.is_null() if has_nulls else bound


def _bounds(delta: DeltaTable) -> dict[str, Mapping[str, Any]]:
    """File → its entry in the log, with its integers alone: Python has no times after the year
    9999. Without files whose name is there twice."""
    table = pa.table(delta.get_add_actions(flatten=True))
    kept = [
        field.name
        for field in table.schema
        if field.name == "path" or pa.types.is_integer(field.type)
    ]
    rows = table.select(kept).to_pylist()
    count = Counter(_name(each["path"]) for each in rows)
    return {name: each for each in rows if count[name := _name(each["path"])] == 1}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
