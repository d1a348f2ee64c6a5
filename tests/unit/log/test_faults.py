"""A full disk, a disk that fails, a damaged file: the log stays at its last whole batch."""

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.log_config import LogConfig
from josefine_broker.shell.flusher import Job
from tests.simulation.memory_files import MemoryFiles
from tests.unit.log.support import NOW_MS, append, log_file, open_log, read_all


def used(files: MemoryFiles) -> int:
    return sum(len(inode.data) for inode in files.names.values())


def test_full_disk_leaves_the_log_at_the_last_whole_batch() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"kept"])
    whole = log.size_bytes

    for room in range(100):
        files.space_bytes = used(files) + room
        with pytest.raises(KafkaError) as caught:
            append(log, [b"x" * 100])
        assert caught.value.code is ErrorCode.kafka_storage_error
        assert log.log_end_offset == 1
        assert len(files.names[log_file()].data) == whole

    files.space_bytes = None
    assert append(log, [b"again"]) == 1
    assert read_all(log) == [(0, b"kept"), (1, b"again")]


def test_failed_sync_stops_the_log_until_it_is_opened_anew() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(flush_messages=1))
    append(log, [b"kept"])
    files.failing_sync = True

    with pytest.raises(KafkaError, match="sync failed"):
        append(log, [b"not acknowledged"])
    files.failing_sync = False
    with pytest.raises(KafkaError, match="sync failed"):
        append(log, [b"refused"])

    assert append(open_log(files), [b"goes on"]) >= 1


def test_flush_messages_syncs_every_so_many_messages() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(flush_messages=5))
    before = files.syncs

    for _ in range(4):
        append(log, [b"a", b"b"])

    assert files.syncs == before + 1


def test_flush_ms_syncs_once_the_oldest_unflushed_batch_is_that_old() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(flush_ms=1000), schedule=jobs.append)
    append(log, [b"a"], now_ms=NOW_MS)
    append(log, [b"b"], now_ms=NOW_MS + 900)

    assert not log.flush_if_due(NOW_MS + 999)
    assert log.flush_if_due(NOW_MS + 1000)
    assert not log.flush_if_due(NOW_MS + 5000)

    before = files.syncs
    (job,) = jobs
    job()
    assert files.syncs == before + 1


def test_page_cache_is_the_default() -> None:
    files = MemoryFiles()
    log = open_log(files)
    before = files.syncs

    for _ in range(10):
        append(log, [b"a"])

    assert not log.flush_if_due(NOW_MS + 10**9)
    assert files.syncs == before


def test_damaged_batch_header_is_an_error_of_its_partition() -> None:
    files = MemoryFiles()
    log = open_log(files)
    for _ in range(3):
        append(log, [b"x" * 20])
    files.names[log_file()].data[8:12] = b"\xff" * 4

    with pytest.raises(KafkaError) as caught:
        log.read(1, 10)

    assert caught.value.code is ErrorCode.corrupt_message


def test_failed_sync_of_a_full_segment_stops_the_log() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(segment_records=1), schedule=jobs.append)
    append(log, [b"a"])
    append(log, [b"b"])
    files.failing_sync = True

    with pytest.raises(OSError, match="sync failed"):
        jobs[0]()

    assert "sync failed" in log.failure
    with pytest.raises(KafkaError):
        append(log, [b"c"])
    assert read_all(log) == [(0, b"a"), (1, b"b")]


def test_close_of_a_log_whose_sync_failed_vouches_for_nothing() -> None:
    files = MemoryFiles()
    log = open_log(files)
    append(log, [b"a"])
    files.failing_sync = True
    with pytest.raises(OSError, match="sync failed"):
        log.close()
    files.failing_sync = False

    assert open_log(files).recovery_report.batches_scanned == 1
    assert not any(name.endswith(".index") for name in files.names)


class FullDisk:
    """A disk job that fails is told to the log's owner, as the flusher does; here: counted."""

    def __init__(self) -> None:
        self.failed = 0

    def run(self, job: Job) -> None:
        try:
            job()
        except OSError:
            self.failed += 1


def test_full_disk_at_a_roll_leaves_the_log_as_it_was() -> None:
    files, disk = MemoryFiles(), FullDisk()
    log = open_log(files, LogConfig(segment_records=1), schedule=disk.run)
    append(log, [b"a"])
    files.space_bytes = used(files) + 10

    with pytest.raises(KafkaError):
        append(log, [b"b"])
    assert disk.failed == 1
    files.space_bytes = None

    assert append(log, [b"b"]) == 1
    assert append(log, [b"c"]) == 2
    assert sum(name.endswith(".index") for name in files.names) == 2
    assert read_all(open_log(files)) == [(0, b"a"), (1, b"b"), (2, b"c")]


def test_retention_makes_room_on_a_disk_that_is_full() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(segment_records=1, retention_ms=1))
    for n in range(5):
        append(log, [b"%d" % n])
    files.space_bytes = used(files)

    assert log.apply_retention(NOW_MS + 1000, 4) == 4

    assert (log.log_start_offset, log.log_end_offset) == (4, 5)
    assert append(log, [b"room"]) == 5
    assert read_all(open_log(files)) == [(4, b"4"), (5, b"room")]
