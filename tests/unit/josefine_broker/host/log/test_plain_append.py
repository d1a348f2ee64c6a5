"""Several plain produce requests appended to a log by one write: all or none, and only where no
roll and no sync belongs to the append."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.plain_append import append_plain
from josefine_broker.records.batch import BatchHeader, parse_header, stamp
from josefine_broker.records.plain_produce import PlainRequest, compiled
from tests.simulation.memory_files import MemoryFiles
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.host.log.support import NOW_MS, append, open_log, read_all
from tests.unit.josefine_broker.plain_frames import batch_with, frame_of

EPOCH = LeaderEpoch(0)
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")


def plain(*values: bytes) -> tuple[list[PlainRequest], int]:
    """Parsed requests of one record each, and the size of their batches."""
    assert compiled is not None
    found = [compiled.parse(frame_of(batch_with(value))) for value in values]
    requests = [each for each in found if each is not None]
    return requests, sum(request[6] for request in requests)


def append_to(log: PartitionLog, *values: bytes, now_ms: int = NOW_MS) -> int | None:
    where = log._segments[-1], log._sync, log.config
    appended = append_plain(*where, *plain(*values), EPOCH, now_ms)
    return None if appended is None else appended[0]


def test_batches_of_one_append_are_read_like_any_others_also_after_recovery() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"first"])

    assert append_to(log, b"a", b"b", b"c") == 1

    wanted = [(0, b"first"), (1, b"a"), (2, b"b"), (3, b"c")]
    assert read_all(log) == wanted
    assert read_all(open_log(files)) == wanted
    assert log.verify().problems == ()
    assert log.verify().batches == 4


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=200),
        LogConfig(segment_records=3),
        LogConfig(segment_ms=5),
        LogConfig(flush_messages=10),
        LogConfig(flush_messages=1),
    ],
)
def test_an_append_that_would_roll_or_sync_is_left_to_the_general_path(config: LogConfig) -> None:
    log = open_log(MemoryFiles(), config)
    append(log, [b"first"])

    assert append_to(log, b"a", b"b", b"c", now_ms=NOW_MS + 5) is None

    assert log.log_end_offset == 1
    assert read_all(log) == [(0, b"first")]


def test_an_empty_segment_is_left_to_the_general_path() -> None:
    assert append_to(open_log(MemoryFiles()), b"a") is None


def test_appended_batches_count_once_a_group_sync_covers_them() -> None:
    files, syncs = MemoryFiles(), ManualSyncs()
    log = open_log(files, LogConfig(flush_messages=1))
    log.group_syncs(partial(syncs.group.want, TopicPartition("orders", 0)))
    append(log, [b"first"])
    syncs.settle()
    assert log.durable_end_offset == 1

    assert append_to(log, b"a", b"b") == 1
    assert log.durable_end_offset == 1
    syncs.settle()

    assert log.durable_end_offset == 3


COPIED = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([NOW_MS, NOW_MS + 5, NOW_MS - 5, -1])),
    min_size=1,
    max_size=8,
)
"""Records and timestamp of each batch."""


def copies(start: int, batches: list[tuple[int, int]]) -> tuple[memoryview, list[BatchHeader]]:
    """Stamped batches back to back, as a leader sends them, and their headers."""
    data, headers = bytearray(), []
    for records, timestamp_ms in batches:
        batch = bytearray(batch_with(*[b"v" * 20] * records, timestamp_ms=timestamp_ms))
        stamp(memoryview(batch), 0, start, EPOCH)
        headers.append(parse_header(batch))
        start += records
        data += batch
    return memoryview(data), headers


@settings(max_examples=80, deadline=None)
@given(st.lists(COPIED, max_size=4), st.sampled_from([0, 100, 4096]))
def test_copies_appended_together_leave_the_log_that_they_leave_one_by_one(
    turns: list[list[tuple[int, int]]], interval: int
) -> None:
    config = LogConfig(index_interval_bytes=interval)
    ours, theirs = open_log(MemoryFiles(), config), open_log(MemoryFiles(), config)
    for log in (ours, theirs):
        append(log, [b"first"])
    for turn in turns:
        data, headers = copies(ours.log_end_offset, turn)
        assert ours.append_copies(data, headers, NOW_MS + 1)
        at = 0
        for header in headers:
            theirs.append(data[at : at + header.size_bytes], header, NOW_MS + 1)
            at += header.size_bytes
    mine, other = ours._segments[-1], theirs._segments[-1]
    assert mine.summary() == other.summary()
    assert mine.index().offsets == other.index().offsets
    assert mine.index().positions == other.index().positions
    assert mine.index().times == other.index().times
    assert read_all(ours) == read_all(theirs)
    assert ours.verify().problems == ()


@pytest.mark.parametrize(
    "config",
    [
        LogConfig(segment_bytes=200),
        LogConfig(segment_records=2),
        LogConfig(segment_ms=5),
        LogConfig(flush_messages=10),
        LogConfig(flush_messages=1),
    ],
)
def test_copies_that_would_roll_or_sync_are_left_to_be_appended_one_by_one(
    config: LogConfig,
) -> None:
    log = open_log(MemoryFiles(), config)
    data, headers = copies(0, [(1, NOW_MS), (1, NOW_MS)])
    assert not log.append_copies(data, headers, NOW_MS), "the first segment is empty"
    append(log, [b"first"])
    data, headers = copies(1, [(1, NOW_MS), (1, NOW_MS)])

    assert not log.append_copies(data, headers, NOW_MS + 5)

    assert read_all(log) == [(0, b"first")]


def test_a_full_disk_leaves_no_part_of_the_copies() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"first"])
    data, headers = copies(1, [(1, NOW_MS), (1, NOW_MS)])
    files.space_bytes = sum(len(inode.data) for inode in files.names.values()) + len(data) - 1

    assert not log.append_copies(data, headers, NOW_MS)

    assert read_all(open_log(files)) == [(0, b"first")]


def test_a_batch_is_in_the_file_before_its_answer_and_counts_after_it() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"first"])
    size, seen = log._segments[-1].size_bytes, []

    def written(base_offset: int) -> None:
        seen.append((base_offset, log.log_end_offset, log._segments[-1].file().size() > size))
        raise RuntimeError("the answer could not be sent")

    with pytest.raises(RuntimeError):
        log.append_plain(*plain(b"a"), EPOCH, NOW_MS, written)

    assert seen == [(1, 1, True)]
    assert read_all(log) == [(0, b"first"), (1, b"a")]
    assert append_to(log, b"b") == 2
    assert log.verify().problems == ()


def test_no_answer_leaves_before_a_write_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    log, answers = open_log(MemoryFiles()), list[int]()
    append(log, [b"first"])
    file = log._segments[-1].file()

    def fail(_: object) -> int:
        raise OSError(5, "broken")

    monkeypatch.setattr(type(file), "write_at_end", lambda _, buffers: fail(buffers))
    assert log.append_plain(*plain(b"a"), EPOCH, NOW_MS, answers.append) is None
    assert answers == []
    assert log.log_end_offset == 1
