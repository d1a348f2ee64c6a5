"""What earlier reads of a segment found: positions of offsets, and byte ranges that were verified.

Rules: both only save work, and may be forgotten at any time. A read verifies the checksum of each
batch that is not in these ranges, and adds them. A truncation forgets everything; so does a segment
that cools, so that cold data is verified again before it is delivered. The number of ranges is
bounded.
"""

from __future__ import annotations

from bisect import bisect_right

from josefine_broker.base.ports import File, Files
from josefine_broker.host.log.cleaned_sums import BlockSums, load_sums

HINTS_MAX = 16
"""Cached end positions of recent readers, so that sequential reads need no search."""

RANGES_MAX = 64
"""Ranges of one segment. Sequential readers need one each."""


class ReadState:
    """The verified ranges are disjoint and ascending; positions in bytes, ends exclusive."""

    __slots__ = (
        "_ends", "_starts", "bytes_verified", "hints", "is_asked", "may_have_holes", "sums",
    )  # fmt: skip

    def __init__(self) -> None:
        self.hints: dict[int, int] = {}
        """Positions of the batches with these offsets."""
        self._starts: list[int] = []
        self._ends: list[int] = []
        self.bytes_verified = 0
        """Counted since the segment was opened; never reset."""
        self.may_have_holes = True
        """Whether batches may lack offsets between them: only compaction leaves such holes."""
        self.is_asked = False
        """Whether the checksums of what the cleaner wrote were looked for."""
        self.sums: BlockSums | None = None
        """Those of this segment's content, if it has some."""

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
        self.is_asked, self.sums = False, None

    def know(self, sums: BlockSums) -> None:
        """The checksums of what was just written, before they are in their file."""
        self.is_asked, self.sums = True, sums

    def first_bad(
        self, files: Files, stem: str, file: File, log_bytes: int, start: int, end: int
    ) -> int:
        """Where the first block within [start, end) of a segment of this size starts that is not
        as the cleaner wrote it; `end`: all are, or nothing is known of them. Raises OSError."""
        if not self.may_have_holes:
            return end  # its neighbours confirm each base offset
        if not self.is_asked:
            self.is_asked, self.sums = True, load_sums(files, stem, log_bytes)
        found = None if self.sums is None else self.sums.first_bad(file, start, end)
        return end if found is None else found
