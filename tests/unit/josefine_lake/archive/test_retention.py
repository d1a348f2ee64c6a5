"""Deletion from an archive by time and bytes: what is left, and that nothing else goes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.archive.partition_sizes import Part, PartitionSizes, beyond_bytes
from josefine_lake.archive.retention import (
    Retention,
    Span,
    delete_expired,
    is_expired,
    predicate,
)
from josefine_lake.archive.writer import ArchiveWriter
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.data_file import ArchiveFile
from josefine_lake.writer.delta_table import ChainedTable
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.sinks.commits import Link
from pipelines.storage.folders import Folders

DAY = 86_400_000
NOW = 100 * DAY
KEEP = 10 * DAY
Row = tuple[int, int, int | None]
"""(partition, offset, timestamp in ms)."""


def opened(path: Path) -> ChainedTable:
    folder = Folders({}, {}).open(str(path))
    assert folder is not None
    table = ChainedTable(folder, Link(pipeline="archive", sink="t", run="one"))
    table.load()
    table.ensure(ARCHIVE_SCHEMA)
    return table


def append(table: ChainedTable, number: int, rows: list[Row]) -> None:
    """Commit one file."""
    file = ArchiveFile(table.folder, ARCHIVE_SCHEMA)
    full = [
        {"partition": at, "offset": offset, "timestamp": None if time is None else time * 1_000}
        for at, offset, time in rows
    ]
    file.add(pa.RecordBatch.from_pylist(full, ARCHIVE_SCHEMA))
    tp = TopicPartition("t", 0)
    ends = TopicOffsets(ends={tp: number}, topic_ids={"t": "1"})
    made = Commit(start={tp: number - 1}, end=ends, txn_version=number)
    table.commit([file.close(0)], made, ARCHIVE_SCHEMA, {}, lambda place: None)


def expire(table: ChainedTable, ms: int | None = KEEP, bytes_: int | None = None) -> dict[int, int]:
    return delete_expired(table, Retention(ms, bytes_), NOW, PartitionSizes())


def left(path: Path) -> list[tuple[int, int]]:
    rows = DeltaTable(str(path)).to_pyarrow_table(columns=["partition", "offset"]).to_pylist()
    return sorted((row["partition"], row["offset"]) for row in rows)


TIMES = st.sampled_from([None, -1, 0, 50 * DAY, 90 * DAY - 1, 90 * DAY, 95 * DAY, 200 * DAY])
FILES = st.lists(
    st.lists(st.tuples(st.integers(0, 2), TIMES), min_size=1, max_size=5), min_size=1, max_size=5
)


@settings(max_examples=15)
@given(files=FILES)
def test_each_partition_loses_its_files_up_to_the_first_with_a_young_record(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[tuple[int, int | None]]]
) -> None:
    path = tmp_path_factory.mktemp("archive") / "t"
    table, ends, written = opened(path), [0, 0, 0], list[list[Row]]()
    for number, each in enumerate(files):
        rows: list[Row] = []
        for at, time in each:
            rows.append((at, ends[at], time))
            ends[at] += 1
        append(table, number + 1, rows)
        written.append(rows)

    starts = expire(table)

    young = [rows for rows in written if any(not is_old(time) for _, _, time in rows)]
    expected = list(ends)
    for at, offset, _ in (row for rows in young for row in rows):
        expected[at] = min(expected[at], offset)
    everything = [(at, offset) for rows in written for at, offset, _ in rows]
    assert left(path) == sorted(each for each in everything if each[1] >= expected[each[0]])
    assert starts == {at: start for at, start in enumerate(expected) if start}
    assert expire(table) == {}


def is_old(time_ms: int | None) -> bool:
    return time_ms is not None and 0 <= time_ms < NOW - KEEP


def test_the_chain_continues_after_a_deletion_and_older_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = opened(path)
    append(table, 1, [(0, 0, 0), (0, 1, 0)])
    append(table, 2, [(0, 2, 99 * DAY)])
    before = DeltaTable(str(path)).version()

    assert expire(table) == {0: 2}
    append(table, 3, [(0, 3, 99 * DAY)])

    assert left(path) == [(0, 2), (0, 3)]
    found = opened(path).load()
    assert isinstance(found, Tip)
    assert found.txn_version == 3
    assert DeltaTable(str(path), version=before).to_pyarrow_table().num_rows == 3


def test_an_archive_without_files_loses_nothing(tmp_path: Path) -> None:
    assert expire(opened(tmp_path / "t")) == {}


def test_a_file_without_a_time_is_kept() -> None:
    span = Span("a", 0, 0, 0, 9, None)
    assert not is_expired(span, NOW)
    assert [is_expired(span._replace(newest_ms=at), 5) for at in (4, 5)] == [True, False]


def test_the_rows_that_go_are_named_by_partition_and_offset() -> None:
    assert predicate({1: 7, 0: 2}) == (
        '("partition" = 0 AND "offset" < 2) OR ("partition" = 1 AND "offset" < 7)'
    )


PARTS = st.lists(
    st.dictionaries(st.integers(0, 2), st.integers(0, 9), min_size=1), min_size=1, max_size=6
)


@given(files=PARTS, bytes_min=st.integers(0, 30))
def test_every_partition_keeps_its_bytes_and_no_file_more(
    files: list[dict[int, int]], bytes_min: int
) -> None:
    """Each number of `files` is the bytes of a partition in one file, in the order of offsets."""
    named = {
        str(at): {partition: Part(at, size) for partition, size in parts.items()}
        for at, parts in enumerate(files)
    }

    gone = beyond_bytes(named, bytes_min)

    for path, parts in named.items():
        after = [
            sum(files[at].get(partition, 0) for at in range(int(path) + 1, len(files)))
            for partition in parts
        ]
        assert (path in gone) == all(each >= bytes_min for each in after)


def test_the_oldest_files_go_until_the_rest_has_just_enough_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = opened(path)
    for number in range(5):
        append(table, number + 1, [(0, 2 * number, None), (0, 2 * number + 1, None)])
    sizes = DeltaTable(str(path)).get_add_actions(flatten=True)
    (size,) = {*pa.table(sizes).column("size_bytes").to_pylist()}

    assert expire(table, None, 5 * size + 1) == {}
    assert expire(table, None, None) == {}
    assert expire(table, None, 2 * size) == {0: 6}
    assert left(path) == [(0, 6), (0, 7), (0, 8), (0, 9)]
    assert expire(table, None, 2 * size) == {}


def test_a_damaged_file_holds_up_no_records(tmp_path: Path) -> None:
    path, told = tmp_path / "t", []
    table = opened(path)
    append(table, 1, [(0, 0, None)])
    append(table, 2, [(0, 1, None)])
    for each in path.glob("*.parquet"):
        each.write_bytes(b"damaged")
    stats = SimpleNamespace(upkeep_failed=told.append)
    writer = SimpleNamespace(
        _world=SimpleNamespace(store=table, wall_ms=lambda: NOW, stats=stats),
        _retention=lambda: Retention(bytes=1),
        _sizes=PartitionSizes(),
    )

    ArchiveWriter._expire(cast(ArchiveWriter, writer))

    (problem,) = told
    assert "Parquet" in problem


def test_a_file_is_shared_by_the_rows_of_its_partitions_and_read_once(tmp_path: Path) -> None:
    table = opened(tmp_path / "t")
    append(table, 1, [(0, 5, None), (1, 7, None), (1, 8, None), (1, 9, None)])
    (name,) = (each.name for each in (tmp_path / "t").glob("*.parquet"))
    known = PartitionSizes()

    first = known.of(table.folder.arrow(), {name: 4_000})
    assert first == {name: {0: Part(5, 1_000), 1: Part(7, 3_000)}}
    (tmp_path / "t" / name).unlink()
    assert known.of(table.folder.arrow(), {name: 4_000}) == first
    assert known.of(table.folder.arrow(), {}) == {}
