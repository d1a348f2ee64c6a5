"""A record batch in pieces: the same records, in order, under the same sequence numbers."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from josefine_arrow.batches.encoder import SEQUENCE_MASK, Sealed
from josefine_broker.records.batch import parse_header, verify
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records
from josefine_spark.write.batch_splitter import split

RECORDS = st.lists(
    st.builds(
        Record, st.none() | st.binary(max_size=3), st.none() | st.binary(max_size=200),
        st.just((("h", b"x"),)), st.integers(0, 2**40),
    ),
    min_size=2, max_size=12,
)  # fmt: skip


def sealed(records, **how) -> Sealed:
    data = build_batch(records, **how)
    return Sealed(memoryview(data), len(records), len(data))


@example([Record(None, b"v", (), 5)] * 3, None, SEQUENCE_MASK, 0)
@settings(max_examples=40)
@given(
    RECORDS, st.none() | st.integers(1, 600), st.integers(0, SEQUENCE_MASK), st.sampled_from([0, 1])
)
def test_pieces_have_the_records_in_order_and_continue_the_sequence(
    records, bytes_max, sequence, codec
):
    whole = sealed(records, compression=codec, producer_id=9, producer_epoch=2,
                   base_sequence=sequence)  # fmt: skip

    pieces = split(whole, bytes_max)

    found, at = [], sequence
    for piece in pieces:
        header = parse_header(piece.data)
        verify(piece.data, 0, header)
        assert (header.producer_id, header.producer_epoch, header.compression) == (9, 2, codec)
        assert header.base_sequence == at
        at = (at + piece.records) & SEQUENCE_MASK
        found += [(r.key, r.value, tuple(r.headers), r.timestamp_ms)
                  for r in read_records(piece.data)]  # fmt: skip
        assert bytes_max is None or piece.records == 1 or len(piece.data) <= bytes_max
    assert found == [(r.key, r.value, tuple(r.headers), r.timestamp_ms) for r in records]
    assert len(pieces) >= 2


def test_without_a_known_limit_a_batch_is_halved_once():
    pieces = split(sealed([Record(None, b"v", (), 5)] * 5), None)

    assert [piece.records for piece in pieces] == [2, 3]
    assert {parse_header(piece.data).base_sequence for piece in pieces} == {-1}
