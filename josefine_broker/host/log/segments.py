"""The segments of one log in offset order, and which full ones keep a descriptor and their index.

A list, so that the data path reads its last segment as fast as one; it is changed by the methods
here alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable

from josefine_broker.host.log.segment import Segment

WARM_SEGMENTS_MAX = 2
"""Sealed segments of one log that keep their file descriptor and index between reads."""


class SegmentList(list[Segment]):
    """See the module. Whoever removes a segment sees to its files."""

    __slots__ = ("_warm", "base_offsets")

    def __init__(self, segments: Iterable[Segment]) -> None:
        super().__init__(segments)
        self.base_offsets = [segment.base_offset for segment in self]
        self._warm: list[Segment] = []

    def place_of(self, offset: int) -> int:
        """The place of the segment that holds it; past the end, the last one's."""
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
        """These give way to one that reaches as far."""
        for segment in self[place : place + count]:
            self.forget(segment)
        self[place : place + count] = [by]
        self.base_offsets[place : place + count] = [by.base_offset]

    def begin_anew(self, first: Segment) -> None:
        """With this one alone."""
        self[:], self.base_offsets[:] = [first], [first.base_offset]
        self._warm.clear()

    def keep_warm(self, segment: Segment, but_not: Collection[Segment]) -> None:
        """It is read from: others may cool, `but_not` these, whose index is not stored yet."""
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
        """It is not warm any more."""
        if segment in self._warm:
            self._warm.remove(segment)
