"""What may go wrong while a log is cleaned, each of them at every step: the log is as before, or as
after, of each group of segments.

- the process is killed, or the machine loses its power;
- the disk is full, or fails, at a write, a sync, a rename, a removal;
- a segment that is read is not what was written;
- the log is cut, begun anew, shortened from its start, deleted or closed meanwhile (another leader,
  retention, DeleteRecords, an operator); it is appended to and rolled;
- nobody wants the pass any more: the broker stops.

Readers in the middle are in test_cleaning.py; what the map has no room for, and what cannot be
judged, in tests/unit/josefine_broker/engine/partition/test_batch_filter.py.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.engine.partition import batch_filter
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.cleaning_pass import Hands
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.builder import Record
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.cleaning import (
    COMPACT,
    CutFiles,
    Killed,
    append_keyed,
    begin_pass,
    clean,
    io_error,
    latest_of,
    no_space,
    records_of,
)
from tests.unit.josefine_broker.host.log.support import DIRECTORY, open_log

Reads = list[tuple[int, bytes | None, bytes | None]]


@pytest.fixture(autouse=True)
def _breathe_at_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_filter, "STEPS_PER_BREATH", 1)


def run_if_possible(job: Job) -> None:
    """As the flusher: a job that fails ends nothing."""
    with suppress(OSError):
        job()


def filled(files: MemoryFiles, batches: int = 44) -> PartitionLog:
    """Durable; its first segments were cleaned before."""
    log = open_log(files, COMPACT, schedule=run_if_possible)
    for n in range(batches):
        append_keyed(log, [(b"%d" % (n % 9), b"%d" % n)], epoch=n // 20)
        if n == batches // 2:
            clean(files, log)
    log.flush()
    files.sync_directory("")
    return log


def content(log: PartitionLog) -> Reads:
    return [(each.offset, each.key, each.value) for each in records_of(log)]


class Course:
    """A pass that nothing stopped: what the log was behind each change, and its operations."""

    def __init__(self) -> None:
        files = CutFiles()
        log = filled(files)
        self.states = [content(log)]
        files.operations = 0

        def on_loop(ask: Callable[[], bool]) -> bool:
            done = ask()
            self.states.append(content(log))
            return done

        clean(files, log, Hands(on_loop=on_loop))
        self.operations = files.operations
        assert len(self.states) > 3
        assert self.states[0] != self.states[1]


@pytest.fixture(scope="module")
def course() -> Course:
    return Course()


def stopped_at(operation: int, error: Callable[[], BaseException]) -> tuple[CutFiles, PartitionLog]:
    """A pass that met an error there."""
    files = CutFiles()
    log = filled(files)
    files.operations, files.fails_at, files.error = 0, operation, error
    with suppress(Killed, OSError, KafkaError):
        clean(files, log)
    files.fails_at = None
    return files, log


def check_again(files: MemoryFiles, course: Course, note: str) -> None:
    """The next process finds one of the states, and goes on cleaning from there."""
    log = open_log(files, COMPACT)
    assert content(log) in course.states, note
    assert log.log_end_offset == 44
    assert log.verify().problems == (), note
    assert not left_over(files), note
    if begin_pass(files, log) is not None:
        clean(files, log)
    assert content(log) == course.states[-1], note
    log.close()
    assert content(open_log(files, COMPACT, clean=True)) == course.states[-1], note


def left_over(files: MemoryFiles) -> list[str]:
    return [path for path in files.names if path.endswith((".cleaned", ".swap", ".tmp"))]


def test_killed_at_any_operation_the_log_is_as_before_or_as_after(course: Course) -> None:
    for operation in range(course.operations):
        files, _ = stopped_at(operation, Killed)

        check_again(files.copy(), course, f"killed at {operation}")


def test_power_lost_at_any_operation_the_log_is_as_before_or_as_after(course: Course) -> None:
    for operation in range(course.operations):
        files, _ = stopped_at(operation, Killed)
        for seed in range(6):
            check_again(files.power_loss(Random(seed)), course, f"{operation}, {seed}")


@pytest.mark.parametrize("error", [io_error, no_space])
def test_disk_that_fails_at_any_operation_leaves_the_log_as_before_or_as_after(
    course: Course, error: Callable[[], OSError]
) -> None:
    """In the process that met it, and in the next one. It fails only where a swap is half done, or
    what came of it cannot be synced."""
    failed = 0
    for operation in range(course.operations):
        files, log = stopped_at(operation, error)
        note = f"{error.__name__} at {operation}"
        if log.failure:
            failed += 1
            assert "could not be installed" in log.failure or "sync failed" in log.failure, note
        else:
            assert content(log) in course.states, note
            assert [path for path in left_over(files) if not path.endswith(".tmp")] == [], note
            run_if_possible(log.flush)
        check_again(files.copy(), course, note)
        if not log.failure:
            append_keyed(log, [(b"more", b"records")], epoch=3)
    assert failed < course.operations // 2


def test_disk_that_is_full_is_asked_again_later(course: Course) -> None:
    files, log = CutFiles(), None
    log = filled(files)
    files.space_bytes = sum(len(inode.data) for inode in files.names.values()) + 50

    with pytest.raises(OSError, match="no space left"):
        clean(files, log)
    assert content(log) == course.states[0]
    assert left_over(files) == []
    files.space_bytes = None

    assert clean(files, log).is_whole
    assert content(log) == course.states[-1]


def test_name_that_a_full_disk_does_not_take_changes_nothing(course: Course) -> None:
    files = MemoryFiles()
    log = filled(files)
    files.fails_to_rename = True

    assert not clean(files, log).is_whole

    assert (log.failure, left_over(files)) == ("", [])
    assert content(log) == course.states[0]
    files.fails_to_rename = False
    assert clean(files, log).is_whole


def test_index_of_before_is_not_taken_for_that_of_a_cleaned_segment_of_equal_length() -> None:
    """Where only a tombstone got its time: the bytes are others, and so is their checksum."""
    config = replace(COMPACT, segment_bytes=300, delete_retention_ms=1)
    operation, was_stopped = 0, True
    while was_stopped:
        files = CutFiles()
        log = open_log(files, config)
        for n in range(4):
            append_keyed(log, [(b"%d" % n, None), (b"x%d" % n, bytes(120))])
        log.flush()
        sizes = [each.size_bytes for each in log.cleaning.sealed()]
        files.operations, files.fails_at = 0, operation
        with suppress(Killed):
            assert clean(files, log).bytes_written > 0
            assert [each.size_bytes for each in log.cleaning.sealed()] == sizes
        was_stopped = files.is_dead

        found = files.copy()
        again = open_log(found, config)
        assert again.verify().problems == (), f"killed at {operation}"
        if begin_pass(found, again) is not None:
            assert clean(found, again).is_whole
        operation += 1
    assert operation > 20


def test_pass_does_not_begin_a_segment_for_which_there_is_no_room(course: Course) -> None:
    files = MemoryFiles()
    log = filled(files)

    with pytest.raises(OSError, match="are free"):
        clean(files, log, Hands(room_bytes=lambda: 10))

    assert content(log) == course.states[0]


@pytest.mark.parametrize("byte", [3, 14, 40, 100, 200])
@pytest.mark.parametrize("place", [0, 1, 3])
def test_damaged_segment_is_not_written_anew(course: Course, byte: int, place: int) -> None:
    """A flipped bit in an offset, an epoch, a header, a record: no key is given up for it."""
    files = MemoryFiles()
    log = filled(files)
    segment = log.cleaning.sealed()[place]
    data = files.names[f"{segment.stem}.log"].data
    data[byte] ^= 0x10
    harmed = bytes(data)

    with pytest.raises(CorruptData):
        clean(files, log)

    assert files.names[f"{segment.stem}.log"].data == harmed
    data[byte] ^= 0x10
    assert content(log) in course.states
    assert clean(files, log).is_whole
    assert content(log) == course.states[-1]


def test_damaged_swap_is_not_put_in_place_of_what_it_replaces(course: Course) -> None:
    for operation in range(course.operations):
        files, _ = stopped_at(operation, Killed)
        found = files.copy()
        swaps = [path for path in found.names if path.endswith(".swap")]
        if not swaps:
            continue
        found.names[swaps[0]].data[-1] ^= 1
        names = set(found.names)

        with pytest.raises(CorruptData, match="the replacement of the segments"):
            open_log(found, COMPACT)

        assert set(found.names) == names
        return
    raise AssertionError("no swap was ever half done")


class Meddler:
    """Does something to the log when the pass breathes, or changes the log, for the n-th time."""

    def __init__(self, at: int, meddle: Job) -> None:
        self.at = at
        self.calls = 0
        self._meddle = meddle

    def breathe(self) -> None:
        self.calls += 1
        if self.calls == self.at:
            self._meddle()

    def on_loop(self, ask: Callable[[], bool]) -> bool:
        self.breathe()
        done = ask()
        self.breathe()
        return done


def grow(log: PartitionLog) -> None:
    for n in range(8):
        append_keyed(log, [(b"%d" % n, b"newer")], epoch=9)


def cut_and_grow(log: PartitionLog) -> None:
    log.truncate_to(21)
    grow(log)


MEDDLING: dict[str, Callable[[PartitionLog], None]] = {
    "cut": lambda log: log.truncate_to(30),
    "cut within what was cleaned": lambda log: log.truncate_to(9),
    "cut and grown": cut_and_grow,
    "begun anew": lambda log: log.restart_at(100),
    "begun anew within": lambda log: log.restart_at(20),
    "shortened": lambda log: log.delete_before(10),
    "shortened past everything": lambda log: log.delete_before(44),
    "grown": grow,
    "rolled": lambda log: log.roll(),
}


@pytest.mark.parametrize("what", MEDDLING)
def test_log_that_changes_while_it_is_cleaned_keeps_what_it_then_has(what: str) -> None:
    at, was_called = 0, True
    while was_called:
        at += 1
        files = MemoryFiles()
        log = filled(files)
        after: list[list[Record]] = []

        def meddle(log: PartitionLog = log, after: list[list[Record]] = after) -> None:
            MEDDLING[what](log)
            after.append(records_of(log))

        meddler = Meddler(at, meddle)
        with suppress(OSError):
            clean(files, log, Hands(on_loop=meddler.on_loop, breathe=meddler.breathe))
        was_called = bool(after)
        if was_called:
            check_kept(files, log, after[0], f"{what} at {at}")


def check_kept(files: MemoryFiles, log: PartitionLog, then: list[Record], note: str) -> None:
    found = records_of(log)
    assert all(record in then for record in found), note
    assert latest_of(found) == latest_of(then), note
    assert log.cleaning.cleaned_to <= log.log_end_offset, note
    assert left_over(files) == [], note
    assert log.verify().problems == (), note
    log.flush()
    start, end = log.log_start_offset, log.log_end_offset
    for again in (files.copy(), files.power_loss(Random(1))):
        other = open_log(again, COMPACT)
        assert records_of(other) == found, note
        assert (other.log_start_offset, other.log_end_offset) == (start, end), note
    if begin_pass(files, log) is not None:
        clean(files, log)
        assert latest_of(records_of(log)) == latest_of(then), note


@pytest.mark.parametrize("is_deleted", [True, False])
def test_log_that_is_closed_or_deleted_meanwhile_is_left_alone(is_deleted: bool) -> None:
    """Its directory may be another topic's by then."""
    at, was_called = 0, True
    while was_called:
        at += 1
        files = MemoryFiles()
        log = filled(files)
        found: list[dict[str, bytes]] = []

        def meddle(
            log: PartitionLog = log,
            files: MemoryFiles = files,
            found: list[dict[str, bytes]] = found,
        ) -> None:
            log.abandon()
            if is_deleted:
                files.remove_tree(DIRECTORY)
                other = open_log(files, COMPACT)
                append_keyed(other, [(b"of", b"another topic")])
            found.append(logs_in(files))

        meddler = Meddler(at, meddle)
        with suppress(OSError):
            clean(files, log, Hands(on_loop=meddler.on_loop, breathe=meddler.breathe))
        was_called = bool(found)
        if was_called:
            assert logs_in(files) == found[0], f"at {at}"
            assert left_over(files) == [], f"at {at}"


def logs_in(files: MemoryFiles) -> dict[str, bytes]:
    """But what only the pass knows."""
    return {
        path: bytes(inode.data)
        for path, inode in files.names.items()
        if not path.endswith(".cleaned")
    }


def test_pass_that_nobody_wants_any_more_ends_at_its_next_breath(course: Course) -> None:
    at, was_called = 0, True
    while was_called:
        at += 1
        files = MemoryFiles()
        log = filled(files)
        calls = 0

        def breathe(at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                raise KafkaError(ErrorCode.request_timed_out, "the broker stops")

        with suppress(KafkaError):
            clean(files, log, Hands(breathe=breathe))
        was_called = calls >= at
        assert calls <= at
        assert content(log) in course.states
        assert left_over(files) == []


def test_how_far_a_pass_came_is_no_further_than_the_log(course: Course) -> None:
    files = MemoryFiles()
    log = filled(files)
    log.state.store_cleaned_to(10**6)
    log.close()

    again = open_log(files, COMPACT, clean=True)

    assert again.cleaning.cleaned_to == 0
    assert clean(files, again).is_whole
    assert latest_of(records_of(again)) == {key: value for _, key, value in course.states[-1]}


def test_how_far_a_pass_came_is_forgotten_where_the_log_is_cut_below_it() -> None:
    """Else what is appended there later would never be held against what is before it."""
    files = MemoryFiles()
    log = filled(files)
    clean(files, log)
    assert log.cleaning.cleaned_to > 20

    log.truncate_to(20)

    assert log.cleaning.cleaned_to <= 20
    for _ in range(5):
        grow(log)
    log.flush()
    for again in (files.copy(), files.power_loss(Random(3))):
        assert open_log(again, COMPACT).cleaning.cleaned_to <= 20
