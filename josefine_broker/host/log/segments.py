"""The segments of one log in offset order, with the set of full ones that stay open for reads.

A list, so that the data path reads its last segment fast; only the methods here change it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

from josefine_broker.host.log.segment import Segment

WARM_SEGMENTS_MAX = 2
"""Sealed segments of one log that keep their file descriptor and index between reads."""


class SegmentList(list[Segment]):
    """See the module. The caller that removes a segment also removes its files."""

    __slots__ = ("_warm", "base_offsets")

    def __init__(self, segments: Iterable[Segment]) -> None:
        super().__init__(segments)
        self.base_offsets = [segment.base_offset for segment in self]
        self._warm: list[Segment] = []

    def place_of(self, offset: int) -> int:
        """Index of the segment that contains the offset; past the end, of the last one."""
        return bisect_right(self.base_offsets, offset) - 1

    def add(self, segment: Segment) -> None:
        self.append(segment)
        self.base_offsets.append(segment.base_offset)

    def remove_at(self, place: int) -> Segment:
        segment = self.pop(place)
        self.base_offsets.pop(place)
        self.forget(segment)
        return segment

    def replace(self, place: int, count: int, by: Segment) -> None:
        """Replace these segments by one that covers them."""
        for segment in self[place : place + count]:
            self.forget(segment)
        self[place : place + count] = [by]
        self.base_offsets[place : place + count] = [by.base_offset]

    def begin_anew(self, first: Segment) -> None:
        """Replace all segments by this one."""
        self[:], self.base_offsets[:] = [first], [first.base_offset]
        self._warm.clear()

    def keep_warm(self, segment: Segment, but_not: Collection[Segment]) -> None:
        """Note a read of this segment: others may cool, but not those in `but_not`, whose index is
        not stored yet."""
        warm = self._warm
        if warm and warm[-1] is segment:
            return
        if segment in warm:
            warm.remove(segment)
        warm.append(segment)
        for cold in warm[:-WARM_SEGMENTS_MAX]:
            if cold not in but_not:
                warm.remove(cold)
                cold.cool()

    def forget(self, segment: Segment) -> None:
        """The segment is no longer warm."""
        if segment in self._warm:
            self._warm.remove(segment)
