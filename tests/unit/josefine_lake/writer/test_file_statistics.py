"""Readers that skip data files by their statistics find the rows of their filters."""

from __future__ import annotations

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
