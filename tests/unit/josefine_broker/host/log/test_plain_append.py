"""Several plain produce requests appended to a log by one write: all or none, and only where no
roll and no sync belongs to the append."""

from __future__ import annotations

from functools import partial

import pytest

from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.plain_append import append_plain
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
    return append_plain(log._segments[-1], log._sync, log.config, *plain(*values), EPOCH, now_ms)


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
