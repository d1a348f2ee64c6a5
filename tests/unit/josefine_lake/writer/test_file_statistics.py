"""Readers that skip data files by their statistics find the rows of their filters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.writer.changes import DELETED, PendingChanges
from josefine_lake.writer.merge import CHANGE_FEED, leave_out_floats
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit
from tests.unit.josefine_lake.writer.filtered_rows import (
    FILES,
    FILTERS,
    SCHEMA,
    Filter,
    chained,
    compacted,
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
    path = tmp_path_factory.mktemp("table")
    finds(table_of(path, files), rows, hows)
    finds(compacted(path), rows, hows)


def finds(table: DeltaTable, rows: list[dict[str, Any]], hows: list[Filter]) -> None:
    """Assert that the readers of a table find the rows of the filters."""
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


@pytest.mark.parametrize("how", ["appended", "compacted", "merged", "merged by delta-rs"])
def test_a_row_with_nan_is_found_in_the_row_group_of_one_other_value(
    tmp_path: Path, how: str
) -> None:
    """Found by the property above: the footer's bounds of the group were both -inf."""
    empty = dict.fromkeys(SCHEMA.names)
    values = [float("-inf"), 1.5, 0.0]
    files = [[{**empty, "f": each}, {**empty, "f": float("nan")}] for each in values]
    numbered(files)
    table = table_of(tmp_path / "table", files)
    if how == "compacted":
        table = compacted(tmp_path / "table")
    elif how.startswith("merged"):
        if how != "merged":
            table.alter.set_table_properties({CHANGE_FEED: "true"})
        table = merged(tmp_path / "table", {**files[0][0], "id": 0})
    dataset = table.to_pyarrow_dataset()

    for at, value in enumerate(values):
        found = ids(dataset.to_table(filter=expression(("f", "!=", value)), columns=["id"]))
        assert found == [each for each in range(6) if each != 2 * at]
    assert ids(dataset.to_table(filter=expression(("f", "<", 1.5)), columns=["id"])) == [0, 4]


def test_bounds_are_not_left_out_after_a_commit_that_nobody_has_looked_at(tmp_path: Path) -> None:
    """The merge after it would be on top of that commit, such as a RESTORE, too."""
    table = table_of(tmp_path / "table", [[dict.fromkeys(SCHEMA.names)]])
    table_of(tmp_path / "table", [[dict.fromkeys(SCHEMA.names)]])
    version = DeltaTable(str(tmp_path / "table")).version()

    with pytest.raises(CommitFailedError):
        leave_out_floats(table, -1)

    assert DeltaTable(str(tmp_path / "table")).version() == version


def test_a_file_without_nan_has_the_bounds_of_its_floats(tmp_path: Path) -> None:
    empty = dict.fromkeys(SCHEMA.names)
    rows = [{**empty, "d": each, "st": {"x": None, "deep": {"y": each}}} for each in (2.5, None, 7)]
    table = table_of(tmp_path / "table", [[*rows, {**empty}]])

    (found,) = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    assert (found["min.d"], found["max.d"], found["null_count.d"]) == (2.5, 7.0, 2)
    assert (found["min.st.deep.y"], found["max.st.deep.y"]) == (2.5, 7.0)
    assert found["null_count.st.deep.y"] == 2


def merged(path: Path, row: dict[str, Any]) -> DeltaTable:
    """The table after one row was merged into it, by its `id`. Its file is written again."""
    changes = PendingChanges(("id",), ("id", "t"))
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    changes.add(pa.RecordBatch.from_pylist([{**row, "t": 1, DELETED: False}], schema=schema))
    tp = TopicPartition("t", 0)
    commit = Commit(
        start={tp: 0}, end=TopicOffsets(ends={tp: 1}, topic_ids={"t": "1"}), txn_version=1
    )
    table = chained(path)
    before = {*DeltaTable(str(path)).file_uris()}
    table.commit([changes.close(0)], commit, SCHEMA, {}, lambda place: None)
    found = DeltaTable(str(path))
    assert len(before - {*found.file_uris()}) == 1
    return found
