"""A batch that was refused because it could not be made durable is in nobody's reach."""

from random import Random

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from tests.simulation.memory_files import SECTOR_BYTES, MemoryFile, MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    NOW_MS,
    append,
    log_file,
    max_timestamp,
    open_log,
    read_all,
)

SYNCED = LogConfig(flush_messages=1)
BATCH_BYTES = 61 + 12
"""What a batch of one record with a value of some hundred bytes has besides it."""


def refused(log: PartitionLog, value: bytes) -> None:
    with pytest.raises(KafkaError) as caught:
        append(log, [value], timestamps_ms=[NOW_MS + 10_000])
    assert caught.value.code is ErrorCode.kafka_storage_error


def test_log_ends_where_it_did_before_a_batch_whose_sync_failed() -> None:
    """Cluster simulation, seed 9900070."""
    files = MemoryFiles()
    log = open_log(files, LogConfig(flush_messages=1, index_interval_bytes=1))
    append(log, [b"kept"])
    size = log.size_bytes
    files.failing_sync = True

    refused(log, b"refused")
    files.failing_sync = False

    assert (log.log_end_offset, log.size_bytes) == (1, size)
    assert len(files.names[log_file()].data) == size
    assert read_all(log) == [(0, b"kept")]
    assert max_timestamp(log) == (0, NOW_MS)
    assert log.verify().problems == ()
    again = open_log(files, SYNCED)
    assert read_all(again) == [(0, b"kept")]
    assert append(again, [b"goes on"]) == 1


def test_batch_is_refused_when_another_thread_finds_the_disk_failed_first() -> None:
    """Between the append's first look and its sync: it must not count that sync as made."""
    files, jobs = FailsWhileItIsWritten(), list[Job]()
    log = open_log(files, LogConfig(flush_messages=1, segment_records=1), schedule=jobs.append)
    append(log, [b"kept"])
    append(log, [b"kept too"])
    log.roll()
    files.while_written = lambda: jobs[0]()

    refused(log, b"refused")

    assert log.log_end_offset == 2
    assert read_all(log) == [(0, b"kept"), (1, b"kept too")]


class FailsWhileItIsWritten(MemoryFiles):
    """The flusher's job runs, and fails, in the middle of an append."""

    def __init__(self) -> None:
        super().__init__()
        self.while_written: Job | None = None

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file, files = super().open(path, create=create), self

        class File(MemoryFile):
            def write_at_end(self, buffers):  # type: ignore[no-untyped-def]
                position = super().write_at_end(buffers)
                job, files.while_written = files.while_written, None
                if job is not None:
                    files.failing_sync = True
                    with pytest.raises(OSError, match="sync failed"):
                        job()
                    files.failing_sync = False
                return position

        return File(files, file._inode, path)


def test_scheduled_flush_that_fails_stops_the_log_and_keeps_what_was_taken() -> None:
    """`flush.ms` syncs behind the answer: what was acknowledged stays readable."""
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(flush_ms=1_000), schedule=jobs.append)
    append(log, [b"taken"])
    assert log.flush_if_due(NOW_MS + 1_000)
    files.failing_sync = True
    with pytest.raises(OSError, match="sync failed"):
        jobs.pop()()
    files.failing_sync = False

    refused(log, b"refused")

    assert read_all(log) == [(0, b"taken")]


def test_batch_that_can_neither_be_synced_nor_cut_is_in_no_readers_reach() -> None:
    files = CannotCut()
    log = open_log(files, SYNCED)
    append(log, [b"kept"])
    files.failing_sync = files.is_failing = True

    refused(log, b"refused")
    files.failing_sync = files.is_failing = False

    assert read_all(log) == [(0, b"kept")]
    refused(log, b"refused as well")


class CannotCut(MemoryFiles):
    is_failing = False

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        file, files = super().open(path, create=create), self

        class File(MemoryFile):
            def truncate(self, size: int) -> None:
                if files.is_failing:
                    raise OSError("not cut")
                super().truncate(size)

        return File(files, file._inode, path)


def test_recovery_syncs_what_a_killed_process_left_before_anybody_reads_it() -> None:
    """Written, the process killed before its sync: with `flush.messages` readers see what is
    durable only, so the next process syncs it first."""
    files = MemoryFiles()
    killed = open_log(files, LogConfig(flush_messages=2))
    append(killed, [b"synced", b"synced too"])
    append(killed, [b"written"])

    log = open_log(files, SYNCED)

    found = read_all(log)
    assert len(found) == 3
    files.sync_directory("")
    for seed in range(20):
        assert read_all(open_log(files.power_loss(Random(seed)), SYNCED)) == found


def test_page_cache_log_pays_no_sync_at_recovery() -> None:
    files = MemoryFiles()
    append(open_log(files), [b"written"])
    before = files.syncs

    open_log(files)

    assert files.syncs == before


def test_recovery_syncs_its_cut() -> None:
    """Else a power loss may bring back what was behind it, in the place where it was: behind a
    batch that came since, it looks like the next one."""
    a, b, c, d = (value * (SECTOR_BYTES - BATCH_BYTES) for value in (b"a", b"b", b"c", b"d"))
    for seed in range(50):
        files = MemoryFiles()
        log = open_log(files)
        for value in (a, b, c):
            append(log, [value])
        data = files.names[log_file()].data
        assert len(data) == 3 * SECTOR_BYTES
        data[len(data) // 2] ^= 1
        files.names[log_file()].durable = bytes(data)  # the system wrote it by itself, with a flip
        files.sync_directory("")
        cut = open_log(files)
        assert cut.log_end_offset == 1
        append(cut, [d])

        found = read_all(open_log(files.power_loss(Random(seed))))

        assert found in ([(0, a)], [(0, a), (1, d)]), seed


def test_a_log_whose_appends_go_on_failing_has_failed() -> None:
    """Found by lives with a majority only: the broker led for ever what it could not write."""
    files = MemoryFiles()
    log = open_log(files, LogConfig())
    append(log, [b"kept"])
    files.fails = lambda _: True

    def refused_at(ms: int) -> str:
        with pytest.raises(KafkaError):
            append(log, [b"refused"], now_ms=NOW_MS + ms)
        return log.failure

    assert [refused_at(ms) for ms in (0, 100, 2_900)] == ["", "", ""]
    assert "4 appends failed, the last one" in refused_at(3_000)


def test_an_append_that_works_between_forgets_the_failed_ones() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig())
    append(log, [b"kept"])
    for ms in (0, 2_000, 4_000, 6_000):
        files.fails = lambda _: True
        with pytest.raises(KafkaError):
            append(log, [b"refused"], now_ms=NOW_MS + ms)
        files.fails = lambda _: False
        append(log, [b"kept"], now_ms=NOW_MS + ms)

    assert log.failure == ""
