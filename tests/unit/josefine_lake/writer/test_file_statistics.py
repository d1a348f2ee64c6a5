"""Readers that skip data files by their statistics find the rows of their filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.josefine_lake.writer.filtered_rows import (
    FILES,
    FILTERS,
    SCHEMA,
    Filter,
    expression,
    holds,
    ids,
    numbered,
    table_of,
)


@settings(max_examples=20)
@given(files=FILES, hows=st.lists(FILTERS, min_size=1, max_size=12))
def test_a_reader_that_skips_files_finds_the_rows_of_its_filter(
    tmp_path_factory: pytest.TempPathFactory, files: Any, hows: list[Filter]
) -> None:
    rows = numbered(files)
    table = table_of(tmp_path_factory.mktemp("table"), files)
    dataset = table.to_pyarrow_dataset()
    memory = pa.Table.from_pylist(rows, SCHEMA)

    for how in hows:
        expected = [row["id"] for row in rows if holds(row, how)]
        assert ids(dataset.to_table(filter=expression(how), columns=["id"])) == expected, how
        # DuckDB has an order of its own for NaN, so its rows in memory are what is expected.
        sql, than = f"SELECT id FROM {{}} WHERE {condition(how)}", parameters(how)
        with duckdb.connect() as duck:
            duck.register("dataset", dataset)
            duck.register("memory", memory)
            found, there = (
                sorted(duck.execute(sql.format(of), than).fetchall())
                for of in ("dataset", "memory")
            )
        assert found == there, how


def condition(how: Filter) -> str:
    name, compare, _ = how
    if compare in ("null", "valid"):
        return f"{name} IS {'NOT ' * (compare == 'valid')}NULL"
    return f"{name} {compare} ?"


def parameters(how: Filter) -> list[Any]:
    return [] if how[1] in ("null", "valid") else [how[2]]


def test_a_row_with_nan_is_found_in_the_row_group_of_one_other_value(tmp_path: Path) -> None:
    """Found by the property above: the footer's bounds of the group were both -inf."""
    empty = dict.fromkeys(SCHEMA.names)
    values = [float("-inf"), 1.5, 0.0]
    files = [[{**empty, "f": each}, {**empty, "f": float("nan")}] for each in values]
    numbered(files)
    dataset = table_of(tmp_path / "table", files).to_pyarrow_dataset()

    for at, value in enumerate(values):
        found = ids(dataset.to_table(filter=expression(("f", "!=", value)), columns=["id"]))
        assert found == [each for each in range(6) if each != 2 * at]
    assert ids(dataset.to_table(filter=expression(("f", "<", 1.5)), columns=["id"])) == [0, 4]


def test_a_file_without_nan_has_the_bounds_of_its_floats(tmp_path: Path) -> None:
    empty = dict.fromkeys(SCHEMA.names)
    rows = [{**empty, "d": each, "st": {"x": None, "deep": {"y": each}}} for each in (2.5, None, 7)]
    table = table_of(tmp_path / "table", [[*rows, {**empty}]])

    (found,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (found["min.d"], found["max.d"], found["null_count.d"]) == (2.5, 7.0, 2)
    assert (found["min.st.deep.y"], found["max.st.deep.y"]) == (2.5, 7.0)
    assert found["null_count.st.deep.y"] == 2
