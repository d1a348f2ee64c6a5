"""What the log cleaner changes in one log, on the log's own thread: whole segments, and how far it
came.

Rules: only full segments whose index is stored give way, so all that is replaced was durable, and
what replaces it was synced before; nothing is replaced that is not what the cleaner has read. How
far a pass came is stored behind it: an older word, or none, costs another look, no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile

from josefine_broker.base.ports import Files
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.log_sync import LogSync, storage_error
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.log.segment_swap import begin_swap, end_swap
from josefine_broker.host.log.segments import SegmentList


class LogCleaning:
    """See the module. A part of its `PartitionLog`, whose segments it shares."""

    __slots__ = (
        "_cleaned_to", "_files", "_schedule", "_segments", "_state", "_sync", "cuts",
    )  # fmt: skip

    def __init__(
        self,
        files: Files,
        state: LogState,
        sync: LogSync,
        segments: SegmentList,
        schedule: Callable[[Job], None],
    ) -> None:
        self._files = files
        self._state = state
        self._sync = sync
        self._segments = segments
        self._schedule = schedule
        self._cleaned_to: int | None = None
        """None: not asked for yet."""
        self.cuts = 0
        """So often the log was cut: a pass that began before does not say how far it came."""

    @property
    def cleaned_to(self) -> int:
        """The offset that the last pass came to; 0: none did, or nobody knows."""
        if self._cleaned_to is None:
            stored = self._state.cleaned_to()
            self._cleaned_to = stored if stored <= self._segments[-1].end_offset else 0
        return self._cleaned_to

    def was_cut_since(self, cuts: int) -> bool:
        """Whether what a pass reads that began after so many cuts is not the log any more."""
        return cuts != self.cuts or bool(self._sync.failure)

    def came_to(self, offset: int, cuts: int) -> bool:
        """A pass that began after so many cuts is over; whether it tells how far it came."""
        if self.was_cut_since(cuts):
            return False
        self._cleaned_to = offset
        return True

    def store(self) -> None:
        """How far the last pass came; on any thread. Raises OSError."""
        with self._sync.lock:
            if not self._sync.failure and self._cleaned_to:
                self._state.store_cleaned_to(self._cleaned_to)

    def cut_to(self, offset: int) -> None:
        """The log is going to be cut there, or behind. Raises OSError."""
        self.cuts += 1
        if self.cleaned_to > offset:
            self._state.forget_cleaned_to()
            self._cleaned_to = offset

    def sealed(self) -> list[Segment]:
        """The full segments, oldest first, that may be cleaned."""
        return list(takewhile(lambda segment: segment.is_sealed, self._segments[:-1]))

    def take_in(self, cleaned: Segment, replaced: Sequence[SegmentSummary], cuts: int) -> bool:
        """Put a cleaned segment in the place of those it was made from, by a pass that began after
        so many cuts. False where these are not what they were, where the log was cut (then what
        replaced a record may be gone), or the disk has no room; then nothing has changed.

        Raises KafkaError(kafka_storage_error), and then the log has failed.
        """
        place = self._place_of(replaced)
        if place < 0 or self.was_cut_since(cuts):
            return False
        old = self._segments[place : place + len(replaced)]
        try:
            if not begin_swap(self._files, cleaned.stem):
                return False
            for each in old:  # before its name is another's
                each.is_replaced = True
            end_swap(self._files, cleaned.stem, [each.stem for each in old[1:]])
        except OSError as error:
            self._sync.fail("a cleaned segment was not put in its place", error)
            raise storage_error(self._sync.failure) from error
        for each in old:
            each.close()
        self._segments.replace(place, len(old), cleaned)
        self._sync.sealing.append(cleaned)
        self._schedule(self._sync.seal)
        return True

    def _place_of(self, replaced: Sequence[SegmentSummary]) -> int:
        """Where the log has these, as they were, one behind the other, and full; -1: it has not."""
        place = self._segments.place_of(replaced[0].base_offset)
        if place < 0:
            return -1
        found = self._segments[place:-1][: len(replaced)]
        return place if [each.summary() for each in found] == list(replaced) else -1
