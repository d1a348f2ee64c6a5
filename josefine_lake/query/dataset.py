"""The Arrow dataset of one version of a table, with the bounds of its files that are true.

delta-rs gives each file a guarantee of its statistics, and for a column without bounds in the log
one with null in place of them: a filter on such a column then finds no row. The table writer logs
no bounds of decimals, times and structs, so the guarantees here are made of those bounds alone that
are there, of types whose order is the same everywhere. The rest is skipped by the bounds in the
files themselves.
"""

from __future__ import annotations

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
    partitions = delta.metadata().partition_columns
    known = {each["path"]: each for each in _actions(delta)}
    fragments = [
        found.format.make_fragment(
            each.path,
            system,
            partition_expression=guarantee(known.get(each.path, {}), schema, partitions),
        )
        for each in found.get_fragments()
    ]
    return ds.FileSystemDataset(fragments, schema, found.format, system)


def guarantee(action: dict[str, Any], schema: pa.Schema, partitions: list[str]) -> Any:
    """What is true of each row of a file. `action`: its flat entry in the log."""
    parts = []
    for field in schema:
        column = pc.field(field.name)
        if field.name in partitions:
            value = action[f"partition.{field.name}"]
            is_null = column.is_null()
            parts.append(is_null if value is None else column == pa.scalar(value, field.type))
            continue
        low, top = action.get(f"min.{field.name}"), action.get(f"max.{field.name}")
        if low is None or top is None or not pa.types.is_integer(field.type):
            continue
        bound = (column >= low) & (column <= top)
        # Without a count there may be nulls.
        parts.append(bound if action.get(f"null_count.{field.name}") == 0 else
                     bound | column.is_null())  # fmt: skip
    whole = pc.scalar(True)
    for part in parts:
        whole = whole & part
    return whole


def _actions(delta: DeltaTable) -> list[dict[str, Any]]:
    """The files' entries, with their integers alone: Python has no times after the year 9999."""
    table = pa.table(delta.get_add_actions(flatten=True))
    kept = [
        field.name
        for field in table.schema
        if field.name == "path"
        or field.name.startswith("partition.")
        or pa.types.is_integer(field.type)
    ]
    rows: list[dict[str, Any]] = table.select(kept).to_pylist()
    return rows
