"""A cursor in many records: numbers and bytes against the reader of single values, and ends."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from josefine_arrow.formats.avro.column_reader import columns_reader
from josefine_arrow.formats.avro.cursor import Cursor, gathered
from josefine_arrow.formats.avro.decoder import arrow_of
from josefine_arrow.formats.avro.primitives import AvroError, long_at
from josefine_arrow.formats.avro.schema import parse


def cursor_of(records: list[bytes]) -> Cursor:
    sizes = np.array([len(record) for record in records], np.int64)
    end = np.cumsum(sizes)
    # One more byte, as a column is never empty.
    return Cursor(np.frombuffer(b"".join(records) + b"\0", np.uint8), end - sizes, end)


@given(st.lists(st.binary(max_size=12), min_size=1, max_size=8))
def test_a_number_is_that_of_the_reader_of_single_values_or_left_to_it(
    records: list[bytes],
) -> None:
    cursor = cursor_of(records)
    first = cursor.at.copy()
    found = cursor.long()

    for at, record in enumerate(records):
        expected = None
        with suppress(AvroError, IndexError):
            expected = long_at(record, 0)
        if cursor.good[at]:
            assert expected == (found[at], cursor.at[at] - first[at])
        else:
            assert expected is None or not -(2**63) <= expected[0] < 2**63


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=5))
def test_sized_bytes_end_within_their_record(records: list[bytes]) -> None:
    cursor = cursor_of([bytes([2 * len(record)]) + record for record in records])
    texts, ends = gathered(cursor.data, *cursor.span())

    assert cursor.good.all()
    assert [texts[a:b].tobytes() for a, b in pairwise(ends)] == records
    short = cursor_of([bytes([2 * len(record) + 2]) + record for record in records])
    short.span()
    assert not short.good.any()


def test_long_texts_take_no_position_for_each_byte() -> None:
    start, size = np.array([7, 1_000_000, 3]), np.array([500_000, 0, 499_999])
    data = np.arange(1_000_000, dtype=np.uint8)
    tracemalloc.start()

    texts, ends = gathered(data, start, size)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert texts.tobytes() == data[7:500_007].tobytes() + data[3:500_002].tobytes()
    assert ends.tolist() == [0, 500_000, 500_000, 999_999]
    assert peak < 3 * len(data)


def test_a_schema_with_an_array_is_left_to_the_reader_of_single_values() -> None:
    plain = parse('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}')
    array = parse(
        '{"type": "record", "name": "R", "fields": '
        '[{"name": "a", "type": {"type": "array", "items": "int"}}]}'
    )

    assert columns_reader(plain, plain, arrow_of) is not None
    assert columns_reader(array, array, arrow_of) is None
