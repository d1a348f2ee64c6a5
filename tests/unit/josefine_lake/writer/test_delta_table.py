"""A real Delta table with a chain: compaction between commits, races, tables replaced."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.schema import PrimitiveType

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import Evolution
from josefine_lake.writer.data_file import DataFile
from josefine_lake.writer.delta_table import ChainedTable, MisfitError
from josefine_lake.writer.rewrite import Rewrite
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.sinks.commits import Link, StoppedError
from pipelines.storage.folders import Folders

SCHEMA = pa.schema([("n", pa.int64()), ("text", pa.string())])
TP = TopicPartition("t", 0)


def opened(path: Path, run: str = "one") -> ChainedTable:
    table = closed(path, run)
    table.ensure(SCHEMA)
    return table


def closed(path: Path, run: str) -> ChainedTable:
    """A table whose log was read, before it is created or compared."""
    folder = Folders({}, {}).open(str(path))
    assert folder is not None
    table = ChainedTable(folder, Link(pipeline="table_topics", sink="t", run=run))
    table.load()
    return table


def commit(table: ChainedTable, number: int, text: str = "a", at: Any = lambda place: None) -> None:
    file = DataFile(table.folder, SCHEMA)
    file.add(pa.RecordBatch.from_pydict({"n": [number], "text": [text]}, schema=SCHEMA))
    ends = TopicOffsets(ends={TP: number}, topic_ids={"t": "1"})
    made = Commit(start={TP: number - 1}, end=ends, txn_version=number)
    table.commit([file.close(0)], made, SCHEMA, {}, at)


def numbers(path: Path) -> list[int]:
    return sorted(DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist())


def test_small_files_are_rewritten_between_two_commits_of_the_chain(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2, 3):
        commit(table, number)

    table.compact(1 << 20, 0)
    commit(table, 4)

    assert table.files_and_bytes()[0] == 2
    assert numbers(tmp_path / "t") == [1, 2, 3, 4]
    found = opened(tmp_path / "t").load()
    assert isinstance(found, Tip)
    assert (found.txn_version, found.reached.ends) == (4, {TP: 4})


@pytest.mark.parametrize(
    ("meanwhile", "left"),
    [
        (lambda table: table.delete("n = 2"), [1, 3]),
        # delta-rs puts a write on top of it: each row would be there twice.
        (lambda table: table.optimize.compact(), [1, 2, 3]),
        (lambda table: table.restore(2), [1, 2]),
        (lambda table: table.alter.add_columns([Field("m", PrimitiveType("long"))]), [1, 2, 3]),
    ],
    ids=["delete", "optimize", "restore", "new column"],
)
def test_a_rewrite_of_files_that_somebody_has_changed_meanwhile_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meanwhile: Any, left: list[int]
) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2, 3):
        commit(table, number)
    copy = Rewrite.copy

    def race(self: Rewrite, files: Any) -> None:
        copy(self, files)
        meanwhile(DeltaTable(str(tmp_path / "t")))

    monkeypatch.setattr(Rewrite, "copy", race)
    with pytest.raises(CommitFailedError):
        table.compact(1 << 20, 0)

    assert numbers(tmp_path / "t") == left
    if len(left) == 3:
        monkeypatch.setattr(Rewrite, "copy", copy)
        commit(table, 4)
        table.compact(1 << 20, 0)
        assert numbers(tmp_path / "t") == [*left, 4]


@pytest.mark.parametrize("failure", [CommitFailedError, DeltaError])
def test_a_rewrite_whose_answer_was_lost_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: type[Exception]
) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2):
        commit(table, number)
    made = DeltaTable.create_write_transaction

    def lost(self: DeltaTable, *args: Any, **more: Any) -> None:
        made(self, *args, **more)
        raise failure("the answer was lost")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    table.compact(1 << 20, 0)

    assert table.files_and_bytes()[0] == 1
    assert numbers(tmp_path / "t") == [1, 2]


def test_rows_that_are_appended_while_files_are_rewritten_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2):
        commit(table, number)
    copy = Rewrite.copy

    def race(self: Rewrite, files: Any) -> None:
        copy(self, files)
        write_deltalake(
            str(tmp_path / "t"), pa.Table.from_pylist([{"n": 7}], SCHEMA), mode="append"
        )

    monkeypatch.setattr(Rewrite, "copy", race)
    table.compact(1 << 20, 0)

    assert table.files_and_bytes()[0] == 2
    assert numbers(tmp_path / "t") == [1, 2, 7]


def test_files_that_lack_columns_or_have_other_types_are_rewritten_as_the_table_has_them(
    tmp_path: Path,
) -> None:
    """Such files are older than a column, or of another program."""
    lake = str(tmp_path / "t")
    inner = pa.struct([("x", pa.int32())])
    rows = pa.table({"st": pa.array([{"x": 1}, None], inner)})
    write_deltalake(lake, rows)
    wider = pa.struct([("x", pa.int32()), ("y", pa.string())])
    rows = pa.table({
        "st": pa.array([{"x": 2, "y": "b"}], wider), "n": [2], "text": pa.array(["t"], pa.string()),
    })  # fmt: skip
    write_deltalake(lake, rows, mode="append", schema_mode="merge")
    before = DeltaTable(lake).to_pyarrow_table().sort_by("n").to_pylist()

    closed(tmp_path / "t", "one").compact(1 << 20, 0)

    after = DeltaTable(lake)
    assert len(after.file_uris()) == 1
    assert after.to_pyarrow_table().sort_by("n").to_pylist() == before


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2):
        commit(table, number)
    broken = next((tmp_path / "t").glob("*.parquet"))
    broken.write_bytes(b"PAR1" + bytes(64) + b"PAR1")
    there = {*(tmp_path / "t").glob("*.parquet")}

    with pytest.raises(OSError, match=broken.name):
        table.compact(1 << 20, 0)

    assert {*(tmp_path / "t").glob("*.parquet")} == there


def test_commits_are_synced_with_their_files_before_anybody_hears_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """delta-rs syncs nothing, and a group's offset lets brokers delete segments."""
    synced: set[str] = set()
    monkeypatch.setattr(os, "fsync", lambda at: synced.add(os.readlink(f"/proc/self/fd/{at}")))
    folder = (tmp_path / "t").resolve()
    log = folder / "_delta_log"

    def unsynced() -> set[str]:
        there = {str(each) for each in folder.rglob("*") if each.is_file()}
        return {*there, str(log), str(folder), str(folder.parent)} - synced

    table = opened(folder)
    commit(table, 1)
    commit(table, 2, "a\u2028")  # which ends no line of the log
    assert not unsynced()
    table.compact(1 << 20, 0)
    assert str(log / f"{3:020d}.json") in unsynced()
    table.identity()
    assert not unsynced()

    # A writer that was killed after its commit has synced nothing.
    synced.clear()
    opened(folder, "next")
    assert not unsynced()


def test_the_files_after_each_commit_are_those_of_the_newest_version(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    for number in (1, 2, 3):
        commit(table, number)
        assert table.files_and_bytes()[0] == number

    DeltaTable(str(tmp_path / "t")).optimize.compact()
    assert table.files_and_bytes()[0] == 1
    shutil.rmtree(tmp_path / "t")
    assert table.files_and_bytes() == (0, 0)


def test_a_commit_after_that_of_another_run_is_refused(tmp_path: Path) -> None:
    one, other = opened(tmp_path / "t"), opened(tmp_path / "t", "other")
    commit(one, 1)

    with pytest.raises(StoppedError):
        commit(other, 1)

    assert numbers(tmp_path / "t") == [1]


def test_a_restore_after_the_last_look_stops_the_writer(tmp_path: Path) -> None:
    """A commit on top of it would hide from the next start that rows are gone."""
    path = tmp_path / "t"
    table = opened(path)
    for number in (1, 2):
        commit(table, number)

    with pytest.raises(StoppedError) as stopped:
        commit(table, 3, at=lambda place: DeltaTable(path).restore(1))

    assert "restored" in stopped.value.stop.detail
    assert numbers(path) == [1]
    found = opened(path, "next").load()
    assert isinstance(found, Tip)
    assert found.reached.ends == {TP: 1}


def test_a_commit_of_others_between_look_and_commit_is_looked_at(tmp_path: Path) -> None:
    path, places = tmp_path / "t", list[str]()
    table = opened(path)

    def others(place: str) -> None:
        places.append(place)
        if len(places) < 8:
            write_deltalake(path, pa.table({"n": [-1], "text": ["o"]}, SCHEMA), mode="append")

    commit(table, 1, at=others)

    assert numbers(path) == [-1] * 7 + [1]
    assert len(places) == 8


def test_a_writer_that_saw_no_table_does_not_commit_what_another_one_has(tmp_path: Path) -> None:
    one, other = closed(tmp_path / "t", "one"), closed(tmp_path / "t", "other")
    one.ensure(SCHEMA)
    commit(one, 1)
    # It creates the table as well, a moment later.
    other.ensure(SCHEMA)

    with pytest.raises(StoppedError):
        commit(other, 1)

    assert numbers(tmp_path / "t") == [1]


def test_a_table_that_was_dropped_while_it_was_written_is_not_written_again(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    commit(table, 1)
    shutil.rmtree(tmp_path / "t")

    with pytest.raises(StoppedError):
        commit(table, 2)

    assert not (tmp_path / "t" / "_delta_log").exists()


def test_a_folder_replaced_by_a_copy_of_the_same_version_stops_the_writer(tmp_path: Path) -> None:
    """The log is the one that it wrote; the file went to a folder that nobody has any more."""
    table = opened(tmp_path / "t")
    commit(table, 1)
    file = DataFile(table.folder, SCHEMA)
    file.add(pa.RecordBatch.from_pydict({"n": [2], "text": ["a"]}, schema=SCHEMA))
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    shutil.rmtree(tmp_path / "t")
    shutil.copytree(tmp_path / "copy", tmp_path / "t")
    ends = TopicOffsets(ends={TP: 2}, topic_ids={"t": "1"})
    made = Commit(start={TP: 1}, end=ends, txn_version=2)

    with pytest.raises(StoppedError) as stopped:
        table.commit([file.close(0)], made, SCHEMA, {}, lambda place: None)

    assert "folder was replaced" in stopped.value.stop.detail
    assert numbers(tmp_path / "t") == [1]


def test_an_existing_table_is_adopted_only_if_its_columns_fit(tmp_path: Path) -> None:
    DeltaTable.create(str(tmp_path / "t"), pa.schema([("n", pa.int32()), ("text", pa.string())]))

    with pytest.raises(
        MisfitError, match="n is int, the topic has bigint \\(the table writer widens no type"
    ):
        opened(tmp_path / "t")


INSIDE = pa.struct([("a", pa.int64())])
WIDER = pa.struct([("a", pa.int64()), ("b", pa.string())])
OTHER_CASE = pa.struct([("A", pa.int64()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("there", "wanted", "reason"),
    [
        # Older files could not be merged or compacted any more.
        (pa.map_(pa.string(), INSIDE), {"s": pa.map_(pa.string(), WIDER)}, "s.value.b is not"),
        (INSIDE, {"s": OTHER_CASE}, "s.a is named A"),
        (INSIDE, {"S": WIDER}, "s is named S"),
        (pa.int64(), {"s": pa.int32(), "b": pa.string()}, "its column s is"),
    ],
)
def test_columns_that_cannot_all_be_added_change_nothing(
    tmp_path: Path, there: pa.DataType, wanted: dict[str, pa.DataType], reason: str
) -> None:
    folder = Folders({}, {}).open(str(tmp_path / "t"))
    assert folder is not None
    link = Link(pipeline="table_topics", sink="t", run="one")
    ChainedTable(folder, link).ensure(pa.schema([("s", there)]))
    table = ChainedTable(folder, link, Evolution.ADD)
    table.load()

    with pytest.raises(MisfitError, match=reason):
        table.ensure(pa.schema(list(wanted.items())))

    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_a_table_has_a_checkpoint_of_its_log_in_every_100_commits_and_the_chain_goes_on(
    tmp_path: Path,
) -> None:
    """Else each look at the table would read all commits since its start."""
    lake = tmp_path / "t"
    table = opened(lake)
    for number in range(1, 206):
        commit(table, number)

    assert len(list((lake / "_delta_log").glob("*.checkpoint.parquet"))) == 2
    found = opened(lake).load()
    assert isinstance(found, Tip)
    assert (found.txn_version, found.reached.ends) == (205, {TP: 205})


def test_old_log_entries_are_cleaned_up_with_a_checkpoint_and_the_chain_goes_on(
    tmp_path: Path,
) -> None:
    lake, log = tmp_path / "t", tmp_path / "t/_delta_log"
    table = opened(lake)
    for number in range(1, 151):
        commit(table, number)
    for path in log.iterdir():
        then = path.stat().st_mtime - 40 * 86_400
        os.utime(path, (then, then))
    assert (log / f"{0:020}.json").exists()

    table = opened(lake)
    for number in range(151, 206):
        commit(table, number)

    assert not (log / f"{0:020}.json").exists()
    assert len(list(log.glob("*.json"))) < 150
    assert numbers(lake) == [*range(1, 206)]
    found = opened(lake).load()
    assert isinstance(found, Tip)
    assert (found.txn_version, found.reached.ends) == (205, {TP: 205})


def test_a_log_is_not_cleaned_up_by_another_retention_than_the_tables(tmp_path: Path) -> None:
    lake, log = tmp_path / "t", tmp_path / "t/_delta_log"
    table = opened(lake)
    # Delta for Spark reads that, delta-rs does not and takes 30 days.
    often = {"delta.logRetentionDuration": "365 days", "delta.checkpointInterval": "3"}
    DeltaTable(str(lake)).alter.set_table_properties(often)
    for number in range(1, 8):
        for path in log.iterdir():
            then = path.stat().st_mtime - 40 * 86_400
            os.utime(path, (then, then))
        commit(table, number)
        table.compact(1 << 20, 0)

    assert [*log.glob("*.checkpoint.parquet")]
    assert (log / f"{0:020}.json").exists()


def test_a_commit_removes_hadoops_checksum_of_the_last_checkpoint(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    stale = tmp_path / "t" / "_delta_log" / "._last_checkpoint.crc"
    stale.touch()

    commit(table, 1)

    assert not stale.exists()


def test_dates_and_times_that_python_does_not_have_are_written(tmp_path: Path) -> None:
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    folder = Folders({}, {}).open(str(tmp_path / "t"))
    assert folder is not None
    table = ChainedTable(folder, Link(pipeline="table_topics", sink="t", run="one"))
    table.load()
    table.ensure(schema)
    # Microseconds where a producer should have put milliseconds are a time of the year 55000.
    far = pa.RecordBatch.from_arrays(
        [pa.array([2**60]), pa.array([2**24], pa.int32())], ["at", "day"]
    )
    file = DataFile(folder, schema)
    file.add(far.cast(schema))
    made = Commit(start={TP: 0}, end=TopicOffsets(ends={TP: 1}, topic_ids={}), txn_version=1)

    table.commit([file.close(0)], made, schema, {}, lambda place: None)

    found = DeltaTable(str(tmp_path / "t")).to_pyarrow_table()
    assert found["at"].cast(pa.int64()).to_pylist() == [2**60]
    assert found["day"].cast(pa.int32()).to_pylist() == [2**24]


@pytest.mark.parametrize(
    ("properties", "indexed"),
    [
        ({}, 32),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, -1),
        ({"delta.dataSkippingNumIndexedCols": "1"}, 1),
        ({"delta.dataSkippingStatsColumns": "text"}, -1),
    ],
)
def test_files_have_statistics_of_the_columns_for_which_the_table_asks(
    tmp_path: Path, properties: dict[str, str], indexed: int
) -> None:
    configuration: dict[str, str | None] = {**properties}
    DeltaTable.create(str(tmp_path / "t"), Schema.from_arrow(SCHEMA), configuration=configuration)

    assert opened(tmp_path / "t").indexed_columns == indexed
