"""What leaves a log, and what must stay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.retention import SegmentAge, expired_prefix
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    open_log,
    read_all,
)

HOUR_MS = 3_600_000


def hourly(files: MemoryFiles, config: LogConfig, hours: int = 10) -> PartitionLog:
    """One segment per hour, one record each; the last one is being written."""
    log = open_log(files, config)
    for hour in range(hours):
        log.roll()
        append(log, [b"%d" % hour], timestamps_ms=[NOW_MS + hour * HOUR_MS])
    return log


def test_retention_by_time_removes_what_is_older() -> None:
    """Checklist row 38."""
    log = hourly(MemoryFiles(), LogConfig(retention_ms=3 * HOUR_MS))

    removed = log.apply_retention(NOW_MS + 9 * HOUR_MS, log.log_end_offset)

    assert removed == 6
    assert (log.log_start_offset, log.log_end_offset) == (6, 10)
    assert read_all(log)[0] == (6, b"6")


def test_retention_by_size_keeps_at_least_the_asked_bytes() -> None:
    """Checklist row 38."""
    log = hourly(MemoryFiles(), LogConfig(retention_ms=None))
    segment_bytes = log.size_bytes // 10
    log.config = LogConfig(retention_ms=None, retention_bytes=4 * segment_bytes - 1)

    log.apply_retention(NOW_MS, log.log_end_offset)

    assert log.size_bytes == 4 * segment_bytes
    assert log.log_start_offset == 6


def test_retention_by_size_removes_a_segment_when_exactly_the_asked_bytes_stay() -> None:
    """As in Kafka."""
    log = hourly(MemoryFiles(), LogConfig(retention_ms=None))
    segment_bytes = log.size_bytes // 10
    log.config = LogConfig(retention_ms=None, retention_bytes=4 * segment_bytes)

    log.apply_retention(NOW_MS, log.log_end_offset)

    assert log.size_bytes == 4 * segment_bytes


def test_retention_stops_at_the_high_watermark() -> None:
    """Checklist row 38."""
    log = hourly(MemoryFiles(), LogConfig(retention_ms=1))

    log.apply_retention(NOW_MS + 100 * HOUR_MS, 4)

    assert log.log_start_offset == 4


def test_retention_of_everything_keeps_the_offsets() -> None:
    """Checklist row 38."""
    files = MemoryFiles()
    log = hourly(files, LogConfig(retention_ms=1))

    log.apply_retention(NOW_MS + 100 * HOUR_MS, log.log_end_offset)

    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (10, 10, 0)
    assert log_names(files) == [f"{10:020d}.log"]
    assert log.apply_retention(NOW_MS + 200 * HOUR_MS, 10) == 0
    assert append(log, [b"next"]) == 10


@pytest.mark.parametrize("policy", [{"compact"}, set()], ids=["compact", "empty"])
def test_topic_whose_policy_is_not_delete_keeps_everything(policy: set[str]) -> None:
    """KIP-1161: an empty policy is no cleanup."""
    config = LogConfig(retention_ms=1, cleanup_policy=frozenset(policy))
    log = hourly(MemoryFiles(), config)

    assert log.apply_retention(NOW_MS + 100 * HOUR_MS, log.log_end_offset) == 0


def test_segment_is_removed_by_the_flusher_once_it_is_synced() -> None:
    files, jobs = MemoryFiles(), list[Job]()
    log = open_log(files, LogConfig(retention_ms=1, segment_records=1), schedule=jobs.append)
    for n in range(5):
        append(log, [b"%d" % n])

    log.apply_retention(NOW_MS + 1000, 3)

    assert (log.log_start_offset, log.log_end_offset) == (3, 5)
    assert log_names(files)[0] == f"{0:020d}.log"
    for job in jobs:
        job()
    assert log_names(files) == [f"{3:020d}.log", f"{4:020d}.log"]


def log_names(files: MemoryFiles) -> list[str]:
    return [name for name in files.list(DIRECTORY) if name.endswith(".log")]


def test_delete_records_moves_the_log_start_within_a_segment_durably() -> None:
    """Checklist row 38."""
    files = MemoryFiles()
    log = open_log(files)
    for n in range(10):
        append(log, [b"%d" % n])

    log.delete_before(7)
    log.delete_before(3)

    for found in (log, open_log(files)):
        assert found.log_start_offset == 7
        assert [offset for offset, _ in read_all(found)] == [7, 8, 9]


def test_log_start_within_a_batch_serves_that_batch() -> None:
    log = open_log(MemoryFiles())
    append(log, [b"a", b"b", b"c"])

    log.delete_before(2)

    ((_, header),) = iter_batches(log.read(2, 1000)[0])
    assert header.base_offset == 0
    assert read_all(log) == [(2, b"c")]


def test_delete_past_the_end_is_a_bug_of_the_caller() -> None:
    log = open_log(MemoryFiles())
    append(log, [b"a"])

    with pytest.raises(AssertionError):
        log.delete_before(2)


@given(
    segments=st.lists(
        st.tuples(st.integers(1, 5), st.integers(1, 100), st.integers(0, 1000)), max_size=12
    ),
    now_ms=st.integers(0, 2000),
    retention_ms=st.none() | st.integers(0, 1000),
    retention_bytes=st.none() | st.integers(0, 600),
    bound=st.integers(0, 60),
    start=st.integers(0, 60),
)
def test_expired_prefix_keeps_its_bounds(
    segments: list[tuple[int, int, int]],
    now_ms: int,
    retention_ms: int | None,
    retention_bytes: int | None,
    bound: int,
    start: int,
) -> None:
    """Checklist row 38."""
    ages, end = [], 0
    for records, size, newest_ms in segments:
        end += records
        ages.append(SegmentAge(end, size, newest_ms))

    count = expired_prefix(
        ages,
        now_ms=now_ms,
        log_start_offset=start,
        end_offset_max=bound,
        retention_ms=retention_ms,
        retention_bytes=retention_bytes,
    )

    gone, kept = ages[:count], ages[count:]
    assert all(age.end_offset <= bound for age in gone)
    if retention_bytes is not None and retention_ms is None and start == 0 and gone:
        assert sum(age.size_bytes for age in kept) >= retention_bytes
    if retention_ms is None and retention_bytes is None:
        assert all(age.end_offset <= start for age in gone)
    if kept and kept[0].end_offset <= bound:
        assert kept[0].end_offset > start
        assert retention_ms is None or now_ms - kept[0].newest_ms <= retention_ms
