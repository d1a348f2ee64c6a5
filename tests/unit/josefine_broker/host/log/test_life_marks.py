"""Marks of a process, by which the next one judges the logs."""

from __future__ import annotations

import pytest

from josefine_broker.host.log.life_marks import (
    CLEAN_SHUTDOWN_FILE,
    NO_EPOCH,
    RUNNING_FILE,
    STARTED_MAX,
    STARTING_FILE,
    LifeMarks,
)
from tests.simulation.memory_files import MemoryFiles


def started(files: MemoryFiles, boot: str = "boot") -> LifeMarks:
    return LifeMarks(files, boot)


def test_an_empty_disk_had_no_process() -> None:
    marks = started(MemoryFiles())

    assert (marks.was_clean, marks.previous_epoch, marks.started) == (False, NO_EPOCH, ())
    assert not marks.is_marked


def test_a_clean_stop_names_its_epoch_once() -> None:
    files = MemoryFiles()
    started(files).stopped(7)

    first, second = started(files), started(files, "another boot")

    assert (first.was_clean, first.previous_epoch) == (True, 7)
    assert (second.was_clean, second.previous_epoch) == (False, NO_EPOCH)


@pytest.mark.parametrize(
    ("before", "after", "epoch"),
    [("a", "a", 7), ("a", "b", NO_EPOCH), ("", "", NO_EPOCH)],
)
def test_a_killed_process_has_lost_nothing_while_the_machine_runs(before, after, epoch) -> None:
    files = MemoryFiles()
    started(files, before).running(7)

    marks = started(files, after)

    assert (marks.was_clean, marks.previous_epoch) == (False, epoch)


def test_a_clean_stop_vouches_for_this_boot_even_if_the_next_process_is_killed_early() -> None:
    files = MemoryFiles()
    started(files).stopped(7)
    started(files)

    assert started(files).previous_epoch == 7


def test_processes_that_started_and_never_served_are_listed_until_one_serves() -> None:
    files = MemoryFiles()
    started(files).starting("i1")
    second = started(files)
    assert second.started == ("i1",)
    second.starting("i2")
    third = started(files)
    assert third.started == ("i1", "i2")

    third.running(9)

    assert started(files).started == ()


def test_the_list_of_starts_is_bounded_and_the_newest_stay() -> None:
    files = MemoryFiles()
    for number in range(STARTED_MAX + 5):
        started(files).starting(f"i{number}")

    assert started(files).started == tuple(f"i{n}" for n in range(5, STARTED_MAX + 5))


def test_after_a_failed_sync_nothing_vouches_for_the_process() -> None:
    files = MemoryFiles()
    marks = started(files)
    marks.running(7)
    assert marks.is_marked

    marks.unmark()

    assert not marks.is_marked
    assert started(files).previous_epoch == NO_EPOCH


@pytest.mark.parametrize("file", [CLEAN_SHUTDOWN_FILE, RUNNING_FILE, STARTING_FILE])
def test_a_damaged_mark_counts_as_none(file: str) -> None:
    files = MemoryFiles()
    marks = started(files)
    marks.running(7)
    marks.starting("i1")
    if file == CLEAN_SHUTDOWN_FILE:
        marks.stopped(8)
    files.names[file].data[-1] ^= 1

    found = started(files)

    assert not found.was_clean
    assert found.previous_epoch == (NO_EPOCH if file == RUNNING_FILE else 7)
    assert found.started == (() if file == STARTING_FILE else ("i1",))


def test_a_full_disk_keeps_no_start_and_stops_nobody() -> None:
    files = MemoryFiles()
    files.full_at = 0

    started(files).starting("i1")

    assert started(files).started == ()
