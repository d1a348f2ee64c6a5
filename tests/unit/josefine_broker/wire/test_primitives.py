"""Kafka's primitive types at their edges."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial import readers

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import primitives as p
from tests.unit.josefine_broker.wire.kio_entities import int_of


@given(st.integers(0, 2**31 - 1))
def test_varint_equals_kio(value: int) -> None:
    raw = p.varint(value)

    assert p.read_varint(raw, 0) == (value, len(raw))
    assert readers.read_unsigned_varint(raw, 0) == (value, len(raw))


@pytest.mark.parametrize("raw", [b"\xff\xff\xff\xff\x7f", b"\x80" * 6, b"\xff\xff\xff\xff\xff\x01"])
def test_varint_of_more_than_32_bits_is_corrupt_data(raw: bytes) -> None:
    with pytest.raises(CorruptData):
        p.read_varint(raw, 0)


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (p.read_count, b"\x00\x00\x00\x03ab"),
        (p.read_count, b"\xff\xff\xff\xff"),
        (p.read_nullable_count, b"\x7f\xff\xff\xffab"),
        (p.read_nullable_count, b"\xff\xff\xff\xfe"),
        (p.read_compact_count, b"\x04ab"),
        (p.read_compact_count, b"\x00"),
        (p.read_nullable_compact_count, b"\xff\xff\xff\xff\x0f"),
    ],
)
def test_a_count_larger_than_the_bytes_that_remain_is_corrupt_data(
    read: p.Reader, raw: bytes
) -> None:
    with pytest.raises(CorruptData):
        read(raw, 0)


@pytest.mark.parametrize(
    ("read", "raw"),
    [
        (p.read_nullable_string, b"\xff\xfe"),
        (p.read_string, b"\xff\xff"),
        (p.read_compact_string, b"\x00"),
        (p.read_compact_string, b"\x03a"),
        (p.read_string, b"\x00\x02\xc3\x28"),
        (p.read_uuid, b"\x01" * 15),
    ],
)
def test_a_string_or_id_that_is_not_there_is_corrupt_data(read: p.Reader, raw: bytes) -> None:
    with pytest.raises((CorruptData, *p.MALFORMED)):
        read(raw, 0)


def test_a_string_is_no_longer_than_kafkas_are_in_either_form() -> None:
    """What int16 lengths bound by themselves: a group id of 33,000 bytes has no place in the
    offsets topic."""
    longest = "x" * 32_767
    for text, is_read in ((longest, True), (longest + "x", False)):
        out = bytearray()
        p.write_compact_string(out, text)
        if is_read:
            assert p.read_compact_string(out, 0) == (text, len(out))
            continue
        for read in (p.read_compact_string, p.read_nullable_compact_string):
            with pytest.raises(CorruptData, match="32768 bytes"):
                read(out, 0)


@given(int_of(64), st.text(max_size=300))
def test_ints_and_strings_come_back(number: int, text: str) -> None:
    out = bytearray()
    p.write_int64(out, number)
    p.write_compact_string(out, text)
    p.write_string(out, text)

    value, pos = p.read_int64(out, 0)
    compact, pos = p.read_compact_string(out, pos)
    legacy, pos = p.read_string(out, pos)

    assert (value, compact, legacy, pos) == (number, text, text, len(out))


def test_skipping_tags_needs_them_whole() -> None:
    assert p.skip_tags(b"\x01\x05\x02ab", 0) == 5
    with pytest.raises(CorruptData):
        p.skip_tags(b"\x01\x05\x03ab", 0)
    with pytest.raises(IndexError):
        p.skip_tags(b"\x02\x05\x02ab", 0)


def test_zero_is_no_uuid() -> None:
    out = bytearray()
    p.write_uuid(out, None)

    assert out == bytes(16)
    assert p.read_uuid(out, 0) == (None, 16)
