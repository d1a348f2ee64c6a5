"""When small files are compacted, and how often a batch begins, by a sink's `fresh` and `file`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.model.freshness import (
    LATE_MAX,
    SMALL_MAX,
    FileCare,
    Files,
    files_added,
    interval_ms,
)
from pipelines.model.maintenance import BUDGET_MS, Chore
from pipelines.sinks.delta_maintenance import Group, Keeper, TableFiles

MB = 1 << 20
SMALL = Files(count=1, bytes=MB)
NOTHING = Files(count=0, bytes=0)


def care(fresh_ms=30_000, small=0):
    found = FileCare(fresh_ms=fresh_ms, file_bytes=128 * MB)
    found.counted(NOTHING)
    for _ in range(small):
        found.committed(SMALL)
    return found


@pytest.mark.parametrize(
    ("targets_ms", "interval"),
    [((), None), ((None,), None), ((30_000,), 15_000), ((None, 60_000, 10_000), 5_000)],
)
def test_a_batch_begins_twice_within_the_strictest_target(targets_ms, interval):
    assert interval_ms(targets_ms) == interval


def test_the_rest_of_half_of_the_target_is_for_compaction():
    assert care(small=SMALL_MAX - 1).due(2_000) is None
    assert care(small=SMALL_MAX).due(2_000) == 13_000
    assert care(small=SMALL_MAX).due(14_500) is None
    assert care(fresh_ms=None, small=SMALL_MAX).due(10**9) == BUDGET_MS
    assert care(fresh_ms=3_600_000, small=SMALL_MAX).due(0) == BUDGET_MS


def test_too_many_files_do_not_wait_for_time_any_longer():
    assert care(small=LATE_MAX - 1).due(15_000) is None
    assert care(small=LATE_MAX).due(15_000) == 30_000


def test_one_that_was_ended_waits_for_twice_the_time_and_one_that_fails_late_for_more_files():
    one = care(small=SMALL_MAX)
    one.failed(6_000)
    assert (one.due(4_000), one.due(3_000)) == (None, 12_000)

    late = care(small=LATE_MAX)
    late.failed(30_000)
    assert late.due(0) is None
    for _ in range(LATE_MAX):
        late.committed(SMALL)
    assert late.due(0) == 30_000


def test_files_of_half_the_size_are_not_small_and_those_of_a_run_before_are_counted():
    one = care()
    for _ in range(100):
        one.committed(Files(count=2, bytes=128 * MB))
    assert one.due(0) is None

    of_another_run = FileCare(fresh_ms=30_000, file_bytes=128 * MB)
    assert (of_another_run.is_counted, of_another_run.due(0)) == (False, None)
    of_another_run.counted(Files(count=SMALL_MAX + 2, bytes=100 * MB))
    assert of_another_run.due(0) == 15_000


@pytest.mark.parametrize(
    ("metrics", "added"),
    [
        ({"numFiles": 2, "numOutputBytes": 9, "numOutputRows": 1}, Files(count=2, bytes=9)),
        ({"numTargetFilesAdded": 3, "numTargetBytesAdded": 8}, Files(count=3, bytes=8)),
        ({}, NOTHING),
    ],
)
def test_a_commits_files_are_those_that_delta_counts(metrics, added):
    assert files_added(metrics) == added


@given(
    st.lists(
        st.tuples(st.integers(1, 8), st.integers(1, 300 * MB), st.integers(0, 14_000)), max_size=200
    )
)
def test_with_time_for_compaction_a_table_has_never_many_more_files_than_its_bytes_need(commits):
    one, sizes, half = care(), [], 64 * MB
    for count, size, spent_ms in commits:
        each = size // count
        sizes += [each] * count
        one.committed(Files(count=count, bytes=each * count))
        if one.due(spent_ms) is not None:
            large, small = [s for s in sizes if s >= half], [s for s in sizes if s < half]
            # As Delta fills files up to the size: at least half of it, but for the last.
            whole, rest = divmod(sum(small), 128 * MB)
            sizes = large + [128 * MB] * whole + [rest] * bool(rest)
            one.compacted(1_000)
            one.counted(Files(count=len(sizes), bytes=sum(sizes)))
        assert len(sizes) <= sum(sizes) / half + SMALL_MAX + 8


class Table:
    """A table that counts its files, and what was done to it."""

    def __init__(self, count, wrong=None):
        self.files = Files(count=count, bytes=0)
        self.wrong = wrong
        self.done = []

    def count(self):
        return self.files

    def do(self, upkeep):
        self.done.append(upkeep)
        if self.wrong:
            raise self.wrong
        self.files = Files(count=1, bytes=0)


def keeper(table):
    files = TableFiles(
        care=FileCare(fresh_ms=30_000, file_bytes=2 * MB), file_bytes=2 * MB, count=table.count
    )
    group = Group(begin=lambda: None, end=lambda: None)
    return Keeper((), table.do, lambda: group, lambda: False, files)


def test_a_table_with_many_small_files_is_compacted_once_to_the_size_of_its_sink():
    table = Table(SMALL_MAX)
    kept = keeper(table)

    assert [*kept.after(1, 1_000), *kept.after(2, 1_000)] == []
    (task,) = table.done
    assert (task.chore, task.file_bytes, task.within_ms) == (Chore.OPTIMIZE, 2 * MB, 14_000)


def test_a_failed_compaction_is_one_line_and_waits():
    table = Table(SMALL_MAX, ValueError("no space"))
    kept = keeper(table)

    assert list(kept.after(1, 1_000)) == ["optimize failed: no space"]
    assert list(kept.after(2, 1_000)) == []
    assert len(table.done) == 1


def test_a_table_that_cannot_be_counted_fails_no_batch():
    table = Table(0)
    table.count = lambda: 1 / 0

    assert list(keeper(table).after(1)) == ["optimize is put off: division by zero"]
