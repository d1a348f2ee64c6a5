"""What was synced is known: a log that lost some of it refuses to open, and nothing is changed."""

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.disk.synced_mark import ENTRIES_MAX, SYNCED_MARK_FILE, SyncedMark
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    log_file,
    open_log,
    read_all,
)

SYNCED = LogConfig(flush_messages=1)
MARK = f"{DIRECTORY}/{SYNCED_MARK_FILE}"


def filled(files: MemoryFiles, config: LogConfig = SYNCED, batches: int = 10) -> None:
    """A log whose process was killed."""
    log = open_log(files, config)
    for n in range(batches):
        append(log, [b"%d" % n])


def content(files: MemoryFiles) -> dict[str, bytes]:
    return {path: bytes(inode.data) for path, inode in files.names.items()}


def refusal(files: MemoryFiles, config: LogConfig = SYNCED) -> str:
    before = content(files)
    with pytest.raises(CorruptData) as caught:
        open_log(files, config)
    assert content(files) == before
    return str(caught.value)


def test_damage_in_the_active_segment_below_what_was_synced_stops_the_open() -> None:
    files = MemoryFiles()
    filled(files)
    data = files.names[log_file()].data
    batch_bytes = len(data) // 10
    for at in range(0, len(data), 7):
        if at % batch_bytes in range(12, 16):
            continue  # the leader epoch: checked against its neighbours only
        data[at] ^= 4

        problem = refusal(files)

        assert f"offset {at // batch_bytes} " in problem
        assert "had been synced up to offset 10" in problem
        assert "restore the file" in problem
        assert problem.count("\n") == 0
        data[at] ^= 4
    assert len(read_all(open_log(files, SYNCED))) == 10


def test_cut_above_what_was_synced_is_a_cut() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(flush_messages=4))
    for n in range(10):
        append(log, [b"%d" % n])
    files.names[log_file()].data[-100] ^= 1  # in the ninth; the eighth was synced

    again = open_log(files)

    assert again.log_end_offset == 8
    assert again.recovery_report.bytes_cut > 0


def _first(files: MemoryFiles) -> None:
    files.remove(log_file())


def _last(files: MemoryFiles) -> None:
    files.remove(max(path for path in files.names if path.endswith(".log")))


def _every(files: MemoryFiles) -> None:
    for path in [path for path in files.names if path.endswith(".log")]:
        files.remove(path)


def _first_with_index(files: MemoryFiles) -> None:
    for path in [path for path in files.names if "/00000000000000000000." in path]:
        files.remove(path)


def _end(files: MemoryFiles) -> None:
    data = files.names[max(path for path in files.names if path.endswith(".log"))].data
    del data[len(data) // 2 :]


@pytest.mark.parametrize("lose", [_first, _first_with_index, _last, _every, _end])
@pytest.mark.parametrize("segment_records", [None, 3])
@pytest.mark.parametrize("is_clean", [True, False])
def test_missing_file_of_what_was_synced_stops_the_open(
    lose: Callable[[MemoryFiles], None], segment_records: int | None, is_clean: bool
) -> None:
    files = MemoryFiles()
    config = LogConfig(flush_messages=None if is_clean else 1, segment_records=segment_records)
    filled(files, config)
    if is_clean:
        open_log(files, config).close()
    kept = dict(files.names)
    lose(files)

    assert "restore the file" in refusal(files, config)

    files.names = {path: files.names.get(path, inode) for path, inode in kept.items()}
    if lose is not _end:
        assert len(read_all(open_log(files, config))) == 10


def test_without_the_mark_a_person_has_the_log_cut() -> None:
    files = MemoryFiles()
    filled(files)
    files.names[log_file()].data[-1] ^= 1
    assert MARK in refusal(files)

    files.remove(MARK)

    assert open_log(files, SYNCED).log_end_offset == 9


def test_scheduled_sync_raises_the_mark_too() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(flush_ms=1_000), schedule=jobs.append)
    append(log, [b"synced"])
    assert log.flush_if_due(NOW_MS + 1_000)
    jobs.pop()()
    append(log, [b"not yet"])
    assert SyncedMark(files, DIRECTORY).read() == (0, 1)

    files.names[log_file()].data[70] ^= 1

    refusal(files)


def test_page_cache_log_has_no_mark_before_its_first_seal() -> None:
    files = MemoryFiles()
    log = open_log(files, LogConfig(segment_records=10))
    for _ in range(10):
        append(log, [b"a"])
    assert MARK not in files.names

    append(log, [b"next segment"])

    assert SyncedMark(files, DIRECTORY).read() == (0, 10)


def test_refused_batch_is_not_in_the_mark() -> None:
    files = MemoryFiles()
    filled(files)
    log = open_log(files, SYNCED)
    files.failing_sync = True
    with pytest.raises(Exception, match="sync failed"):
        append(log, [b"refused"])

    assert SyncedMark(files, DIRECTORY).read() == (0, 10)


def test_truncation_and_a_new_beginning_lower_the_mark_first() -> None:
    """A crash between the two must not leave a log that was cut for a damaged one."""
    for cut in (3, 7, 10):
        files = StopsAtRemoval()
        filled(files, LogConfig(flush_messages=1, segment_records=3))
        log = open_log(files, LogConfig(flush_messages=1, segment_records=3))
        files.stops = True
        with pytest.raises(Stop):
            log.truncate_to(cut) if cut < 10 else log.restart_at(20)
        files.stops = False

        open_log(files, SYNCED)


class Stop(BaseException):
    """The process ends here."""


class StopsAtRemoval(MemoryFiles):
    stops = False

    def remove(self, path: str) -> None:
        super().remove(path)
        if self.stops and path.endswith(".log"):
            raise Stop


def test_mark_that_is_damaged_or_torn_is_the_one_before_or_none() -> None:
    files = MemoryFiles()
    mark = SyncedMark(files, DIRECTORY)
    mark.raise_to(5)
    mark.raise_to(9)
    whole = bytes(files.names[MARK].data)

    files.names[MARK].data[:] = whole[:-3]
    assert SyncedMark(files, DIRECTORY).read() == (0, 5)
    files.names[MARK].data[:] = whole[:-1] + b"\xff"
    torn = SyncedMark(files, DIRECTORY)
    assert torn.read() == (0, 5)
    torn.raise_to(12)
    assert SyncedMark(files, DIRECTORY).read() == (0, 12)
    files.names[MARK].data[:] = b"\x00" * len(whole)
    assert SyncedMark(files, DIRECTORY).read() == (0, 0)


def test_mark_stays_small_and_the_newest_counts() -> None:
    files = MemoryFiles()
    mark = SyncedMark(files, DIRECTORY)

    for n in range(3 * ENTRIES_MAX):
        mark.raise_to(n)
        assert len(files.names.get(MARK, files.open("none", create=True)._inode).data) <= 4096

    assert SyncedMark(files, DIRECTORY).read() == (0, 3 * ENTRIES_MAX - 1)
    mark.lower_to(7)
    assert SyncedMark(files, DIRECTORY).read() == (0, 7)


def test_lowered_mark_stays_low_when_the_power_goes() -> None:
    """The file was begun anew before, and its name is not durable: the former says more."""
    for seed in range(20):
        files = MemoryFiles()
        mark = SyncedMark(files, DIRECTORY)
        for n in range(1, ENTRIES_MAX + 1):
            mark.raise_to(n)
        files.sync_directory("")
        mark.raise_to(ENTRIES_MAX + 1)

        mark.lower_to(7)

        assert SyncedMark(files.power_loss(Random(seed)), DIRECTORY).read().end <= 7


def test_first_segment_that_made_room_on_a_full_disk_is_not_missed() -> None:
    """No log start could be stored before it went, and then the process was killed."""
    files = StopsAtRemoval()
    config = LogConfig(flush_messages=1, segment_records=2, retention_ms=1)
    filled(files, config)
    log = open_log(files, config)
    files.space_bytes = sum(len(inode.data) for inode in files.names.values()) + 20
    files.stops = True
    with pytest.raises(Stop):
        log.apply_retention(NOW_MS + 1_000, 4)
    files.stops = False

    assert open_log(files, config).log_start_offset == 2


def test_first_segment_is_not_missed_where_even_the_mark_found_no_room() -> None:
    files = MemoryFiles()
    config = LogConfig(flush_messages=1, segment_records=2, retention_ms=1)
    filled(files, config)
    log = open_log(files, config)
    files.full_at = 0
    with suppress(KafkaError):
        log.apply_retention(NOW_MS + 1_000, 2)
    assert log_file() not in files.names
    assert open_log(files.copy(), config).log_start_offset == 2

    files.full_at = None
    append(log, [b"again"])
    assert open_log(files, config).log_start_offset == 2


def test_mark_that_cannot_be_written_stops_nothing() -> None:
    files = MemoryFiles()
    log = open_log(files, SYNCED)
    append(log, [b"a"])
    files.space_bytes = sum(len(inode.data) for inode in files.names.values()) + 80
    append(log, [b"b"])
    files.space_bytes = None

    append(log, [b"c"])

    assert SyncedMark(files, DIRECTORY).read() == (0, 3)
    assert len(read_all(open_log(files, SYNCED))) == 3


def without_its_first_two(sealed: bool) -> MemoryFiles:
    """Three segments of two records; the names of two did not survive a power cut."""
    files = MemoryFiles()
    jobs: list[Job] = []
    log = open_log(files, LogConfig(segment_records=2), schedule=jobs.append)
    for n in range(4):
        append(log, [b"%d" % n] * 2)
    if sealed:
        for job in jobs:
            job()
        files.remove(MARK)
    files.remove(log_file())
    files.remove(log_file("00000000000000000002.log"))
    return files


def test_unsynced_segments_behind_a_lost_first_one_go_with_it() -> None:
    """They are behind a hole: a log keeps what was synced, and a whole prefix of the rest."""
    files = without_its_first_two(sealed=False)

    log = open_log(files)

    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert log.recovery_report.completeness is Completeness.MISSING
    assert not [path for path in files.names if path.endswith("4.log")]


@pytest.mark.parametrize("lost", ["00000000000000000000.log", "00000000000000000004.log"])
def test_refusal_changes_nothing_where_segments_have_no_index_yet(lost: str) -> None:
    """They were synced all the same: the mark says so. None is removed, and none sealed."""
    files = MemoryFiles()
    jobs: list[Job] = []
    config = LogConfig(segment_records=2, flush_messages=1)
    log = open_log(files, config, schedule=jobs.append)
    for n in range(3):
        append(log, [b"%d" % n] * 2)
    files.remove(log_file(lost))

    assert "had been synced from 0 to 6" in refusal(files, config)


def test_log_is_written_on_from_the_segment_before_a_hole() -> None:
    files = MemoryFiles()
    config = LogConfig(segment_records=3)
    jobs: list[Job] = []
    log = open_log(files, config, schedule=jobs.append)
    for n in range(6):
        append(log, [b"%d" % n])
    append(log, [b"behind"])
    files.remove(log_file("00000000000000000003.log"))

    again = open_log(files)
    assert again.log_end_offset == 3
    for value in (b"3", b"4"):
        append(again, [value])

    assert read_all(again) == [(n, b"%d" % n) for n in range(5)]
    assert read_all(open_log(files)) == [(n, b"%d" % n) for n in range(5)]


def test_hole_above_a_log_start_behind_which_nothing_was_synced_is_a_cut() -> None:
    """Segments below the log start go a little later: one that is there still ends before it."""
    files = MemoryFiles()
    jobs: list[Job] = []
    config = LogConfig(segment_records=2)
    log = open_log(files, config, schedule=jobs.append)
    for n in range(3):
        append(log, [b"%d" % n] * 2)
    log.flush()
    log.delete_before(5)
    log.truncate_to(5)
    append(log, [b"again"] * 2)
    append(log, [b"again"] * 2)
    assert log_file("00000000000000000002.log") in files.names
    files.remove(log_file("00000000000000000005.log"))

    again = open_log(files, config)

    assert (again.log_start_offset, again.log_end_offset) == (5, 5)


def test_synced_segments_behind_lost_ones_are_kept_and_not_refused_at_the_next_start() -> None:
    """Without the mark nobody knows what was before them; their next sync says nothing of it."""
    files = without_its_first_two(sealed=True)
    log = open_log(files)
    assert (log.log_start_offset, log.log_end_offset) == (4, 8)
    assert log.recovery_report.completeness is Completeness.MISSING

    append(log, [b"more"])
    log.flush()
    again = open_log(files)

    assert (again.log_start_offset, again.log_end_offset) == (4, 9)
    assert again.recovery_report.completeness is Completeness.MISSING  # until it was copied
