"""Columns decoded one by one: each value where it was, whoever decoded it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_arrow.formats.value_by_value import bits, flags, in_slices, one_by_one, with_remaining

KIND = pa.int64()
VALUES = st.lists(st.none() | st.sampled_from([b"1", b"22", b"-3", b"x", b""]), max_size=9)


def read(data: bytes) -> tuple[int | None, str | None]:
    try:
        return int(data), None
    except ValueError:
        return None, f"not a number: {data.decode()}"


def expected(values: list[bytes | None]) -> tuple[list, list]:
    pairs = [(None, None) if value is None else read(value) for value in values]
    return [value for value, _ in pairs], [why for _, why in pairs]


def lists(found) -> tuple[list, list]:
    return found[0].to_pylist(), found[1].to_pylist()


@settings(max_examples=40)
@given(VALUES)
def test_each_value_is_decoded_and_null_stays_null(values):
    column = pa.array(values, pa.binary())

    assert lists(one_by_one(column, read, KIND)) == expected(values)
    assert lists(with_remaining(None, column, read, KIND)) == expected(values)


@settings(max_examples=40)
@given(VALUES, st.data(), st.integers(0, 3))
def test_what_a_kernel_has_decoded_is_not_read_again_and_the_rest_is(values, data, skipped):
    """A part of a longer column, as a slice of a batch is."""
    whole = pa.array([b"9"] * skipped + values, pa.binary())
    column = whole.slice(skipped)
    found, _ = expected(values)
    taken = [value is not None and data.draw(st.booleans()) for value in found]
    plain = pa.array([v if t else None for v, t in zip(found, taken, strict=True)], KIND)
    seen: list[bytes] = []

    def counted(value: bytes) -> tuple[int | None, str | None]:
        seen.append(value)
        return read(value)

    assert lists(with_remaining(plain, column, counted, KIND)) == expected(values)
    assert seen == [v for v, t in zip(values, taken, strict=True) if v is not None and not t]


@settings(max_examples=40)
@given(VALUES, st.integers(1, 4))
def test_slices_make_the_column_that_all_values_together_make(values, rows):
    column = pa.array(values, pa.binary())
    sizes: list[int] = []

    def decode(part):
        sizes.append(len(part))
        return one_by_one(part, read, KIND)

    assert lists(in_slices(column, rows, decode, KIND)) == expected(values)
    assert max(sizes, default=0) <= rows


@settings(max_examples=40)
@given(st.lists(st.booleans(), max_size=20), st.integers(0, 9))
def test_a_bitmap_is_read_from_its_offset_on(values, skipped):
    column = pa.array([True] * skipped + values).slice(skipped)

    if values:
        assert flags(column).tolist() == values


@pytest.mark.parametrize(("first", "count", "found"), [(0, 3, [1, 0, 1]), (1, 9, [0, 1] + [0] * 7)])
def test_bits_come_lowest_first(first, count, found):
    assert bits(np.array([5, 0], np.uint8), first, count).tolist() == found
