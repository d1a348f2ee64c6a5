"""Appending and reading a partition's log."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import iter_batches, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    open_log,
    read_all,
)


def small_log(**limits: int) -> PartitionLog:
    return open_log(MemoryFiles(), LogConfig(index_interval_bytes=200, **limits))


def test_reading_from_offset_zero_crosses_all_segments() -> None:
    """Checklist row 31."""
    log = small_log(segment_bytes=500)

    for n in range(50):
        append(log, [b"%d" % n])

    assert log.segment_count > 5
    assert read_all(log) == [(n, b"%d" % n) for n in range(50)]


def test_segment_rolls_by_size() -> None:
    """Checklist row 31."""
    log = small_log(segment_bytes=500)

    for _ in range(4):
        append(log, [b"x" * 150])

    assert log.segment_count == 2


def test_segment_rolls_by_time() -> None:
    """Checklist row 31."""
    log = small_log(segment_ms=1000)

    for now_ms in (0, 999, 1000, 1500, 2000):
        append(log, [b"x"], now_ms=now_ms)

    assert log._segments.base_offsets == [0, 2, 4]


def test_segment_rolls_by_record_count() -> None:
    """Checklist row 31."""
    log = small_log(segment_records=200)

    for _ in range(60):
        append(log, [b"x"] * 10)

    assert log._segments.base_offsets == [0, 200, 400]


def test_batch_larger_than_a_segment_gets_one_of_its_own() -> None:
    log = small_log(segment_bytes=100)

    append(log, [b"x" * 1000])
    append(log, [b"y" * 1000])

    assert log._segments.base_offsets == [0, 1]
    assert [offset for offset, _ in read_all(log)] == [0, 1]


def test_read_at_log_end_is_empty() -> None:
    log = small_log()
    append(log, [b"a", b"b"])

    assert log.read(2, 1000) == []


@pytest.mark.parametrize("offset", [-1, 9, 31, 1000])
def test_read_outside_the_log_is_out_of_range(offset: int) -> None:
    """Checklist row 38."""
    log = small_log()
    for _ in range(3):
        append(log, [b"x"] * 10)
    log.delete_before(10)

    with pytest.raises(KafkaError) as caught:
        log.read(offset, 1000)

    assert caught.value.code is ErrorCode.offset_out_of_range


def test_read_returns_whole_batches_within_the_limit() -> None:
    log = small_log()
    for n in range(30):
        append(log, [b"v" * n])

    for offset in range(30):
        for bytes_max in (0, 60, 150, 400, 1000):
            (data,) = log.read(offset, bytes_max)
            headers = list(iter_batches(data))
            assert headers[0][1].base_offset == offset
            assert sum(header.size_bytes for _, header in headers) == len(data)
            assert len(data) <= bytes_max or len(headers) == 1


def test_read_without_at_least_one_gives_nothing_when_the_batch_is_too_large() -> None:
    log = small_log()
    append(log, [b"x" * 500])

    assert log.read(0, 300, at_least_one=False) == []
    assert len(log.read(0, 300)[0]) > 500


@settings(max_examples=60, deadline=None)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=25),
    segment_bytes=st.integers(100, 2000),
    interval=st.integers(0, 700),
    data=st.data(),
)
def test_lookup_of_any_offset_after_any_roll_is_right(
    counts: list[int], segment_bytes: int, interval: int, data: st.DataObject
) -> None:
    """Checklist row 32."""
    files = MemoryFiles()
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
    log = open_log(files, config)
    for count in counts:
        append(log, [b"v"] * count)
    if data.draw(st.booleans(), "reopened"):
        log.close()
        log = open_log(files, config, clean=True)
    end = log.log_end_offset
    batch_of = [base for base, count in _bases(counts) for _ in range(count)]

    for _ in range(10):
        offset = data.draw(st.integers(0, end - 1), "offset")
        end_offset = data.draw(st.integers(0, end + 2), "end offset")
        bytes_max = data.draw(st.integers(0, 600), "bytes")
        found = log.read(offset, bytes_max, end_offset=end_offset)
        batches = [header for buffer in found for _, header in iter_batches(buffer)]
        first_end = next(b + c for b, c in _bases(counts) if b + c > offset)
        assert bool(batches) == (first_end <= min(end_offset, end))
        if batches:
            assert batches[0].base_offset == batch_of[offset]
            assert batches[-1].end_offset <= end_offset
            assert len(found[0]) <= bytes_max or len(batches) == 1


def _bases(counts: list[int]) -> list[tuple[int, int]]:
    bases, base = [], 0
    for count in counts:
        bases.append((base, count))
        base += count
    return bases


def test_append_refuses_what_is_not_one_batch_at_the_end() -> None:
    log = small_log()
    append(log, [b"a", b"b"])
    batch = build_batch([Record(value=b"x")])
    header = parse_header(batch)

    with pytest.raises(AssertionError, match="below"):
        log.append(memoryview(batch), header, NOW_MS)
    stamp(batch, 0, 2, 0)
    with pytest.raises(AssertionError, match="one batch"):
        log.append(memoryview(batch + b"x"), header, NOW_MS)


def test_append_refuses_a_leader_epoch_that_went_back() -> None:
    log = small_log()
    append(log, [b"a"], leader_epoch=3)
    batch = build_batch([Record(value=b"x")], base_offset=1, leader_epoch=2)

    with pytest.raises(AssertionError, match="epoch"):
        log.append(memoryview(batch), parse_header(batch), NOW_MS)


def test_append_writes_the_batch_as_it_was_sent() -> None:
    files = MemoryFiles()
    log = open_log(files)
    batch = build_batch([Record(b"k", b"v", (("h", None),), 5)], base_offset=0, leader_epoch=1)

    log.append(memoryview(batch), parse_header(batch), NOW_MS)

    assert files.names[f"{DIRECTORY}/00000000000000000000.log"].data == batch
    assert log.read(0, 1000) == [batch]
