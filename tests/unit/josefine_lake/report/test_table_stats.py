"""The lag of a table: by the oldest record that it lacks, whoever stops and starts again."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_lake.report.table_stats import UNKNOWN, ProcessStats, TableStats

P, Q = TopicPartition("t", 0), TopicPartition("t", 1)


def started(reached: int, end: int) -> TableStats:
    stats = TableStats()
    stats.started({P: reached}, {P: end})
    return stats


def lag(stats: TableStats, now_ms: int = 1_000) -> tuple[int | None, int | None]:
    return stats.lag.records, stats.lag.age_ms(now_ms)


def test_before_the_first_start_nothing_is_known() -> None:
    assert lag(TableStats()) == (None, None)


def test_a_table_that_has_its_topic_has_no_lag_however_old_the_records() -> None:
    assert lag(started(5, 5), now_ms=10**9) == (0, 0)


def test_the_age_of_unread_records_is_unknown_until_they_are_read() -> None:
    stats = started(0, 5)
    assert lag(stats) == (5, None)
    stats.lag.read(P, 300, 400, 5)
    assert lag(stats) == (5, 700)


def test_the_oldest_record_of_all_partitions_counts_until_its_commit() -> None:
    stats = started(0, 0)
    stats.lag.read(P, 300, 900, 2)
    stats.lag.read(Q, 100, 200, 1)
    assert lag(stats) == (3, 900)
    stats.committed(3, 10, {P: 2, Q: 1}, 1_000)
    assert lag(stats) == (0, 0)


def test_records_after_a_commit_are_as_old_as_the_newest_one_before_until_they_are_read() -> None:
    stats = started(0, 9)
    stats.lag.read(P, 100, 200, 9)
    stats.committed(4, 10, {P: 4}, 1_000)
    assert lag(stats) == (5, 800)


def test_a_failed_table_keeps_the_age_of_what_it_lacks() -> None:
    stats = started(0, 2)
    stats.lag.read(P, 100, 200, 2)
    stats.failed("S3 does not answer", is_stopped=False)
    stats.started({P: 0}, {P: 2})
    assert lag(stats, now_ms=5_000) == (2, 4_900)
    stats.lag.read(P, 100, 200, 2)
    assert lag(stats, now_ms=5_000) == (2, 4_900)
    assert (stats.counts.errors, stats.problem) == (1, "")


def test_records_without_a_timestamp_or_aborted_ones_have_no_age() -> None:
    stats = started(0, 2)
    stats.lag.read(P, UNKNOWN, UNKNOWN, 2)
    assert lag(stats) == (2, 0)


def test_a_timestamp_in_the_future_is_no_negative_lag() -> None:
    stats = started(0, 1)
    stats.lag.read(P, 9_999, 9_999, 1)
    assert lag(stats) == (1, 0)


def test_counters_continue_when_a_table_starts_again_and_end_with_its_lease() -> None:
    tables = ProcessStats()
    tables.table("t", 100).counts.rows += 5
    assert tables.table("t", 200).counts.rows == 5
    assert tables.tables["t"].target_lag_ms == 200
    tables.remove("t")
    assert tables.table("t", 100).counts.rows == 0
