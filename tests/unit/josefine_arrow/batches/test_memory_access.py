"""Memory by address, as numpy sees the same bytes."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from josefine_arrow.batches.memory_access import (
    byte_at,
    cell_at,
    half_at,
    move_bytes,
    put_byte,
    put_cell,
    put_double,
    put_half,
    put_word,
    word_at,
)

WORD = st.integers(-(2**63), 2**63 - 1)
ROOM, COLUMNS = 8, 3


@njit
def write(out, value, number):
    """One of each kind, each into a row of words of its own."""
    put_byte(out, 3, value)
    put_half(out + 8 * ROOM, 3, value)
    put_word(out + 16 * ROOM, 3, value)
    put_double(out + 24 * ROOM, 3, number)
    put_cell(out + 32 * ROOM, 1, COLUMNS, 2, value)
    move_bytes(out + 40 * ROOM, 1, out + 16 * ROOM, 3 * 8, 8)


@njit
def read(at, position):
    return (
        byte_at(at, position), half_at(at, position), word_at(at, position),
        cell_at(at, 1, COLUMNS, position),
    )  # fmt: skip


@settings(max_examples=20)
@given(WORD, st.floats(allow_nan=False))
def test_what_is_written_is_cut_to_its_width_and_nothing_else_is_touched(value, number):
    memory = np.zeros((6, 8), np.int64)

    write(memory.ctypes.data, value, number)

    raw = [row.tobytes() for row in memory]
    word = np.int64(value).tobytes()
    assert raw[0] == bytes(3) + word[:1] + bytes(60)
    assert raw[1] == bytes(12) + word[:4] + bytes(48)
    assert raw[2] == bytes(24) + word + bytes(32)
    assert raw[3] == bytes(24) + np.float64(number).tobytes() + bytes(32)
    assert memory[4].tolist() == [0] * 5 + [value] + [0] * 2
    assert raw[5] == bytes(1) + word + bytes(55)


@settings(max_examples=20)
@given(st.lists(WORD, min_size=8, max_size=8), st.integers(0, 3))
def test_bytes_have_no_sign_and_wider_numbers_have_one(words, position):
    memory = np.array(words, np.int64)

    assert read(memory.ctypes.data, position) == (
        memory.view(np.uint8)[position], memory.view(np.int32)[position], words[position],
        words[COLUMNS + position],
    )  # fmt: skip
