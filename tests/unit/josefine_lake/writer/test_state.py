"""When a table's writer commits: by time, by size, and never for nothing."""

from __future__ import annotations

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_lake.writer import compaction
from josefine_lake.writer.start import Ready
from josefine_lake.writer.state import (
    EARLY_SHARES,
    IDLE_WAIT_MS,
    Fetch,
    Phase,
    TableState,
    Write,
    early_share,
)

TP = TopicPartition("t", 0)


def state(**configs: int) -> TableState:
    table = TableTopic(topic="t", location="/t", **configs)  # type: ignore[arg-type]
    return TableState(table, "1", Ready(positions={TP: 0}, tip=None, dead=None))


def test_nothing_is_committed_while_nothing_was_read() -> None:
    found = state().next(10**9, at_end=True)

    assert isinstance(found, Fetch)
    assert found.wait_ms == IDLE_WAIT_MS


def test_a_commit_is_due_once_the_oldest_record_has_waited_for_the_target_lag() -> None:
    writer = state(target_lag_ms=1_000)
    writer.took(TP, 1, 10, 5_000)
    writer.took(TP, 2, 20, 5_900)

    early, due = writer.next(5_999), writer.next(6_000)

    assert isinstance(early, Fetch)
    assert early.wait_ms == 1
    assert isinstance(due, Write)
    assert due.commit.end.ends == {TP: 2}


def test_a_full_file_is_committed_before_the_target_lag() -> None:
    writer = state(target_file_bytes=1_000)
    writer.took(TP, 1, 1_000, 0)

    assert isinstance(writer.next(0), Write)
    assert writer.phase is Phase.COMMITTING


def test_a_slow_commit_starts_earlier_but_not_before_half_of_the_target_lag() -> None:
    writer = state(target_lag_ms=1_000)
    for took_ms in (300, 10_000):
        writer.took(TP, writer.positions[TP] + 1, 1, 0)
        step = writer.next(1_000)
        assert isinstance(step, Write)
        writer.committed(step, took_ms)
        writer.took(TP, writer.positions[TP] + 1, 1, 0)
        assert writer.due_ms() == 1_000 - min(took_ms, 500)
        step = writer.next(1_000)
        assert isinstance(step, Write)
        writer.committed(step, took_ms)


def test_commits_of_many_tables_are_spread_before_the_target_lag() -> None:
    shares = [early_share(f"t-{number}") for number in range(200)]
    least, largest = EARLY_SHARES
    assert all(least <= each <= largest for each in shares)
    assert max(sum(low <= each < low + 0.01 for each in shares) for low in (0.05, 0.1, 0.14)) < 40

    table = TableTopic(topic="t", location="/t", target_lag_ms=1_000)
    ready = Ready(positions={TP: 0}, tip=None, dead=None)
    writer = TableState(table, "1", ready, early_share=0.1)
    writer.took(TP, 1, 10, 5_000)
    assert writer.due_ms() == 5_900


@given(reads=st.lists(st.tuples(st.integers(0, 50), st.integers(0, 400)), max_size=40))
def test_commits_follow_each_other_without_gap_and_no_record_waits_longer_than_the_lag(
    reads: list[tuple[int, int]],
) -> None:
    writer, now_ms, end, oldest_ms = state(target_lag_ms=1_000), 0, 0, None
    for records, pause_ms in reads:
        now_ms += min(pause_ms, 400)
        step = writer.next(now_ms)
        if isinstance(step, Write):
            assert step.commit.start.get(TP, 0) == end
            assert oldest_ms is not None
            assert now_ms - oldest_ms <= 1_000 + 400  # the host was away that long
            end, oldest_ms = step.commit.end.ends[TP], None
            writer.committed(step, 0)
        if records:
            writer.took(TP, writer.positions[TP] + records, 1, now_ms)
            oldest_ms = now_ms if oldest_ms is None else oldest_ms


def test_small_files_are_rewritten_before_the_bound_is_passed() -> None:
    assert not compaction.is_due(19, 0)
    assert compaction.is_due(20, 0)
    assert not compaction.is_due(100, 81 * (64 << 20))


class Sized(NamedTuple):
    size: int


@given(sizes=st.lists(st.integers(0, 130), max_size=60))
def test_after_a_rewrite_all_files_but_one_are_large_enough(sizes: list[int]) -> None:
    files = [Sized(each) for each in sizes]

    groups = compaction.groups(files, 100)

    assert all(len(each) > 1 for each in groups)
    assert all(sum(file.size for file in each[:-1]) < 100 for each in groups)
    together = [file for each in groups for file in each]
    assert together == [file for file in files if file.size < 100][: len(together)], "in order"
    if len(groups) < compaction.GROUPS_MAX:
        left = [file for file in files if file.size < 100][len(together) :]
        assert len(left) <= 1
        assert all(sum(file.size for file in each) >= 100 for each in groups[:-1])
