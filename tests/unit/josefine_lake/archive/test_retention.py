"""Deletion from an archive by time: what is left, and that nothing young goes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.archive.retention import Span, delete_expired, is_expired, predicate
from josefine_lake.archive.writer import ArchiveFile
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
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

    starts = delete_expired(table, KEEP, NOW)

    young = [rows for rows in written if any(not is_old(time) for _, _, time in rows)]
    expected = list(ends)
    for at, offset, _ in (row for rows in young for row in rows):
        expected[at] = min(expected[at], offset)
    everything = [(at, offset) for rows in written for at, offset, _ in rows]
    assert left(path) == sorted(each for each in everything if each[1] >= expected[each[0]])
    assert starts == {at: start for at, start in enumerate(expected) if start}
    assert delete_expired(table, KEEP, NOW) == {}


def is_old(time_ms: int | None) -> bool:
    return time_ms is not None and 0 <= time_ms < NOW - KEEP


def test_the_chain_continues_after_a_deletion_and_older_versions_stay(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = opened(path)
    append(table, 1, [(0, 0, 0), (0, 1, 0)])
    append(table, 2, [(0, 2, 99 * DAY)])
    before = DeltaTable(str(path)).version()

    assert delete_expired(table, KEEP, NOW) == {0: 2}
    append(table, 3, [(0, 3, 99 * DAY)])

    assert left(path) == [(0, 2), (0, 3)]
    found = opened(path).load()
    assert isinstance(found, Tip)
    assert found.txn_version == 3
    assert DeltaTable(str(path), version=before).to_pyarrow_table().num_rows == 3


def test_an_archive_without_files_loses_nothing(tmp_path: Path) -> None:
    assert delete_expired(opened(tmp_path / "t"), KEEP, NOW) == {}


def test_a_file_without_a_time_is_kept() -> None:
    span = Span("a", 0, 0, 0, 9, None)
    assert not is_expired(span, NOW)
    assert [is_expired(span._replace(newest_ms=at), 5) for at in (4, 5)] == [True, False]


def test_the_rows_that_go_are_named_by_partition_and_offset() -> None:
    assert predicate({1: 7, 0: 2}) == (
        '("partition" = 0 AND "offset" < 2) OR ("partition" = 1 AND "offset" < 7)'
    )
