"""A cursor in many records at once: reads one Avro value of each record with numpy.

A record that ends too early, or has a value beyond its type, is marked as not `good`; its further
values mean nothing. No bytes outside of the column are read: positions are bounded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_VARINT_BITS = 63
"""The shift of a varint's last byte, of which one bit counts."""
_LONG_BYTES = 128
"""Spans of more bytes on average are sliced one by one, without a position for each byte."""


class Cursor:
    """Mutable: `at`, the next byte of each record, and `good`. `data`: the bytes of the column;
    `end`: the end of each record in it."""

    def __init__(self, data: Any, at: Any, end: Any) -> None:
        self.data, self.at, self.end = data, at, end
        self.good = np.ones(len(at), bool)
        self._last = len(data) - 1

    def __len__(self) -> int:
        return len(self.at)

    def part(self, rows: Any) -> Cursor:
        """A cursor for some of the records; `join` takes its result back."""
        found = Cursor(self.data, self.at[rows], self.end[rows])
        found.good = self.good[rows]
        return found

    def join(self, rows: Any, part: Cursor) -> None:
        """Continue these records where `part` has ended."""
        self.at[rows], self.good[rows] = part.at, part.good

    def bytes(self, size: int) -> Any:
        """The next bytes of each record: a row of `size` bytes for each."""
        self.good &= self.at + size <= self.end
        places = self.at[:, None] + np.arange(size)
        self.at = self.at + size
        return self.data[np.minimum(places, self._last)]

    def byte(self) -> Any:
        """The next byte of each record."""
        self.good &= self.at < self.end
        found = self.data[np.minimum(self.at, self._last)]
        self.at = self.at + 1
        return found

    def long(self) -> Any:
        """A zigzag varint of each record, seven bits per byte, as 64 bits."""
        first = self.byte()
        value = (first & 0x7F).astype(np.uint64)
        more, shift = np.flatnonzero(first & 0x80), 7
        while len(more):
            if shift > _VARINT_BITS:
                self.good[more] = False
                break
            at = self.at[more]
            self.good[more] &= at < self.end[more]
            found = self.data[np.minimum(at, self._last)]
            self.at[more] = at + 1
            bits = (found & 0x7F).astype(np.uint64)
            if shift == _VARINT_BITS:
                self.good[more] &= bits <= 1
            value[more] |= bits << np.uint64(shift)
            more, shift = more[found & 0x80 != 0], shift + 7
        sign = (value & np.uint64(1)).astype(np.int64)
        return (value >> np.uint64(1)).astype(np.int64) ^ -sign

    def span(self) -> tuple[Any, Any]:
        """(start, size) of the sized bytes of each record; of a bad one no bytes."""
        size = self.long()
        self.good &= (size >= 0) & (size <= self.end - self.at)
        size = np.where(self.good, size, 0)
        start = self.at
        self.at = start + size
        return start, size


def gathered(data: Any, start: Any, size: Any) -> tuple[Any, Any]:
    """(the bytes of all spans one after another, the ends with a 0 before them), of less than 2
    GiB."""
    ends = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=ends[1:])
    if ends[-1] > _LONG_BYTES * len(size):
        view = memoryview(data)
        spans = zip(start.tolist(), (start + size).tolist(), strict=True)
        joined = b"".join([view[first:end] for first, end in spans])
        return np.frombuffer(joined, np.uint8), ends.astype(np.int32)
    places = np.repeat(start - ends[:-1], size) + np.arange(ends[-1])
    return data[places], ends.astype(np.int32)
