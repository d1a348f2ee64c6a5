"""Mode upsert with real Delta tables: the latest row of each key, however changes are cut."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.writer import delta_table
from josefine_lake.writer.changes import DELETED, PendingChanges
from josefine_lake.writer.delta_table import ChainedTable, MisfitError
from josefine_lake.writer.merge import write
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit
from pipelines.sinks.commits import Link, StoppedError
from pipelines.storage.folders import Folders

SCHEMA = pa.schema(
    [
        ("Id", pa.string()),
        ('a "b"', pa.int64()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
    ]
)
TP = TopicPartition("t", 0)
Change = tuple[str, bool]
"""A key, and whether it is deleted."""


def opened(path: Path, run: str = "one") -> ChainedTable:
    folder = Folders({}, {}).open(str(path))
    assert folder is not None
    table = ChainedTable(folder, Link(pipeline="table_topics", sink="t", run=run))
    table.load()
    table.ensure(SCHEMA)
    return table


def pending(first: int, changes: list[Change], partition: int = 0) -> PendingChanges:
    """The changes as record batches of two records."""
    found = PendingChanges(("Id",), ("_offset", "_partition"))
    rows = [
        {"Id": key, 'a "b"': at, "_partition": partition, "_offset": at, DELETED: is_deleted}
        for at, (key, is_deleted) in enumerate(changes, first)
    ]
    schema = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    for at in range(0, len(rows), 2):
        found.add(pa.RecordBatch.from_pylist(rows[at : at + 2], schema=schema))
    return found


def commit(table: ChainedTable, number: int, start: int, changes: list[Change]) -> None:
    files = [pending(start, changes).close(0)] if changes else []
    ends = TopicOffsets(ends={TP: start + len(changes)}, topic_ids={"t": "1"})
    made = Commit(start={TP: start}, end=ends, txn_version=number)
    table.commit(files, made, SCHEMA, {}, lambda place: None)


def state(path: Path) -> dict[str, int]:
    rows = DeltaTable(str(path)).to_pyarrow_table().to_pylist()
    assert len({row["Id"] for row in rows}) == len(rows), "one row of each key"
    return {row["Id"]: row["_offset"] for row in rows}


CHANGES = st.lists(st.tuples(st.sampled_from(["a", "b", "c", ""]), st.booleans()), max_size=12)


@given(changes=CHANGES, cuts=st.lists(st.integers(0, 12), max_size=4))
@settings(max_examples=25, deadline=None)
def test_the_table_is_the_latest_row_of_each_key_however_the_changes_are_cut(
    changes: list[Change], cuts: list[int]
) -> None:
    expected: dict[str, int] = {}
    for at, (key, is_deleted) in enumerate(changes):
        expected.pop(key, None)
        if not is_deleted:
            expected[key] = at

    with tempfile.TemporaryDirectory() as folder:
        place, at = Path(folder) / "t", 0
        table = opened(place)
        for number, end in enumerate(
            sorted({*(min(c, len(changes)) for c in cuts), len(changes)}), 1
        ):
            commit(table, number, at, changes[at:end])
            at = end

        assert state(place) == expected
        last = json.loads(DeltaTable(str(place)).history(1)[0]["userMetadata"])
        assert last["end"] == {"t": {"0": len(changes)}}, "also of a commit that changes no row"


def test_a_change_of_another_partition_counts_if_its_offset_is_higher(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    commit(table, 1, 5, [("a", False)])

    for number, (first, gone) in enumerate([(3, False), (4, True), (7, False)], 2):
        ends = TopicOffsets(ends={TP: 6}, topic_ids={"t": "1"})
        made = Commit(start={TP: 6}, end=ends, txn_version=number)
        files = [pending(first, [("a", gone)], partition=1).close(0)]
        table.commit(files, made, SCHEMA, {}, lambda place: None)
        assert state(tmp_path / "t") == {"a": 7 if first == 7 else 5}


def test_a_topic_that_was_created_again_replaces_the_rows_of_the_old_one(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    commit(table, 1, 5, [("a", False), ("b", False)])

    commit(table, 2, 0, [("a", False)])

    assert state(tmp_path / "t") == {"a": 0, "b": 6}


def test_a_merge_after_the_commit_of_another_run_is_refused(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "t"), opened(tmp_path / "t", "other")
    commit(one, 1, 0, [("a", False)])

    with pytest.raises(StoppedError):
        commit(other, 1, 0, [("a", False), ("b", False)])

    assert state(tmp_path / "t") == {"a": 0}


def test_a_merge_at_the_same_moment_as_that_of_another_run_is_refused(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "t"), opened(tmp_path / "t", "other")
    commit(one, 1, 0, [("a", False)])
    other.load()

    def race(place: str) -> None:
        if place == "before_commit":
            commit(one, 2, 1, [("a", False), ("b", False)])

    ends = TopicOffsets(ends={TP: 2}, topic_ids={"t": "1"})
    made = Commit(start={TP: 1}, end=ends, txn_version=2)
    with pytest.raises(StoppedError):
        other.commit([pending(1, [("a", True)]).close(0)], made, SCHEMA, {}, race)

    assert state(tmp_path / "t") == {"a": 1, "b": 2}


@pytest.mark.parametrize("is_made", [True, False])
def test_a_merge_whose_answer_is_lost_is_made_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    table, calls = opened(tmp_path / "t"), []

    def lost(*args: Any) -> None:
        calls.append(args)
        if is_made or len(calls) > 1:
            write(*args)
        if len(calls) == 1:
            raise CommitFailedError("the answer was lost")

    monkeypatch.setattr(delta_table, "write", lost)
    commit(table, 1, 0, [("a", False)])

    assert len(calls) == (1 if is_made else 2)
    assert state(tmp_path / "t") == {"a": 0}
    assert DeltaTable(str(tmp_path / "t")).version() == 1


def test_replaced_changes_are_dropped_before_their_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("josefine_lake.writer.changes.FOLD_BYTES", 1_000)
    found = pending(0, [("same", False)] * 5_000)

    assert found.rows == 5_000
    assert found.size < 10_000
    assert found.close(0).rows.to_pylist()[-1]["_offset"] == 4_999


def test_an_append_only_table_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    lake = str(tmp_path / "t")
    DeltaTable.create(lake, SCHEMA, configuration={"delta.appendOnly": "true"})
    folder = Folders({}, {}).open(lake)
    assert folder is not None
    link = Link(pipeline="table_topics", sink="t", run="one")

    table = ChainedTable(folder, link, merges=True)
    table.load()
    for refused in (table.check, table.ensure):
        with pytest.raises(MisfitError, match=r"append-only \(delta.appendOnly\)"):
            refused(SCHEMA)

    appending = ChainedTable(folder, link)
    appending.load()
    appending.ensure(SCHEMA)
    assert DeltaTable(lake).version() == 0


def merge_by(
    sql: bool, path: Path, rows: list[dict[str, Any]], changes: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The rows of an adopted table after a merge: by the writer's files, or by delta-rs's SQL."""
    schema = pa.schema([*SCHEMA, ("note", pa.string()), ("gone", pa.int64())])
    # The change feed makes delta-rs merge.
    settings = {"delta.enableChangeDataFeed": "true"} if sql else {}
    write_deltalake(str(path), pa.Table.from_pylist(rows[:3], schema), configuration=settings)
    write_deltalake(str(path), pa.Table.from_pylist(rows[3:], schema), mode="append")
    pending = PendingChanges(("Id",), ("_offset", "_partition"))
    flagged = SCHEMA.append(pa.field(DELETED, pa.bool_()))
    pending.add(pa.RecordBatch.from_pylist(changes, schema=flagged))
    table = opened(path)
    table._removed = ("gone",)
    ends = TopicOffsets(ends={TP: 1}, topic_ids={"t": "1"})
    made = Commit(start={TP: 0}, end=ends, txn_version=1)
    table.commit([pending.close(0)], made, SCHEMA, {}, lambda place: None)
    found = DeltaTable(str(path))
    assert (found.history(1)[0]["operation"] == "MERGE") == sql
    return sorted(
        found.to_pyarrow_table().to_pylist(), key=lambda row: [str(each) for each in row.values()]
    )


def test_the_writers_own_merge_gives_the_rows_of_delta_rs(tmp_path: Path) -> None:
    """Also of an adopted table: with keys twice, without offsets, with columns of its own."""
    places = [None, 0, 1, 2]
    old = [
        {"Id": key, "_offset": offset, "_partition": partition}
        for key in ("a", "b", "c", None)
        for offset in places
        for partition in places
    ]
    old = [{**row, 'a "b"': at, "note": f"n{at}", "gone": at} for at, row in enumerate(old)]
    new = [
        {"Id": key, "_offset": 1, "_partition": 1, 'a "b"': 100, DELETED: is_deleted}
        for key, is_deleted in [("a", False), ("b", True), ("y", True), ("z", False)]
    ]

    own, by_sql = (merge_by(sql, tmp_path / str(sql), old, new) for sql in (False, True))

    assert own == by_sql
    assert len(own) < len(old)


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize("sql", [False, True])
def test_both_zeros_are_one_key_as_all_nan_are(tmp_path: Path, sql: bool, kind: Any) -> None:
    """As in Spark's MERGE, which a pipeline makes."""
    nans = np.array([0x7FF8000000000000, 0x7FF8000000000001, -1], "i8").view("f8")
    schema = SCHEMA.set(0, pa.field("Id", kind))
    # delta-rs's SQL has no name for the others in a table of somebody else.
    files = [[-0.0, float(nans[0 if sql else 1]), 1.5], [-1.0]]
    folder = Folders({}, {}).open(str(tmp_path))
    assert folder is not None
    for at, ids in enumerate(files):
        rows = {name: [at] * len(ids) for name in schema.names} | {"Id": pa.array(ids, kind)}
        settings = {"delta.enableChangeDataFeed": "true"} if sql else {}
        write_deltalake(tmp_path, pa.table(rows, schema), mode="append", configuration=settings)
    pending = PendingChanges(("Id",), ("_offset", "_partition"))
    for at, ids in enumerate(([0.0, -1.0], [-0.0], [nans[1]], [nans[2]]), 2):
        rows = {name: [at] * len(ids) for name in schema.names} | {"Id": pa.array(ids, kind)}
        batch = pa.RecordBatch.from_pydict(rows, schema)
        pending.add(batch.append_column(DELETED, pa.array([False] * len(ids))))
    changes = pending.close(0)

    write(DeltaTable(tmp_path), folder, [changes], schema, CommitProperties(), (), -1)

    found = DeltaTable(tmp_path).to_pyarrow_table().to_pylist()
    assert DeltaTable(tmp_path).history(1)[0]["operation"] == ("MERGE" if sql else "WRITE")
    wanted = {"nan": 5, "0.0": 3, "1.5": 0, "-1.0": 2}
    assert sorted((str(each["Id"]), each["_offset"]) for each in found) == sorted(wanted.items())


def test_only_files_with_changed_rows_are_written_again(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    commit(table, 1, 0, [("a", False), ("b", False)])
    commit(table, 2, 2, [("x", False), ("z", False)])
    before = {*DeltaTable(str(tmp_path / "t")).file_uris()}

    commit(table, 3, 4, [("y", False), ("b", True)])

    after = DeltaTable(str(tmp_path / "t"))
    assert len(before & {*after.file_uris()}) == 1
    assert state(tmp_path / "t") == {"a": 0, "x": 2, "z": 3, "y": 4}


def test_a_row_that_another_program_appends_meanwhile_is_merged_too(tmp_path: Path) -> None:
    table, raced = opened(tmp_path / "t"), []

    def race(place: str) -> None:
        if place == "before_commit" and not raced:
            raced.append(place)
            row = {"Id": "b", 'a "b"': 0, "_partition": 0, "_offset": 0}
            write_deltalake(str(tmp_path / "t"), pa.Table.from_pylist([row], SCHEMA), mode="append")

    ends = TopicOffsets(ends={TP: 1}, topic_ids={"t": "1"})
    made = Commit(start={TP: 0}, end=ends, txn_version=1)
    table.commit([pending(5, [("b", False)]).close(0)], made, SCHEMA, {}, race)

    assert raced
    assert state(tmp_path / "t") == {"b": 5}
