"""A batch without some of its records: what stays is as it was, and others read it."""

from collections.abc import Sequence
from random import Random

import pytest
from aiokafka.record.default_records import DefaultRecordBatch as AioBatch
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch as KafkaBatch

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.batch import (
    BatchHeader,
    parse_header,
    stamp,
    stamp_log_append_time,
    verify,
)
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.keyed import (
    delete_horizon_ms,
    emptied,
    keyed_records,
    open_body,
    with_only,
)
from josefine_broker.records.reader import read_records

BYTES_MAX = 1 << 20

data = st.none() | st.binary(max_size=300)
records_lists = st.lists(
    st.builds(
        Record,
        key=data,
        value=data,
        headers=st.lists(st.tuples(st.text(max_size=5), data), max_size=2).map(tuple),
        timestamp_ms=st.integers(-1, 2**41),
    ),
    min_size=1,
    max_size=8,
)
horizons = st.none() | st.integers(0, 2**63 - 1)


def built(records: Sequence[Record], codec: int = 0) -> bytearray:
    batch = build_batch(
        records, compression=codec, producer_id=7, producer_epoch=2, base_sequence=2**31 - 3
    )
    stamp(batch, 0, 1_000, 4)
    return batch


def opened(batch: bytearray) -> tuple[BatchHeader, bytes]:
    header = parse_header(batch)
    return header, open_body(batch, header, BYTES_MAX)


def identity(header: BatchHeader) -> tuple[int, ...]:
    """What producers and followers know a batch by."""
    return (
        header.base_offset, header.last_offset, header.leader_epoch, header.producer_id,
        header.producer_epoch, header.base_sequence, header.last_sequence, header.timestamp_type,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(records=records_lists, codec=st.integers(0, 4))
def test_keys_and_tombstones_are_those_that_a_reader_finds(
    records: list[Record], codec: int
) -> None:
    header, body = opened(built(records, codec))

    found = list(keyed_records(body, header))

    assert [(each.key, each.is_tombstone, each.offset_delta) for each in found] == [
        (record.key, record.value is None, at) for at, record in enumerate(records)
    ]


@settings(max_examples=150, deadline=None)
@given(records=records_lists, codec=st.integers(0, 4), horizon_ms=horizons, rng=st.randoms())
def test_what_stays_of_a_batch_is_as_it_was(
    records: list[Record], codec: int, horizon_ms: int | None, rng: Random
) -> None:
    """Also a second time, and for readers that we did not write."""
    batch = built(records, codec)
    wanted = list(read_records(batch))
    was = identity(parse_header(batch))

    for _ in range(2):
        header, body = opened(batch)
        found = list(keyed_records(body, header))
        places = sorted(rng.sample(range(len(found)), rng.randint(1, len(found))))
        wanted = [wanted[at] for at in places]
        batch = with_only(header, body, [found[at] for at in places], horizon_ms)

        header = parse_header(batch)
        verify(batch, 0, header)
        assert identity(header) == was
        assert list(read_records(batch)) == wanted
        assert header.max_timestamp_ms == max(record.timestamp_ms for record in wanted)
        assert delete_horizon_ms(header) == horizon_ms
        assert header.compression == codec
        for batch_class in (AioBatch, KafkaBatch):
            theirs = batch_class(bytes(batch))
            assert theirs.validate_crc()
            assert [(r.offset, r.key, r.value, r.timestamp) for r in theirs] == [
                (r.offset, r.key, r.value, r.timestamp_ms) for r in wanted
            ]


@pytest.mark.parametrize("codec", range(5))
def test_emptied_batch_is_a_header_with_the_same_offsets_and_sequences(codec: int) -> None:
    header, body = opened(built([Record(b"k", b"v", (), 5)] * 3, codec))

    empty = emptied(header)

    found = parse_header(empty)
    verify(empty, 0, found)
    again = with_only(header, body, list(keyed_records(body, header)), 99)
    assert emptied(parse_header(again)) == empty
    assert len(empty) == 61
    assert with_only(header, body, [], 99) == empty
    assert identity(found) == identity(header)
    assert (found.record_count, found.compression, found.base_timestamp_ms) == (0, 0, -1)
    assert found.max_timestamp_ms == header.max_timestamp_ms
    assert list(read_records(empty)) == []
    assert list(AioBatch(bytes(empty))) == []


def test_records_stamped_by_the_broker_keep_that_time() -> None:
    batch = built([Record(b"k", b"v", (), 5), Record(b"k", None, (), 6)])
    stamp_log_append_time(batch, 0, 777)
    header, body = opened(batch)

    left = with_only(header, body, list(keyed_records(body, header))[1:], 10**6)

    assert [record.timestamp_ms for record in read_records(left)] == [777]
    assert parse_header(left).max_timestamp_ms == 777


@settings(max_examples=300, deadline=None)
@given(records=records_lists, at=st.integers(0, 10**6), bit=st.integers(0, 7))
def test_flipped_bit_in_a_body_gives_records_or_corrupt_data(
    records: list[Record], at: int, bit: int
) -> None:
    """Its checksum was right when it came: a producer may send anything."""
    header, body = opened(built(records))
    harmed = bytearray(body)
    harmed[at % len(harmed)] ^= 1 << bit

    try:
        found = list(keyed_records(bytes(harmed), header))
    except CorruptData:
        return

    assert len(found) == header.record_count
    ends = [0] + [each.end for each in found]
    assert [each.start for each in found] == ends[:-1]
    assert ends[-1] == len(body)
    deltas = [each.offset_delta for each in found]
    assert deltas == sorted(set(deltas))
    assert deltas[-1] <= header.last_offset_delta


@given(st.binary(max_size=60), st.integers(0, 5))
def test_garbage_is_corrupt_data_and_nothing_else(body: bytes, count: int) -> None:
    header = parse_header(built([Record(b"k")] * 5))._replace(record_count=count)

    try:
        found = list(keyed_records(body, header))
    except CorruptData:
        return

    assert len(found) == count
