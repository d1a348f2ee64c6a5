"""Batches that a follower has copied, appended to its log by one write: all or none, and only where
no roll and no sync belongs to the append."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.plain_append import append_copies
from josefine_broker.records.batch import BatchHeader, iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    open_log,
    read_all,
)

LATER_MS = NOW_MS + 5
FIRST_LOG = f"{DIRECTORY}/00000000000000000000.log"


def leader_with(batches: int, rng: Random | None = None) -> MemoryFiles:
    """A log of so many batches of different sizes and times."""
    rng = rng or Random(1)
    files = MemoryFiles()
    log = open_log(files)
    for number in range(batches):
        values = [bytes([number % 256]) * rng.randint(1, 300) for _ in range(rng.randint(1, 4))]
        times = [NOW_MS + rng.randint(-50, 50) for _ in values]
        append(log, values, timestamps_ms=times)
    return files


def run_after_first(files: MemoryFiles) -> tuple[memoryview, memoryview, list[BatchHeader]]:
    """The first batch of a log; the bytes and headers of the others."""
    data = memoryview(bytes(files.open(FIRST_LOG).read_at(0, files.open(FIRST_LOG).size())))
    every = [header for _, header in iter_batches(data)]
    first = every[0].size_bytes
    return data[:first], data[first:], every[1:]


def follower_of(
    files: MemoryFiles, config: LogConfig | None = None
) -> tuple[PartitionLog, MemoryFiles, memoryview, list[BatchHeader]]:
    """A log with the first batch of another one; its files, and what it lacks."""
    first, rest, headers = run_after_first(files)
    copy = MemoryFiles()
    log = open_log(copy, config)
    log.append(first, next(header for _, header in iter_batches(first)), NOW_MS)
    return log, copy, rest, headers


def append_to(log: PartitionLog, data: memoryview, headers: list[BatchHeader], now_ms: int) -> bool:
    return append_copies(log._segments[-1], log._sync, log.config, data, headers, now_ms)


@pytest.mark.parametrize("seed", range(8))
def test_run_leaves_what_an_append_of_each_batch_leaves(seed: int) -> None:
    leader = leader_with(60, Random(seed))
    config = LogConfig(index_interval_bytes=1_000)
    together, files, rest, headers = follower_of(leader, config)
    each, files_of_each, _, _ = follower_of(leader, config)

    assert append_to(together, rest, headers, LATER_MS)
    pos = 0
    for header in headers:
        each.append(rest[pos : pos + header.size_bytes], header, LATER_MS)
        pos += header.size_bytes

    ours, theirs = together._segments[-1], each._segments[-1]
    assert ours.summary() == theirs.summary()
    for entries in ("offsets", "positions", "times"):
        assert getattr(ours.index(), entries) == getattr(theirs.index(), entries)
    assert read_all(together) == read_all(each) == read_all(open_log(leader))
    assert read_all(open_log(files)) == read_all(open_log(files_of_each))
    assert together.verify().problems == ()


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=2_000),
        LogConfig(segment_records=3),
        LogConfig(segment_ms=5),
        LogConfig(flush_messages=10),
        LogConfig(flush_messages=1),
    ],
)
def test_run_that_would_roll_or_sync_is_left_to_the_general_path(config: LogConfig) -> None:
    log, files, rest, headers = follower_of(leader_with(30), config)
    before = log.log_end_offset, files.open(FIRST_LOG).size()

    assert not append_to(log, rest, headers, LATER_MS)

    assert (log.log_end_offset, files.open(FIRST_LOG).size()) == before


def test_empty_segment_is_left_to_the_general_path() -> None:
    _, rest, headers = run_after_first(leader_with(3))

    assert not append_to(open_log(MemoryFiles()), rest, headers, NOW_MS)


def test_run_that_cannot_be_written_leaves_the_log_as_it_was() -> None:
    log, files, rest, headers = follower_of(leader_with(30))
    end, size = log.log_end_offset, files.open(FIRST_LOG).size()
    files.space_bytes = sum(len(inode.data) for inode in files.names.values()) + len(rest) // 2

    assert not append_to(log, rest, headers, LATER_MS)

    assert log.failure == ""
    assert log.log_end_offset == end
    assert files.open(FIRST_LOG).size() == size


def test_run_counts_once_a_group_sync_covers_it() -> None:
    syncs = ManualSyncs()
    log, _, rest, headers = follower_of(leader_with(5), LogConfig(flush_messages=1))
    log.group_syncs(partial(syncs.group.want, TopicPartition("orders", 0)))
    syncs.settle()
    durable = log.durable_end_offset

    assert append_to(log, rest, headers, LATER_MS)
    assert log.durable_end_offset == durable
    syncs.settle()

    assert log.durable_end_offset == log.log_end_offset == headers[-1].end_offset


def test_batch_without_records_gives_a_run_no_timestamp() -> None:
    """The cleaner leaves such batches, with the times of records that are gone."""
    log, _, rest, headers = follower_of(leader_with(3))
    newest = log._segments[-1].max_timestamp_ms
    emptied = [each._replace(record_count=0, max_timestamp_ms=2 * NOW_MS) for each in headers]

    assert append_to(log, rest, emptied, LATER_MS)

    assert log._segments[-1].max_timestamp_ms == newest
