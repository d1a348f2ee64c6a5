"""An archive's files have row groups of one partition: no reader decodes those of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer import data_file
from josefine_lake.writer.columns import ARCHIVE_SCHEMA
from josefine_lake.writer.delta_table import ChainedTable
from josefine_lake.writer.worlds import world_of
from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.exactly_once.offset_chain import Commit

Group = tuple[int, int, int, int, int]


def rows_of(partition: int, first: int, size: int) -> Any:
    """Ten records with values of a size."""
    rows = [
        {"topic": "t", "partition": partition, "offset": first + at, "value": bytes(size)}
        for at in range(10)
    ]
    return pa.RecordBatch.from_pylist(rows, ARCHIVE_SCHEMA)


def groups(path: Path) -> list[list[Group]]:
    """Of each file its row groups: first and last partition, first and last offset, rows."""
    found = []
    for uri in sorted(DeltaTable(str(path)).file_uris()):
        footer = pq.read_metadata(uri)
        names = footer.schema.to_arrow_schema().names
        of = []
        for at in range(footer.num_row_groups):
            group = footer.row_group(at)
            known = [group.column(names.index(name)).statistics for name in ("partition", "offset")]
            bounds = [bound for each in known for bound in (each.min, each.max)]
            of.append((*bounds, group.num_rows))
        found.append(of)
    return found


@pytest.fixture
def archive(tmp_path: Path) -> tuple[ChainedTable, Any]:
    topic = TableTopic(topic="t", location=str(tmp_path / "t"), dead_letter=None, is_archive=True)
    world = world_of(topic, mock.Mock(), {}, lambda offsets: None)
    store = world.store
    assert isinstance(store, ChainedTable)
    store.load()
    store.ensure(ARCHIVE_SCHEMA)
    return store, world


def commit(store: ChainedTable, world: Any, number: int, reads: list[Any]) -> None:
    file = world.open_file(store, ARCHIVE_SCHEMA)
    for each in reads:
        file.add(each)
    tp = TopicPartition("t", 0)
    end = TopicOffsets(ends={tp: number}, topic_ids={"t": "1"})
    made = Commit(start={tp: number - 1}, end=end, txn_version=number)
    store.commit([file.close(number)], made, ARCHIVE_SCHEMA, {}, lambda place: None)


def test_row_groups_are_of_one_partition_or_of_small_ones(
    archive: tuple[ChainedTable, Any], tmp_path: Path
) -> None:
    """Reads of partitions in turn; partitions 1 and 2 have little."""
    store, world = archive
    with mock.patch.object(data_file, "PART_BYTES_MIN", 5_000):
        sizes = {0: 1_000, 1: 10, 2: 10, 3: 1_000}
        reads = [rows_of(p, first, size) for first in (0, 10) for p, size in sizes.items()]
        commit(store, world, 1, reads)

    assert groups(tmp_path / "t") == [[(0, 0, 0, 19, 20), (1, 3, 0, 19, 60)]]


def test_rewritten_files_have_such_row_groups_too(
    archive: tuple[ChainedTable, Any], tmp_path: Path
) -> None:
    store, world = archive
    for number in (1, 2, 3):
        reads = [rows_of(p, 10 * (number - 1), 1_000) for p in (1, 0)]
        commit(store, world, number, reads)
    with mock.patch.object(data_file, "PART_BYTES_MIN", 5_000):
        store.compact(1 << 20, 9)

    assert groups(tmp_path / "t") == [[(0, 0, 0, 29, 30), (1, 1, 0, 29, 30)]]
