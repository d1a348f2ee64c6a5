"""The numba kernel that makes JSON objects of plain CSV lines, for the kernels of JSON to decode.

A line without quotes, backslashes and control characters becomes `{"0":1,"1":"text"}`: a member for
each field that is not empty, named by its position. Any other line becomes an empty text, which no
kernel decodes. Whether a field fits its type is left to the kernels of JSON.
"""
# mypy: ignore-errors
# numba infers the types of these functions at the first call; Python annotations have no effect.

import numpy as np
from numba import njit

from josefine_arrow.batches.memory_access import byte_at, half_at, move_bytes, put_byte, put_half
from josefine_arrow.formats.json.bytes import (
    BACKSLASH,
    CLOSE,
    COLON,
    COMMA,
    MINUS,
    NINE,
    OPEN,
    QUOTE,
    ZERO,
)

TEXT, NUMBER, BOOLEAN = range(3)
"""Kinds of a field: what its value looks like in JSON."""

FIELDS_MAX = 1000
ADDED_BYTES = 9
"""A field becomes at most this much longer: `,"999":` and two quotes."""

_LINE_FEED, _RETURN, _TRUE, _FALSE = 10, 13, 116, 102


@njit(cache=True, nogil=True)
def to_objects(data, ends, rows, separator, kinds, fields, out, out_ends):
    """Write the objects to `out`, and the end of each to `out_ends` (32 bits), which starts with an
    entry 0. `kinds` has a byte per field; all arguments but numbers are addresses."""
    at = np.int64(0)
    for row in range(rows):
        pos, end = half_at(ends, row), half_at(ends, row + 1)
        if end > pos and byte_at(data, end - 1) == _LINE_FEED:
            end -= 1
            if end > pos and byte_at(data, end - 1) == _RETURN:
                end -= 1
        stop = _line(data, pos, end, separator, kinds, fields, out, at)
        at = stop if stop >= 0 else at
        put_half(out_ends, row + 1, at)


@njit(cache=True, nogil=True)
def _line(data, pos, end, separator, kinds, fields, out, at):
    """Write the object of one line; its end in `out`, -1 if the line is not plain."""
    if pos >= end:
        return -1
    put_byte(out, at, OPEN)
    at += 1
    members = 0
    for field in range(fields):
        start = pos
        while pos < end and byte_at(data, pos) != separator:
            byte = byte_at(data, pos)
            if byte < 32 or byte in (QUOTE, BACKSLASH):
                return -1
            pos += 1
        # The last field ends the line, and no other one does.
        if (field == fields - 1) != (pos >= end):
            return -1
        size = pos - start
        pos += 1
        if size == 0:
            continue
        kind, first = byte_at(kinds, field), byte_at(data, start)
        if kind == NUMBER and not (first == MINUS or ZERO <= first <= NINE):
            return -1
        if kind == BOOLEAN and first != _TRUE and first != _FALSE:
            return -1
        at = _member(out, at, members, field)
        members += 1
        if kind == TEXT:
            put_byte(out, at, QUOTE)
            at += 1
        move_bytes(out, at, data, start, size)
        at += size
        if kind == TEXT:
            put_byte(out, at, QUOTE)
            at += 1
    put_byte(out, at, CLOSE)
    return at + 1


@njit(cache=True, nogil=True)
def _member(out, at, members, field):
    """Write a comma if it is not the first member, the name and its colon."""
    if members:
        put_byte(out, at, COMMA)
        at += 1
    put_byte(out, at, QUOTE)
    at += 1
    unit = 100 if field > 99 else 10 if field > 9 else 1
    while unit:
        put_byte(out, at, ZERO + (field // unit) % 10)
        at += 1
        unit //= 10
    put_byte(out, at, QUOTE)
    put_byte(out, at + 1, COLON)
    return at + 2
