"""Rows of every type in data files, and filters of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, Schema
from deltalake.transaction import create_table_with_add_actions
from hypothesis import strategies as st

from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.delta_table import ChainedTable
from pipelines.sinks.commits import Link
from pipelines.storage.folders import Folders

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXTS = [
    "",
    "a",
    "b",
    "é",
    "x" * 32,
    "x" * 33,
    "x" * 32 + "\U0001f600",
    "y" * 5_000,
    "\U00020bb7",
    "x" * 31 + "\U0010ffff",
    "\U0010ffff" * 40,
]
FLOATS = [0.0, -0.0, 1.5, -2.25, 1e300, float("inf"), float("-inf"), float("nan")]
DECIMALS = [Decimal(each) for each in ("0", "-0.001", "1.500", "-99999999999999999.999")]
WIDE = [Decimal(each) for each in ("12345678901234567890123456789012345.678", "0.001", "-7")]
MICROS = [0, -1, 1, 999, 1_000, 1_001, -62_135_596_800_000_000, 253_402_300_799_999_999]
TIMES = [EPOCH + timedelta(microseconds=each) for each in MICROS]
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [0, 1, -1, 2**63 - 1, -(2**63)]),
    "t": (pa.int8(), [0, 127, -128]),
    "b": (pa.bool_(), [True, False]),
    "f": (pa.float32(), [each for each in FLOATS if each != 1e300]),
    "d": (pa.float64(), FLOATS),
    "s": (pa.string(), TEXTS),
    "a": (pa.decimal128(20, 3), DECIMALS),
    "w": (pa.decimal128(38, 3), WIDE),
    "e": (pa.date32(), [date(1970, 1, 1), date(1, 1, 1), date(9999, 12, 31), date(2026, 2, 28)]),
    "z": (pa.timestamp("us", "UTC"), TIMES),
    "n": (pa.timestamp("us"), [each.replace(tzinfo=None) for each in TIMES]),
}
SCHEMA = pa.schema([
    ("id", pa.int64()),
    *((name, kind) for name, (kind, _) in KINDS.items()),
    ("st", pa.struct([("x", pa.int32()), ("deep", pa.struct([("y", pa.float64())]))])),
    ("bin", pa.binary()),
    ("l", pa.list_(pa.int32())),
])  # fmt: skip
COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
ROWS = st.lists(
    st.fixed_dictionaries(
        {name: st.none() | st.sampled_from(values) for name, (_, values) in KINDS.items()}
        | {
            "st": st.none()
            | st.fixed_dictionaries({
                "x": st.none() | st.integers(-5, 5),
                "deep": st.none() | st.fixed_dictionaries({"y": st.sampled_from([None, *FLOATS])}),
            }),
            "bin": st.none() | st.binary(max_size=2),
            "l": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=2),
        }
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip
FILES = st.lists(ROWS, min_size=1, max_size=3)
FILTERS = st.one_of(
    *(
        # Arrow takes a comparison with NaN itself for true in a file with bounds.
        st.tuples(
            st.just(name),
            st.sampled_from([*COMPARE]),
            st.sampled_from(values).filter(lambda value: value == value),
        )
        for name, (_, values) in KINDS.items()
    ),
    st.tuples(st.sampled_from(SCHEMA.names), st.sampled_from(["null", "valid"]), st.none()),
    st.tuples(st.just("st.x"), st.sampled_from([*COMPARE]), st.integers(-5, 5)),
    st.tuples(st.sampled_from(["st.x", "st.deep"]), st.sampled_from(["null", "valid"]), st.none()),
)
Filter = tuple[str, str, Any]


def table_of(path: Path, files: list[list[dict[str, Any]]], group_rows: int = 2) -> DeltaTable:
    """A table that gets one data file for each list of rows, in row groups of a few rows."""
    folder = Folders({}, {}).open(str(path))
    assert folder is not None
    actions = []
    for rows in files:
        file = DataFile(folder, SCHEMA)
        for at in range(0, len(rows), group_rows):
            file.add(pa.RecordBatch.from_pylist(rows[at : at + group_rows], SCHEMA))
            file._write_group()
        actions.append(file.close(0))
    if DeltaTable.is_deltatable(str(path)):
        DeltaTable(str(path)).create_write_transaction(actions, "append", SCHEMA)
    else:
        create_table_with_add_actions(str(path), Schema.from_arrow(SCHEMA), actions, "append")
    return DeltaTable(str(path))


def chained(path: Path) -> ChainedTable:
    """The table as its writer has it."""
    folder = Folders({}, {}).open(str(path))
    assert folder is not None
    table = ChainedTable(folder, Link(pipeline="table_topics", sink="t", run="one"))
    table.load()
    return table


def compacted(path: Path) -> DeltaTable:
    """The table after its small files were made one."""
    chained(path).compact(1 << 20, 0)
    table = DeltaTable(str(path))
    assert len(table.file_uris()) == 1
    return table


def value_of(row: dict[str, Any], name: str) -> Any:
    found: Any = row
    for part in name.split("."):
        found = None if found is None else found[part]
    return found


def holds(row: dict[str, Any], how: Filter) -> bool:
    """Whether a row is of the filter, in Python; NaN is unequal to all, as Arrow has it."""
    name, compare, than = how
    value = value_of(row, name)
    if compare in ("null", "valid"):
        return (value is None) == (compare == "null")
    return value is not None and bool(COMPARE[compare](value, than))


def expression(how: Filter) -> Any:
    name, compare, than = how
    column = ds.field(*name.split("."))
    if compare in ("null", "valid"):
        return column.is_null() if compare == "null" else column.is_valid()
    kind = KINDS[name][0] if name in KINDS else pa.int32()
    return COMPARE[compare](column, pa.scalar(than, kind))


def numbered(files: list[list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """All rows, each with its number as `id`."""
    rows = [row for each in files for row in each]
    for at, row in enumerate(rows):
        row["id"] = at
    return rows


def ids(found: Any) -> list[int]:
    return sorted(found.column("id").to_pylist())
