"""The produce path's one-pass check agrees with the checks that say what is wrong."""

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.records.batch import (
    CRC_START,
    HEADER_BYTES,
    check_produced,
    is_sound,
    parse_header,
    verify,
)
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.crc import crc32c

RECORDS = [Record(key=b"k", value=b"v" * 20, headers=(), timestamp_ms=1000)] * 3


def refused(batch: memoryview) -> bool:
    """By the checks that explain, as `engine/replicas/batches.py` applies them."""
    header = parse_header(batch)
    if len(batch) != header.size_bytes:
        return True
    try:
        verify(batch, 0, header)
        check_produced(header)
    except (CorruptData, KafkaError):
        return True
    return False


@settings(max_examples=400, deadline=None)
@given(
    st.integers(0, HEADER_BYTES - 1),
    st.integers(0, 255),
    st.booleans(),
    st.sampled_from([(-1, -1), (7, 0)]),
)
def test_a_batch_is_sound_exactly_when_no_other_check_refuses_it(
    position: int, value: int, right_crc: bool, producer: tuple[int, int]
) -> None:
    producer_id, sequence = producer
    batch = bytearray(build_batch(RECORDS, producer_id=producer_id, base_sequence=sequence))
    batch[position] = value
    if right_crc:
        struct.pack_into(">I", batch, 17, crc32c(memoryview(batch)[CRC_START:]))

    view = memoryview(batch)

    assert is_sound(view, parse_header(view)) is not refused(view)


def test_a_batch_as_built_is_sound() -> None:
    view = memoryview(build_batch(RECORDS))

    assert is_sound(view, parse_header(view))
    assert not is_sound(memoryview(bytes(view) + b"\x00"), parse_header(view))
