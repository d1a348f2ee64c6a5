"""What earlier reads of a segment found: positions of offsets, and byte ranges that were verified.

Rules: both only save work, and may be forgotten at any time. A read verifies the checksum of each
batch that is not in these ranges, and adds them. A truncation forgets everything; so does a segment
that cools, so that cold data is verified again before it is delivered. The number of ranges is
bounded.
"""

from bisect import bisect_right

HINTS_MAX = 16
"""Cached end positions of recent readers, so that sequential reads need no search."""

RANGES_MAX = 64
"""Ranges of one segment. Sequential readers need one each."""


class ReadState:
    """The verified ranges are disjoint and ascending; positions in bytes, ends exclusive."""

    __slots__ = ("_ends", "_starts", "bytes_verified", "hints", "may_have_holes")

    def __init__(self) -> None:
        self.hints: dict[int, int] = {}
        """Positions of the batches with these offsets."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.bytes_verified = 0
        """Counted since the segment was opened; never reset."""
        self.may_have_holes = True
        """Whether batches may lack offsets between them: only compaction leaves such holes."""

    def covers(self, start: int, end: int) -> bool:
        """Whether all of [start, end) was verified."""
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at]

    def add(self, start: int, end: int) -> None:
        """All of [start, end) is verified now; ranges that touch are joined."""
        if start >= end:
            return
        self.bytes_verified += end - start
        starts, ends = self._starts, self._ends
        first = bisect_right(starts, start) - 1
        if first < 0 or ends[first] < start:
            first += 1
        last = bisect_right(starts, end)
        # Ranges first to last overlap or touch the new one, and become part of it.
        if first < last:
            start, end = min(start, starts[first]), max(end, ends[last - 1])
        starts[first:last], ends[first:last] = [start], [end]
        if len(starts) > RANGES_MAX:
            starts.pop(0)
            ends.pop(0)

    def hint(self, offset: int, position: int) -> None:
        """The batch with this offset starts there."""
        if len(self.hints) >= HINTS_MAX:
            self.hints.clear()
        self.hints[offset] = position

    def forget(self) -> None:
        """Search and verify everything again."""
        self.hints.clear()
        self._starts.clear()
        self._ends.clear()
