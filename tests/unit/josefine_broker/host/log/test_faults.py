"""A full disk, a disk that fails, a damaged file: the log stays at its last whole batch."""

import errno

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job
from tests.simulation.memory_files import MemoryFile, MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    log_file,
    open_log,
    read_all,
)


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
        log.read(0, 10)

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


class RefusesToCreate(MemoryFiles):
    """A disk that takes no other name."""

    refusing = 0
    """The error's number."""

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and self.refusing and path not in self.names:
            raise OSError(self.refusing, "no name is taken")
        return super().open(path, create=create)


def test_log_that_could_not_begin_anew_has_failed_and_says_so() -> None:
    files = RefusesToCreate()
    log = open_log(files, LogConfig(segment_records=2))
    for n in range(6):
        append(log, [b"%d" % n])
    files.refusing = errno.EIO

    with pytest.raises(KafkaError, match="restart failed"):
        log.restart_at(100)
    files.refusing = 0

    assert "restart failed" in log.failure
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    for call in (
        lambda: append(log, [b"refused"]),
        lambda: log.restart_at(100),
        lambda: log.truncate_to(1),
    ):
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code is ErrorCode.kafka_storage_error
    log.close()
    assert open_log(files).log_end_offset == 0


def test_log_begins_anew_on_a_full_disk_and_takes_records_when_there_is_room() -> None:
    """Its start is stored first: else a crash would find them below it."""
    files = RefusesToCreate()
    for offset in (100, 1):
        log = open_log(files)
        append(log, [b"a"])
        log.delete_before(log.log_end_offset)
        files.refusing = errno.ENOSPC
        log.restart_at(offset)
        assert (log.log_start_offset, log.log_end_offset, log.failure) == (offset, offset, "")
        with pytest.raises(KafkaError, match="no name is taken"):
            append(log, [b"refused"])
        files.refusing = 0

        assert append(log, [b"b"]) == offset

        assert read_all(open_log(files)) == [(offset, b"b")]


def test_snapshot_of_a_roll_is_not_stored_once_the_log_was_cut_below_it() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(segment_records=2), schedule=jobs.append)
    log.snapshot_source = lambda: b"of producers that are gone"
    for n in range(3):
        append(log, [b"%d" % n])
    log.truncate_to(1)
    for n in range(4):
        append(log, [b"other %d" % n])

    for job in jobs[:2]:
        job()

    assert log.state.snapshot_offsets() == []
    for job in jobs[2:]:
        job()
    assert log.state.snapshot_offsets() == [2, 4]


def test_snapshot_of_a_roll_is_not_stored_once_the_log_began_anew() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(segment_records=2), schedule=jobs.append)
    log.snapshot_source = lambda: b"of producers that are gone"
    for n in range(3):
        append(log, [b"%d" % n])
    log.restart_at(0)

    for job in jobs:
        job()

    assert log.state.snapshot_offsets() == []


def test_snapshots_of_a_log_are_gone_when_it_begins_anew_further_up() -> None:
    """They do not know what producers sent in between."""
    files = MemoryFiles()
    log = open_log(files, LogConfig(segment_records=2))
    log.snapshot_source = lambda: b"of the producers before"
    for n in range(5):
        append(log, [b"%d" % n])
    assert log.state.snapshot_offsets() == [2, 4]

    log.restart_at(4)

    assert log.state.snapshot_offsets() == []


def test_snapshot_is_not_stored_for_a_log_that_was_abandoned() -> None:
    """Its directory may be another topic's by then."""
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(segment_records=2), schedule=jobs.append)
    log.snapshot_source = lambda: b"state"
    for n in range(3):
        append(log, [b"%d" % n])
    log.abandon()

    for job in jobs:
        job()

    assert log.state.snapshot_offsets() == []


@pytest.mark.parametrize("is_abandoned", [False, True])
def test_late_removal_of_an_old_segment_spares_the_new_one_of_its_name(is_abandoned: bool) -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(segment_records=1), schedule=jobs.append)
    for n in range(3):
        append(log, [b"%d" % n])
    log.delete_before(2)
    if is_abandoned:
        log.abandon()
        files.remove_tree(DIRECTORY)
        log = open_log(files)
    else:
        log.restart_at(0)
    append(log, [b"new"])

    for job in jobs:
        job()

    assert read_all(open_log(files)) == [(0, b"new")]
