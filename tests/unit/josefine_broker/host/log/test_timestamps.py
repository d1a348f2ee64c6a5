"""Offsets by timestamp: the right record inside the right batch."""

import os
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.files import RealFiles
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.lookup import LOOKUP_BYTES_MAX
from josefine_broker.records.batch import parse_header, stamp, stamp_log_append_time
from josefine_broker.records.builder import Record, build_batch
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    append,
    find_by_timestamp,
    max_timestamp,
    open_log,
)


@settings(max_examples=150, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.integers(0, 4), st.lists(st.integers(0, 50), min_size=1, max_size=5)),
        min_size=1,
        max_size=15,
    ),
    segment_bytes=st.integers(100, 1500),
    interval=st.integers(1, 500),
    start=st.integers(0, 30),
    reopened=st.booleans(),
)
def test_lookup_by_timestamp_equals_a_look_at_every_record(
    batches: list[tuple[int, list[int]]],
    segment_bytes: int,
    interval: int,
    start: int,
    reopened: bool,
) -> None:
    """Out of order timestamps, all compressions, a log start anywhere."""
    files = MemoryFiles()
    config = LogConfig(segment_bytes=segment_bytes, index_interval_bytes=interval)
    log = open_log(files, config)
    times: list[int] = []
    for codec, timestamps_ms in batches:
        append(log, [b"v"] * len(timestamps_ms), timestamps_ms=timestamps_ms, compression=codec)
        times += timestamps_ms
    start = min(start, len(times))
    log.delete_before(start)
    if reopened:
        log.close()
        log = open_log(files, config, clean=True)

    for wanted in range(52):
        expected = next(
            ((at, ts) for at, ts in enumerate(times) if at >= start and ts >= wanted), None
        )
        found = find_by_timestamp(log, wanted)
        assert (found and found[:2]) == expected
    left = times[start:]
    newest = (start + left.index(max(left)), max(left)) if left else None
    assert max_timestamp(log) == newest


def stamped(log: PartitionLog, append_time_ms: int) -> None:
    batch = build_batch([Record(value=b"a", timestamp_ms=5), Record(value=b"b", timestamp_ms=9)])
    header = stamp_log_append_time(batch, 0, append_time_ms)
    stamp(batch, 0, log.log_end_offset, 0)
    log.append(memoryview(batch), header, append_time_ms)


def test_log_append_time_is_the_time_of_every_record_of_the_batch() -> None:
    log = open_log(MemoryFiles())
    stamped(log, 1000)
    stamped(log, 2000)

    found = find_by_timestamp(log, 1001)

    assert found is not None
    assert (found.offset, found.timestamp_ms) == (2, 2000)
    assert max_timestamp(log) == (2, 2000)


def test_found_record_names_its_leader_epoch() -> None:
    log = open_log(MemoryFiles())
    append(log, [b"a"], timestamps_ms=[1], leader_epoch=3)
    append(log, [b"b"], timestamps_ms=[2], leader_epoch=7)

    found = find_by_timestamp(log, 2)

    assert found is not None
    assert found.leader_epoch == 7


def test_empty_log_has_no_timestamps() -> None:
    log = open_log(MemoryFiles())

    assert find_by_timestamp(log, 0) is None
    assert max_timestamp(log) is None


def test_records_nobody_can_decode_are_found_by_their_batch() -> None:
    """A client's checksum may be right over garbage; a lookup must not fail for ever after."""
    log = open_log(MemoryFiles())
    batch = build_batch([Record(value=b"x" * 50, timestamp_ms=10)], compression=4)
    batch[61:] = bytes(len(batch) - 61)
    log.append(memoryview(batch), parse_header(batch), 0)

    found = find_by_timestamp(log, 5)

    assert parse_header(batch).compression == 4
    assert found is not None
    assert (found.offset, found.timestamp_ms) == (0, 10)


def bomb(mebibytes: int, codec: int) -> bytearray:
    """A batch of two records, whose second value is so many zeros: a thousandth of them or less."""
    value = bytes(mebibytes * 1024 * 1024)
    records = [Record(value=value, timestamp_ms=10), Record(value=value, timestamp_ms=20)]
    return build_batch(records, compression=codec)


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_batch_that_would_expand_too_far_is_refused_in_bounded_memory(codec: int) -> None:
    """Decompressed whole it took the broker from 71 to 850 MB, and 3.7 s."""
    log = open_log(MemoryFiles())
    batch = bomb(LOOKUP_BYTES_MAX // (1 << 20), codec)
    log.append(memoryview(batch), parse_header(batch), 0)
    piece_by_piece = codec in (1, 2)

    tracemalloc.start()
    with pytest.raises(KafkaError, match=f"exceed {LOOKUP_BYTES_MAX} bytes") as caught:
        find_by_timestamp(log, 15)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert caught.value.code is ErrorCode.message_too_large
    assert peak < (1 << 20) + 4 * len(batch) + (0 if piece_by_piece else LOOKUP_BYTES_MAX)


@pytest.mark.parametrize("codec", [1, 2])
def test_only_the_records_before_the_one_found_are_decompressed(codec: int) -> None:
    log = open_log(MemoryFiles())
    batch = bomb(LOOKUP_BYTES_MAX // (1 << 20), codec)
    log.append(memoryview(batch), parse_header(batch), 0)

    found = find_by_timestamp(log, 10)

    assert found is not None
    assert found.offset == 0


def test_search_breathes_and_ends_where_breathing_says_so() -> None:
    log = open_log(MemoryFiles())
    append(log, [b"v"] * 5_500, timestamps_ms=range(5_500), compression=1)
    search = log.timestamp_search(5_400)
    assert search is not None
    breaths: list[None] = []

    def breathe() -> None:
        breaths.append(None)
        if len(breaths) == 3:
            raise KafkaError(ErrorCode.request_timed_out, "nobody waits")

    with pytest.raises(KafkaError, match="nobody waits"):
        search.run(breathe)
    assert len(breaths) == 3


@pytest.mark.parametrize("change", ["delete", "cut", "append and roll", "replaced"])
def test_log_may_change_while_it_is_searched(tmp_path: Path, change: str) -> None:
    """The search finds what was there or fails; the log is none the worse."""
    log = open_log(RealFiles(tmp_path), LogConfig(segment_bytes=2_000))
    for at in range(100):
        append(log, [b"x" * 50], timestamps_ms=[at])
    searches = [log.timestamp_search(90), log.timestamp_search(None), log.timestamp_search(5)]

    if change == "delete":
        log.abandon()
        os.rename(tmp_path / log.directory, tmp_path / "~deleted.1")
    elif change == "cut":
        log.truncate_to(50)
    elif change == "replaced":
        log.restart_at(7)
        append(log, [b"of another life"], timestamps_ms=[1_000])
    else:
        for at in range(100, 200):
            append(log, [b"x" * 50], timestamps_ms=[at])

    outcomes = []
    for search in searches:
        assert search is not None
        try:
            outcomes.append(search.run(lambda: None))
        except KafkaError as error:
            outcomes.append(error.code)
    gone = (ErrorCode.kafka_storage_error, ErrorCode.corrupt_message)
    if change == "append and roll":
        assert outcomes == [(90, 90, 0), (99, 99, 0), (5, 5, 0)]
    else:
        assert outcomes[0] in gone
        assert outcomes[1] in gone
        assert outcomes[2] in (*gone, (5, 5, 0))
