"""The changes that the log cleaner makes to one log, on the log's own thread: replaced segments,
and the offset it reached.

Rules: only full segments with a stored index are replaced, so all replaced data was durable, and
the replacement was synced before; only what the cleaner has read is replaced. The offset a pass
reached is stored after it: an older value, or none, costs another pass, no record.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile

from josefine_broker.base.ports import Files
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.cleaned_sums import BlockSums, store_sums
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.log_sync import LogSync, storage_error
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.log.segment_swap import CLEANED_SUFFIX, begin_swap, end_swap
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
        """None: not read yet."""
        self.cuts = 0
        """Number of truncations: a pass that started earlier does not record the offset it
        reached."""

    @property
    def cleaned_to(self) -> int:
        """The offset that the last pass reached; 0: no pass, or unknown."""
        if self._cleaned_to is None:
            stored = self._state.cleaned_to()
            self._cleaned_to = stored if stored <= self._segments[-1].end_offset else 0
        return self._cleaned_to

    def was_cut_since(self, cuts: int) -> bool:
        """Whether the log was truncated since a pass started at this count."""
        return cuts != self.cuts or bool(self._sync.failure)

    def came_to(self, offset: int, cuts: int) -> bool:
        """A pass that started at this count is over; returns whether its offset is recorded."""
        if self.was_cut_since(cuts):
            return False
        self._cleaned_to = offset
        return True

    def store(self) -> None:
        """Store the offset the last pass reached; on any thread. Raises OSError."""
        with self._sync.lock:
            if not self._sync.failure and self._cleaned_to:
                self._state.store_cleaned_to(self._cleaned_to)

    def cut_to(self, offset: int) -> None:
        """The log is about to be truncated at `offset` or later. Raises OSError."""
        self.cuts += 1
        if self.cleaned_to > offset:
            self._state.forget_cleaned_to()
            self._cleaned_to = offset

    def sealed(self) -> list[Segment]:
        """The full segments, oldest first, that may be cleaned."""
        return list(takewhile(lambda segment: segment.is_sealed, self._segments[:-1]))

    def take_in(
        self,
        cleaned: Segment,
        replaced: Sequence[SegmentSummary],
        cuts: int,
        suffix: str = CLEANED_SUFFIX,
        sums: BlockSums | None = None,
    ) -> bool:
        """Replace segments by the cleaned one made from them, in a pass that started at this count;
        `sums` are the checksums of its file. False when they changed, when the log was truncated
        (the newer record of a removed key may be gone), or when the disk is full; then nothing has
        changed.

        Raises KafkaError(kafka_storage_error); then the log has failed.
        """
        place = self._place_of(replaced)
        if place < 0 or self.was_cut_since(cuts):
            return False
        old = self._segments[place : place + len(replaced)]
        try:
            if not begin_swap(self._files, cleaned.stem, suffix):
                return False
            for each in old:  # before its name is reused
                each.is_replaced = True
            end_swap(self._files, cleaned.stem, [each.stem for each in old[1:]])
        except OSError as error:
            self._sync.fail("a cleaned segment could not be installed", error)
            raise storage_error(self._sync.failure) from error
        for each in old:
            each.close()
        self._segments.replace(place, len(old), cleaned)
        self._sync.sealing.append(cleaned)
        self._schedule(self._sync.seal)
        if sums is not None:
            cleaned.reads.know(sums)
            self._schedule(partial(self._store_sums, cleaned, sums))
        return True

    def _store_sums(self, cleaned: Segment, sums: BlockSums) -> None:
        """Scheduled: the checksums of a segment that is in place, if it is unchanged since."""
        with self._sync.lock:
            is_same = not sums.why_not(cleaned.size_bytes, cleaned.log_crc)
            is_same &= not cleaned.is_replaced
            if not self._sync.failure and is_same and cleaned in self._segments:
                with suppress(OSError):  # without them it is judged by its batches alone
                    store_sums(self._files, cleaned.stem, sums)

    def _place_of(self, replaced: Sequence[SegmentSummary]) -> int:
        """Index of these segments if the log has them unchanged, adjacent and full; otherwise
        -1."""
        place = self._segments.place_of(replaced[0].base_offset)
        if place < 0:
            return -1
        found = self._segments[place:-1][: len(replaced)]
        return place if [each.summary() for each in found] == list(replaced) else -1
