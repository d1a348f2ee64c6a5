"""Offset and time of each record, read without its key and value."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.compression import Compression, ExpandsTooFarError
from josefine_broker.records.reader import read_records
from josefine_broker.records.times import record_times

RECORDS = st.lists(
    st.builds(
        Record, st.none() | st.binary(max_size=40), st.none() | st.binary(max_size=3_000),
        st.just(()), st.integers(0, 2**50),
    ),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=50)
@given(RECORDS, st.sampled_from([0, 1, 2, 3, 4]), st.integers(0, 2**40))
def test_times_are_those_of_the_records_in_each_compression(records, codec, offset) -> None:
    batch = build_batch(records, compression=codec, base_offset=offset)

    found = list(record_times(batch, bytes_max=1 << 20))

    assert found == [(each.offset, each.timestamp_ms) for each in read_records(batch)]


def test_a_record_may_be_cut_by_the_pieces_of_its_compression() -> None:
    """Of a dozen bytes each: one of them lies across the first 64 KiB."""
    records = [Record(b"key", b"v", (), n) for n in range(12_000)]
    batch = build_batch(records, compression=Compression.GZIP)

    assert list(record_times(batch, bytes_max=1 << 20)) == [(n, n) for n in range(12_000)]


def test_records_before_a_damaged_one_are_read() -> None:
    batch = bytearray(build_batch([Record(None, b"v" * 9, (), n) for n in range(3)]))
    size_of_record = (len(batch) - 61) // 3
    batch[61 + size_of_record] = 0  # the second record has no bytes
    times = record_times(batch, bytes_max=1 << 20)

    assert next(times) == (0, 0)
    with pytest.raises(CorruptData, match="a record of 0 bytes"):
        next(times)


def test_a_batch_that_expands_too_far_is_refused_only_where_it_is_read() -> None:
    batch = build_batch(
        [Record(None, b"x" * 100_000, (), n) for n in range(30)], compression=Compression.GZIP
    )
    times = record_times(batch, bytes_max=300_000)

    assert next(times) == (0, 0)
    with pytest.raises(ExpandsTooFarError):
        list(times)
