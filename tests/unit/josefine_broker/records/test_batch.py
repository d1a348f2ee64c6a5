"""The batch header: parsing, checking, stamping in place, walking over several batches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    check_produced,
    iter_batches,
    parse_header,
    stamp,
    stamp_log_append_time,
    verify,
)
from josefine_broker.records.builder import Record, build_batch, build_entries
from josefine_broker.records.reader import read_records


def sample(count: int = 3, **options: int) -> bytearray:
    records = [Record(b"k%d" % n, b"v%d" % n, (), 1000 + n) for n in range(count)]
    return build_batch(records, **options)


def test_header_is_61_bytes_and_says_what_was_built() -> None:
    header = parse_header(sample(producer_id=9, producer_epoch=2, base_sequence=40, compression=4))

    assert HEADER_BYTES == 61
    assert (header.magic, header.record_count, header.last_offset_delta) == (2, 3, 2)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 2, 40)
    assert (header.base_timestamp_ms, header.max_timestamp_ms) == (1000, 1002)
    assert (header.compression, header.timestamp_type) == (4, 0)
    assert not header.is_control
    assert not header.is_transactional
    assert header.last_sequence == 42


@given(
    st.lists(
        st.tuples(st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)),
        min_size=1,
        max_size=130,
    ),
    st.integers(0, 2**60),
)
def test_entries_of_one_time_are_the_batch_of_their_records(
    entries: list[tuple[bytes | None, bytes | None]], timestamp_ms: int
) -> None:
    records = [Record(key, value, (), timestamp_ms) for key, value in entries]

    assert build_entries(entries, timestamp_ms) == build_batch(records)


def test_sequences_wrap_to_zero() -> None:
    header = parse_header(sample(producer_id=1, base_sequence=2**31 - 2))

    assert header.last_sequence == 0


def test_stamping_in_place_keeps_the_checksum_right() -> None:
    frame = bytearray(b"....") + sample() + bytearray(b"....")

    stamp(memoryview(frame), 4, 1 << 40, 17)

    header = parse_header(frame, 4)
    verify(frame, 4, header)
    assert (header.base_offset, header.leader_epoch, header.end_offset) == (
        1 << 40,
        17,
        (1 << 40) + 3,
    )
    assert frame[:4] == frame[-4:] == b"...."


def test_log_append_time_is_stamped_with_a_new_checksum() -> None:
    batch = sample()

    header = stamp_log_append_time(memoryview(batch), 0, 5555)

    verify(batch, 0, header)
    assert header.timestamp_type == 1
    assert header.max_timestamp_ms == 5555
    assert {record.timestamp_ms for record in read_records(batch)} == {5555}


def test_flipped_bit_anywhere_under_the_checksum_is_detected() -> None:
    """Checklist rows 22 and 29."""
    batch = sample()
    unchecked = {*range(8), *range(12, 16)}

    for bit in range(len(batch) * 8):
        damaged = bytearray(batch)
        damaged[bit // 8] ^= 1 << bit % 8
        if bit // 8 in unchecked:
            continue
        with pytest.raises(CorruptData):
            verify(damaged, 0, parse_header(damaged))


@given(st.binary(max_size=200))
def test_garbage_is_corrupt_data_and_nothing_else(data: bytes) -> None:
    """Checklist row 96, as far as record batches go."""
    with pytest.raises(CorruptData):
        verify(data, 0, parse_header(data))
    with pytest.raises(CorruptData):
        list(read_records(data))


@given(cut=st.integers(0, 300), counts=st.lists(st.integers(1, 3), min_size=1, max_size=4))
def test_iteration_stops_at_a_partial_last_batch(cut: int, counts: list[int]) -> None:
    whole = [sample(count) for count in counts]
    data = b"".join(whole)
    kept = data[: max(0, len(data) - cut)]

    found = list(iter_batches(kept))

    ends = [sum(map(len, whole[: at + 1])) for at in range(len(whole))]
    assert len(found) == sum(end <= len(kept) for end in ends)
    assert [header.record_count for _, header in found] == counts[: len(found)]


def test_iteration_over_garbage_is_corrupt_data() -> None:
    with pytest.raises(CorruptData, match="no record batch at byte"):
        list(iter_batches(sample() + bytes(100)))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"record_count": 0}, ErrorCode.invalid_record),
        ({"record_count": 2}, ErrorCode.invalid_record),
        ({"last_offset_delta": 7}, ErrorCode.invalid_record),
        ({"attributes": 0x20}, ErrorCode.invalid_record),
        ({"producer_id": 5, "base_sequence": -1}, ErrorCode.invalid_record),
        ({"attributes": 5}, ErrorCode.unsupported_compression_type),
    ],
)
def test_client_batch_that_breaks_a_rule_is_refused(
    change: dict[str, int], code: ErrorCode
) -> None:
    header: BatchHeader = parse_header(sample())
    check_produced(header)

    with pytest.raises(KafkaError) as caught:
        check_produced(header._replace(**change))

    assert caught.value.code is code
