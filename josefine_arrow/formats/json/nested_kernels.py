"""The numba kernels that take arrays and maps apart, each element into an object of its own.

An element `e` of an array becomes `{"":e}`, a member `k: e` of a map `{"k":k,"v":e}`, so that the
kernels of objects decode them. The texts are those that `kernels.parse` has accepted.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from numba import njit

from josefine_arrow.batches.memory_access import byte_at, half_at, move_bytes, put_byte, put_half
from josefine_arrow.formats.json.bytes import (
    BACKSLASH,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    OPEN,
    OPEN_LIST,
    QUOTE,
)

ADDED_BYTES = 12
"""An element becomes at most this much longer."""

_SPACE = 32


@njit(cache=True, nogil=True)
def count(data, ends, rows, counts):
    """Put the number of elements of each row's text into `counts` (32 bits); returns their sum. An
    empty text has none. All arguments but `rows` are addresses."""
    total = np.int64(0)
    for row in range(rows):
        pos, end = half_at(ends, row), half_at(ends, row + 1)
        # Counted before anything is written: the caller sizes the outputs by the sum.
        found = np.int64(0)
        # `pos + 1` steps over the opening bracket.
        pos = _element(data, pos + 1, end)
        while pos < end:
            found += 1
            pos = _element(data, _element_end(data, pos, end) + 1, end)
        put_half(counts, row, found)
        total += found
    return total


@njit(cache=True, nogil=True)
def split(data, ends, rows, is_map, out, out_ends):
    """Write the elements' objects to `out`, and the end of each to `out_ends` (32 bits), which
    starts with an entry 0; returns the number of bytes."""
    at, number = np.int64(0), np.int64(0)
    for row in range(rows):
        pos, end = half_at(ends, row), half_at(ends, row + 1)
        pos = _element(data, pos + 1, end)
        while pos < end:
            stop = _element_end(data, pos, end)
            put_byte(out, at, OPEN)
            at += 1
            if is_map:
                # {"k":"key","v":value}: both are copied as they were written.
                key_end = _text_end(data, pos, end)
                at = _put_name(out, at, 107)
                move_bytes(out, at, data, pos, key_end - pos)
                at += key_end - pos
                put_byte(out, at, COMMA)
                at = _put_name(out, at + 1, 118)
                pos = key_end
                # The colon after the key may have white space before it.
                while byte_at(data, pos) != COLON:
                    pos += 1
                pos += 1
            else:
                at = _put_name(out, at, 0)
            # As it was written, white space included: the kernels of objects skip it.
            move_bytes(out, at, data, pos, stop - pos)
            at += stop - pos
            put_byte(out, at, CLOSE)
            at += 1
            number += 1
            put_half(out_ends, number, at)
            pos = _element(data, stop + 1, end)
    return at


@njit(cache=True, nogil=True)
def _put_name(out, at, letter):
    """Write a name of one letter, or of none, and its colon."""
    put_byte(out, at, QUOTE)
    at += 1
    if letter:
        put_byte(out, at, letter)
        at += 1
    put_byte(out, at, QUOTE)
    put_byte(out, at + 1, COLON)
    return at + 2


@njit(cache=True, nogil=True)
def _element(data, pos, end):
    """The start of the next element, or `end` if there is none."""
    # Valid JSON was checked before: bytes up to a space are white space here.
    while pos < end and byte_at(data, pos) <= _SPACE:
        pos += 1
    if pos >= end or byte_at(data, pos) == CLOSE_LIST or byte_at(data, pos) == CLOSE:
        return end
    return pos


@njit(cache=True, nogil=True)
def _element_end(data, pos, end):
    """The position of the comma or bracket after the element at `pos`."""
    depth = 0
    while pos < end:
        byte = byte_at(data, pos)
        # Brackets and commas within a string do not count.
        if byte == QUOTE:
            pos = _text_end(data, pos, end)
            continue
        if byte in (OPEN, OPEN_LIST):
            depth += 1
        elif byte in (CLOSE, CLOSE_LIST):
            # The bracket that closes the array or map itself.
            if depth == 0:
                return pos
            depth -= 1
        elif byte == COMMA and depth == 0:
            return pos
        pos += 1
    return pos


@njit(cache=True, nogil=True)
def _text_end(data, pos, end):
    """The position after the string that starts at `pos`."""
    pos += 1
    while pos < end and byte_at(data, pos) != QUOTE:
        # An escaped quote does not end the string; `\u` needs no more, as its digits are no quotes.
        pos += 2 if byte_at(data, pos) == BACKSLASH else 1
    return pos + 1
