"""All logs of a broker: directories, identities, deletion, the clean-shutdown marker."""

from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from tests.simulation.memory_files import MemoryFile, MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    NOW_MS,
    append,
    find_by_timestamp,
    max_timestamp,
    open_in,
    read_all,
)

FIRST_ID = TopicId(UUID(int=1))
SECOND_ID = TopicId(UUID(int=2))
TP = TopicPartition("orders.v1", 3)


def open_one(manager: LogManager, topic_id: TopicId = FIRST_ID) -> PartitionLog:
    return open_in(manager, TP, topic_id, LogConfig())


def test_first_start_is_clean() -> None:
    manager = LogManager(MemoryFiles())

    assert manager.first_start
    assert manager.clean_shutdown
    assert manager.found() == []


def test_clean_shutdown_is_remembered_once() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    append(open_one(manager), [b"a"])
    manager.close()

    second = LogManager(files)
    log = open_one(second)
    third = LogManager(files)

    assert second.clean_shutdown
    assert second.recovery_lines == []
    assert read_all(log) == [(0, b"a")]
    assert not third.clean_shutdown


def test_unclean_shutdown_gives_one_line_per_partition_with_something_to_recover() -> None:
    """Checklist row 30."""
    files = MemoryFiles()
    manager = LogManager(files)
    append(open_one(manager), [b"a"])
    append(open_in(manager, TopicPartition("busy", 0), SECOND_ID, LogConfig()), [b"b"])
    open_in(manager, TopicPartition("idle", 0), SECOND_ID, LogConfig())
    del files.names["busy-0/00000000000000000000.log"].data[-1:]

    again = LogManager(files)
    for found in again.found():
        open_in(again, found.topic_partition, found.topic_id, LogConfig())

    assert not again.clean_shutdown
    busy, orders = again.recovery_lines
    assert busy.startswith("busy-0: ")
    assert "cut 71 bytes at byte 0" in busy
    assert orders.startswith("orders.v1-3: ")
    assert "cut" not in orders


def test_partition_directory_names_its_topic_and_id() -> None:
    files = MemoryFiles()
    append(open_one(LogManager(files)), [b"a"])

    (found,) = LogManager(files).found()

    assert found.topic_partition == TP
    assert found.topic_id == FIRST_ID


def test_topic_made_anew_under_the_same_name_starts_empty() -> None:
    files = MemoryFiles()
    append(open_one(LogManager(files)), [b"of the first topic"])

    log = open_one(LogManager(files), SECOND_ID)

    assert log.log_end_offset == 0
    assert files.list("") == []
    append(log, [b"of the second"])
    assert [found.topic_id for found in LogManager(files).found()] == [SECOND_ID]


def test_deleted_partition_is_gone_at_once_and_its_name_is_free() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    manager = LogManager(files, schedule=jobs.append)
    append(open_one(manager), [b"a"])

    manager.delete(TP)

    assert manager.get(TP) is None
    assert manager.found() == []
    append(open_one(manager, SECOND_ID), [b"b"])
    for job in jobs:
        job()
    assert files.list("") == [str(TP)]


def test_interrupted_deletion_is_finished_at_the_next_start() -> None:
    files = MemoryFiles()
    manager = LogManager(files, schedule=lambda job: None)
    append(open_one(manager), [b"a"])
    manager.delete(TP)
    assert len(files.list("")) == 1

    LogManager(files)

    assert files.list("") == []


def test_thousands_are_deleted_by_one_job_with_one_sync() -> None:
    """A job each filled the flusher's queue, and the event loop waited for a minute."""
    files, jobs = MemoryFiles(), list[Job]()
    manager = LogManager(files, schedule=jobs.append)
    tps = [TopicPartition("many", n) for n in range(2_000)]
    for tp in tps:
        append(open_in(manager, tp, FIRST_ID, LogConfig()), [b"a"])
    synced: list[int] = []
    files.sync_directory = lambda directory: synced.append(len(files.list("")))  # type: ignore[method-assign]

    for tp in tps:
        manager.delete(tp)

    (job,) = jobs
    assert len(files.list("")) == 2_000
    job()
    assert files.list("") == []
    assert synced == [2_000]
    append(open_in(manager, tps[0], SECOND_ID, LogConfig()), [b"b"])
    manager.delete(tps[0])
    assert len(jobs) == 2


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"version": 2}', b"\xff", b'{"version": 1, "topic": 5}']
)
def test_damaged_partition_file_is_named(content: bytes) -> None:
    files = MemoryFiles()
    log = open_one(LogManager(files))
    append(log, [b"a"])
    log.flush()
    files.names[f"{TP}/partition.json"].data[:] = content

    with pytest.raises(CorruptData, match=r"orders\.v1-3/partition\.json"):
        LogManager(files).found()


def test_new_logs_cost_nothing_until_they_are_written_to() -> None:
    """10,000 partitions are made as fast as their objects; what is read, checked or flushed of one
    that nobody wrote to leaves no trace on the disk, nor does its deletion."""
    files = MemoryFiles()
    manager = LogManager(files)
    log = open_one(manager)

    assert log.read(0, 100) == []
    assert find_by_timestamp(log, 0) is max_timestamp(log) is None
    log.flush()
    assert log.verify().problems == ()
    assert log.apply_retention(NOW_MS, 0) == 0
    log.truncate_to(0)
    log.roll()
    assert files.names == {}
    manager.delete(TP)
    with pytest.raises(OSError, match="was closed"):
        log.state.store_log_start_offset(1)
    assert files.names == {}


def test_log_that_could_not_be_made_is_made_by_the_next_append() -> None:
    files = MemoryFiles()
    log = open_one(LogManager(files))
    for room in (0, 20, 130):
        files.space_bytes = room
        with pytest.raises(KafkaError, match="no space left"):
            append(log, [b"a"])
    files.space_bytes = None

    append(log, [b"b"])

    assert read_all(open_one(LogManager(files))) == [(0, b"b")]


def test_log_whose_directory_cannot_be_made_has_failed(tmp_path: Path) -> None:
    log = open_one(LogManager(RealFiles(tmp_path)))
    (tmp_path / str(TP)).write_text("a file where the directory should be")

    with pytest.raises(KafkaError, match="Not a directory"):
        append(log, [b"a"])

    assert "the log could not be created" in log.failure


def test_new_log_takes_no_file_that_somebody_else_put_there() -> None:
    files = MemoryFiles()
    log = open_one(LogManager(files))
    files.open(f"{TP}/{0:020d}.log", create=True).write_at_end((b"of another life",))

    with pytest.raises(KafkaError, match="has content"):
        append(log, [b"a"])

    assert bytes(files.names[f"{TP}/{0:020d}.log"].data) == b"of another life"
    assert "the log could not be created" in log.failure


def test_new_logs_cost_no_sync_until_something_of_them_is_to_be_durable() -> None:
    """1,000 partitions are written to as fast as their files are made."""
    files = MemoryFiles()
    manager = LogManager(files)
    logs = [open_in(manager, TopicPartition("many", n), FIRST_ID, LogConfig()) for n in range(5)]
    for log in logs:
        append(log, [b"a"])
    assert files.syncs == 0

    logs[2].flush()

    names = [name for n in range(5) for name in files.list(f"many-{n}") if "partition" in name]
    assert names == ["partition.new.json"] * 2 + ["partition.json"] + ["partition.new.json"] * 2
    assert files.syncs == 2, "its identity and its segment"


def test_empty_logs_stop_cleanly_without_a_sync() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    open_one(manager)
    manager.close()

    assert files.syncs == 1, "the clean-shutdown marker"
    again = LogManager(files)
    assert again.clean_shutdown
    assert open_one(again).log_end_offset == 0


def test_log_that_did_not_change_stops_without_a_sync() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    append(open_one(manager), [b"a"])
    manager.close(lambda _: b"producers")
    again = LogManager(files)
    open_one(again)
    files.syncs = 0

    again.close(lambda _: b"producers")

    assert files.syncs == 1, "the clean-shutdown marker"


def test_killed_log_that_never_was_synced_keeps_what_it_has() -> None:
    """The page cache survives a process."""
    files = MemoryFiles()
    append(open_one(LogManager(files)), [b"a"])

    assert read_all(open_one(LogManager(files))) == [(0, b"a")]


@pytest.mark.parametrize("lost", ["identity", "its content", "first segment"])
def test_log_that_never_was_synced_begins_anew_where_a_power_cut_left_a_part(lost: str) -> None:
    files = MemoryFiles()
    log = open_one(LogManager(files))
    append(log, [b"a"])
    log.roll()
    append(log, [b"b"])
    for name in [name for name in files.list(str(TP)) if "index" in name or "synced" in name]:
        files.remove(f"{TP}/{name}")  # the job that seals the first segment did not run
    files.rename(f"{TP}/partition.json", f"{TP}/partition.new.json")
    if lost == "identity":
        files.remove(f"{TP}/partition.new.json")
    elif lost == "its content":
        files.names[f"{TP}/partition.new.json"].data[:] = b"\x00" * 9
    else:
        files.remove(f"{TP}/{0:020d}.log")

    log = open_one(LogManager(files))

    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    append(log, [b"c"])
    assert [found.topic_id for found in LogManager(files).found()] == [FIRST_ID]


def test_synced_log_without_its_identity_is_not_touched() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    append(open_one(manager), [b"a"])
    manager.close()
    files.remove(f"{TP}/partition.json")
    before = dict(files.names)

    with pytest.raises(CorruptData, match=r"orders\.v1-3/partition\.json is missing"):
        open_one(LogManager(files))

    files.names.pop("clean-shutdown.marker", None)
    before.pop("clean-shutdown.marker")
    assert files.names == before


def test_deleted_partition_that_a_power_cut_brings_back_is_of_an_older_topic() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    log = open_one(manager)
    append(log, [b"of the first topic"])
    log.flush()
    manager.delete(TP)

    for seed in range(8):
        survivor = files.power_loss(Random(seed))
        assert open_one(LogManager(survivor), SECOND_ID).log_end_offset == 0


def test_producer_snapshots_are_stored_at_close() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    append(open_one(manager), [b"a"])
    manager.close(lambda topic_partition: str(topic_partition).encode())
    snapshots: list[bytes] = []

    LogManager(files).recover_log(
        TP, FIRST_ID, LogConfig(), NOW_MS, on_snapshot=snapshots.append, on_batch=lambda *_: None
    )

    assert snapshots == [b"orders.v1-3"]


def test_many_logs_close_together(tmp_path: Path) -> None:
    manager = LogManager(RealFiles(tmp_path), close_threads=4)
    partitions = [TopicPartition("many", n) for n in range(40)]
    for tp in partitions:
        append(open_in(manager, tp, FIRST_ID, LogConfig()), [str(tp).encode()])
    manager.close(lambda tp: str(tp).encode(), 5)

    again = LogManager(RealFiles(tmp_path))

    assert (again.clean_shutdown, again.previous_epoch) == (True, 5)
    for tp in partitions:
        log = open_in(again, tp, FIRST_ID, LogConfig())
        assert log.recovery_report.line is None
        assert read_all(log) == [(0, str(tp).encode())]
    again.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_failed_close_leaves_no_marker(threads: int) -> None:
    files = MemoryFiles()
    manager = LogManager(files, close_threads=threads)
    append(open_one(manager), [b"a"])
    files.failing_sync = True

    with pytest.raises(OSError, match="sync failed"):
        manager.close()

    files.failing_sync = False
    assert not LogManager(files).clean_shutdown


def test_log_that_failed_says_why_and_does_not_hinder_the_others() -> None:
    files = MemoryFiles()
    manager = LogManager(files)
    config = LogConfig(retention_ms=1)
    broken = open_in(manager, TP, FIRST_ID, config)
    sound = open_in(manager, TopicPartition("sound", 0), SECOND_ID, config)
    for log in (broken, sound):
        append(log, [b"a"])
    files.failing_sync = True
    with pytest.raises(KafkaError):
        broken.flush()
    files.failing_sync = False
    files.remove_tree(broken.directory)

    list(manager.apply_retention(NOW_MS + 1000, lambda tp: 1))

    assert sound.log_start_offset == 1
    assert broken.failure.startswith(str(TP))
    assert sound.failure == ""


def running(files: MemoryFiles, boot_id: str = "a", epoch: int = 7) -> LogManager:
    manager = LogManager(files, boot_id=boot_id)
    manager.marks.running(epoch)
    append(open_one(manager), [b"a"])
    return manager


def test_killed_process_left_everything_while_its_machine_runs_on() -> None:
    """KIP-966 asks what an unclean stop may have lost: kill -9 loses nothing of the page cache."""
    files = MemoryFiles()
    running(files)

    again = LogManager(files, boot_id="a")

    assert not again.clean_shutdown, "its logs are read anew all the same"
    assert (again.has_everything, again.previous_epoch) == (True, 7)


@pytest.mark.parametrize(("before", "now"), [("a", "b"), ("a", ""), ("", "")])
def test_process_of_another_boot_may_have_lost_records(before: str, now: str) -> None:
    files = MemoryFiles()
    running(files, before)

    again = LogManager(files, boot_id=now)

    assert (again.has_everything, again.previous_epoch) == (False, -1)


def test_processes_that_never_served_leave_the_mark_of_the_one_before_and_their_names() -> None:
    """If one was registered all the same, the cluster knows a later epoch than the mark."""
    files = MemoryFiles()
    running(files, epoch=7)
    for name in ("x", "y"):
        LogManager(files, boot_id="a").marks.starting(name)

    again = LogManager(files, boot_id="a")

    assert (again.previous_epoch, again.marks.started) == (7, ("x", "y"))
    again.marks.running(8)
    assert LogManager(files, boot_id="a").marks.started == ()


@pytest.mark.parametrize("now", ["a", "b"])
def test_clean_stop_is_not_forgotten_by_a_process_that_never_served(now: str) -> None:
    files = MemoryFiles()
    running(files).close(broker_epoch=9)
    LogManager(files, boot_id=now).marks.starting("x")

    again = LogManager(files, boot_id=now)

    assert (again.clean_shutdown, again.has_everything, again.previous_epoch) == (False, True, 9)
    assert not LogManager(files, boot_id="c").has_everything


def test_names_of_many_starts_are_bounded_and_a_full_disk_notes_none() -> None:
    files = MemoryFiles()
    for n in range(100):
        LogManager(files, boot_id="a").marks.starting(f"i{n}")

    started = LogManager(files, boot_id="a").marks.started
    files.full_at = 0
    LogManager(files, boot_id="a").marks.starting("no room")

    assert (started[0], len(started)) == ("i68", 32)
    assert "room" not in LogManager(files, boot_id="a").marks.started


def test_failed_sync_of_a_process_that_never_served_takes_the_mark_of_the_one_before_away() -> None:
    files = MemoryFiles()
    running(files)
    manager = LogManager(files, boot_id="a")
    manager.marks.starting("x")
    append(log := open_one(manager), [b"b"])
    files.failing_sync = True
    with pytest.raises(KafkaError):
        log.flush()
    files.failing_sync = False

    manager.flush_due(NOW_MS)

    assert not LogManager(files, boot_id="a").has_everything


def test_failed_sync_takes_the_running_mark_away() -> None:
    """The kernel may have dropped the pages and called them clean (fsyncgate)."""
    files = MemoryFiles()
    manager = running(files)
    files.failing_sync = True
    with pytest.raises(KafkaError):
        next(log for _, log in manager).flush()

    manager.flush_due(NOW_MS)

    assert not LogManager(files, boot_id="a").has_everything


def test_stop_with_a_failed_log_is_not_clean() -> None:
    """What it took before it failed may not be on disk, and a clean mark would vouch for it."""
    files = MemoryFiles()
    manager = running(files)
    files.failing_sync = True
    with pytest.raises(KafkaError):
        next(log for _, log in manager).flush()
    files.failing_sync = False

    manager.close(broker_epoch=7)

    again = LogManager(files, boot_id="a")
    assert (again.clean_shutdown, again.has_everything) == (False, False)


def test_clean_stop_says_more_than_the_running_mark() -> None:
    files = MemoryFiles()
    running(files).close(broker_epoch=9)

    again = LogManager(files, boot_id="b")

    assert (again.has_everything, again.previous_epoch) == (True, 9)


@pytest.mark.parametrize("content", [b"", b"x" * 50])
def test_damaged_running_mark_says_nothing(content: bytes) -> None:
    files = MemoryFiles()
    running(files)
    files.names["running.marker"].data[:] = content

    assert not LogManager(files, boot_id="a").has_everything


class WatchedFiles(MemoryFiles):
    """Notes which directories were listed and which files were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def list(self, directory: str) -> list[str]:
        self.asked.append(f"list {directory}")
        return super().list(directory)

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        self.asked.append(f"open {path}")
        return super().open(path, create=create)


def killed_with_one_record() -> WatchedFiles:
    files = WatchedFiles()
    append(open_one(LogManager(files)), [b"a"])
    return files


def test_start_reads_directory_and_identity_of_each_log_once() -> None:
    """With 10,000 logs each further system call is a share of the start."""
    files = killed_with_one_record()
    manager = LogManager(files)
    files.asked.clear()

    found = manager.look(TP)
    log = manager.recover_log(TP, FIRST_ID, LogConfig(), NOW_MS, found=found)

    assert read_all(log) == [(0, b"a")]
    assert sorted(set(files.asked)) == [
        f"list {TP}",
        f"open {TP}/00000000000000000000.log",
        f"open {TP}/partition.new.json",
    ]
    assert files.asked.count(f"list {TP}") == 1
    assert files.asked.count(f"open {TP}/partition.new.json") == 1


def test_recovered_log_sees_what_changes_in_its_directory() -> None:
    files = killed_with_one_record()
    manager = LogManager(files)
    log = manager.recover_log(TP, FIRST_ID, LogConfig(), NOW_MS, found=manager.look(TP))

    assert log.state.snapshot_offsets() == []

    files.open(f"{TP}/{1:020d}.snapshot", create=True)

    assert log.state.snapshot_offsets() == [1]


def test_strays_are_looked_for_among_other_directories_only() -> None:
    files = killed_with_one_record()
    other = TopicPartition("gone", 0)
    append(open_in(LogManager(files), other, SECOND_ID, LogConfig()), [b"b"])
    manager = LogManager(files)
    files.asked.clear()

    removed = manager.remove_strays({TP})

    assert removed == 1
    assert not any(str(TP) in each for each in files.asked)
    assert files.list(str(other)) == []


def test_strays_stay_until_the_next_start_where_no_directory_can_be_listed() -> None:
    """It ended the broker: an image is applied without a file handle, too."""
    files = MemoryFiles()
    append(open_one(LogManager(files)), [b"a"])
    manager = LogManager(files)
    files.no_handle_at = files.handles

    assert manager.remove_strays(set()) == 0

    files.no_handle_at = None
    assert manager.remove_strays(set()) == 1
