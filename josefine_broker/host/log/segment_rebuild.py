"""An intact copy of a damaged segment: its own intact batches, and those of other replicas.

Rules: a batch counts as intact by its checksum, its base offset (it continues the previous batch)
and its leader epoch (the one that wrote that offset); the checksum covers neither of the last two.
Batches of other replicas are examined like our own, also when they arrive. Where ours continue
after a fetched batch they are used again, so that only what is damaged here is fetched.

The copy is a new file, `<base>.log.repaired`. It counts once it is synced and renamed, by the same
steps as a cleaned segment (`segment_swap.py`): a crash before leaves the damaged segment as it was.
At the end the checksum over all bytes must be the one that the appends have left. If it is not, one
batch is wrong although it looks intact: then every batch is fetched, and our own is only used where
no replica has another.

One piece of work at a time uses it, on any thread; `install` runs on the log's own thread.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.ports import Files
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.damaged_segment import DamagedSegment
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.segment import Segment
from josefine_broker.host.log.segment_copy import SegmentCopy
from josefine_broker.host.log.segment_swap import REPAIRED_SUFFIX
from josefine_broker.records.batch import (
    NO_LEADER_EPOCH,
    BatchHeader,
    build_empty_batch,
    iter_batches,
    parse_header,
    verify,
)
from josefine_broker.records.crc import Buffer

BATCHES_PER_BREATH = 256


class SegmentRebuild:
    """See the module. Implements `engine.partition.repair.ports.RebuildPort`."""

    def __init__(
        self,
        files: Files,
        log: PartitionLog,
        segment: Segment,
        epochs: LeaderEpochs,
        *,
        is_checksum_known: bool = True,
        may_differ: bool = False,
        epoch_before: int | None = None,
    ) -> None:
        """On the log's own thread: takes what it needs of the log as values."""
        self._log = log
        self._cuts = log.cleaning.cuts
        self._expected: SegmentSummary = segment.summary()
        self._epochs = LeaderEpochs(epochs.starts)
        self._source = DamagedSegment(files, segment, has_holes=log.config.may_have_holes)
        self._target = SegmentCopy(files, segment, log.config.index_interval_bytes)
        self._is_checksum_known = is_checksum_known
        self._may_differ = may_differ
        """What the other replicas have may be right although it does not have our checksum: this
        log may differ from its leader's."""
        self._epoch_before = epoch_before
        """Of our batch before this segment, where that may be of a leader who lost."""
        self._distrusts = False
        """Our own batches are only used where no replica has others."""
        self.is_misfit = False
        self.bytes_fetched = 0

    @property
    def end_offset(self) -> int:
        """Of the segment."""
        return self._expected.end_offset

    @property
    def cursor(self) -> int:
        """All batches below it are in the copy."""
        return self._target.segment.end_offset

    @property
    def wanted(self) -> int:
        """The first offset that is missing in the copy, and was not deleted."""
        return max(self.cursor, min(self._log.log_start_offset, self.end_offset - 1))

    @property
    def progress(self) -> tuple[bool, int]:
        """See `RebuildPort`."""
        return self._distrusts, self.wanted

    @property
    def has_ours(self) -> bool:
        """See `RebuildPort`."""
        with suppress(OSError):  # then it counts as damaged
            return not self._distrusts and self._ours() is not None
        return False

    def copy(self, breathe: Callable[[], None]) -> int | None:
        """Copy our own batches while they are intact; returns the first offset that has to be
        fetched, None at the end of the segment. Raises OSError, CorruptData."""
        self._source.open()  # on the thread that reads it
        self._target.open()
        count = 0
        while self.cursor < self.end_offset:
            batch = None if self._distrusts else self._ours() or self._ours_at_start()
            # No checksum covers its epoch: that of our last batch may have flipped upwards.
            if batch is None or self._starts_epoch(parse_header(batch)):
                return self.wanted
            self._take(batch)
            count += 1
            if count % BATCHES_PER_BREATH == 0:
                breathe()
        return None

    def supply(self, records: Buffer) -> None:
        """Batches of another replica, from `wanted`. Raises CorruptData for a batch that does not
        belong there; the ones before it are used."""
        data, self.is_misfit = memoryview(records), False
        for pos, header in iter_batches(data):
            batch = data[pos : pos + header.size_bytes]
            if header.last_offset < self.wanted:
                continue  # the answer starts with the batch that contains the offset
            if header.base_offset >= self.end_offset:
                self._fill(self.end_offset)  # compaction left nothing there
                return
            verify(batch, 0, header)
            if self.cursor < header.base_offset <= self._log.log_start_offset:
                self._fill(header.base_offset, header.leader_epoch)  # deleted records
            if header.base_offset < self.cursor and not self._distrusts:
                # Batches overlap: one of ours only looked intact, with a damaged offset.
                self._start_again()
                return
            before = self._target.segment
            self.is_misfit = self._is_after_another_leaders(header)
            if self.is_misfit:
                raise CorruptData(
                    f"after a batch of epoch {self._epoch_before}: a leader who lost?"
                )
            is_older = header.leader_epoch < before.last_leader_epoch
            # The first of a later leader proves nothing about ours before it: they may be another
            # leader's, who lost. A log that ends in the later epoch would look like its own. If
            # this batch is ours, too, both logs are equal before it.
            is_newer = self._starts_epoch(header) and not self._is_ours(header)
            if (is_older or is_newer) and not self._distrusts:
                # Epochs never fall: one of ours only looked intact, with a damaged epoch.
                self._start_again()
                return
            self.is_misfit = not self._fits(header)
            if self.is_misfit:
                raise CorruptData(f"{header} of the other replica does not fit at {self.cursor}")
            self._take(batch)
            self.bytes_fetched += len(batch)
            # Records were given up there: the checksum of our segment was of the records.
            self._target.was_filled |= not header.record_count
            if not self._distrusts and self._ours() is not None:
                return

    def _starts_epoch(self, header: BatchHeader) -> bool:
        """Whether this batch is the first of a later epoch, in a log whose epochs are unknown."""
        made = self._target.segment
        return self._may_differ and -1 < made.last_leader_epoch < header.leader_epoch

    def _is_ours(self, header: BatchHeader) -> bool:
        """Whether our batch at the end of the copy is intact, and the same."""
        ours = self._ours()
        return ours is not None and parse_header(ours) == header

    def _is_after_another_leaders(self, header: BatchHeader) -> bool:
        """Whether a batch for the start of the segment proves nothing about ours before it."""
        before = self._epoch_before
        is_first = not self._target.segment.size_bytes
        return is_first and before is not None and header.leader_epoch > before

    def keep_ours(self) -> bool:
        """No replica has the next batch: use our own if at least its checksum is right."""
        batch = self._source.batch_at(self.cursor, self._fits, is_last_resort=True)
        if batch is not None:
            self._take(batch)
        return batch is not None

    def give_up(self) -> None:
        """The operator accepted the loss of the record at `wanted`: a batch without records takes
        its place. One offset at a time: another replica may have the next one."""
        self._fill(self.wanted + 1)

    def next_intact(self) -> int:
        """The offset at which our own batches continue after the damaged ones."""
        header = self._source.next_header(self.wanted)
        return self.end_offset if header is None else min(header.base_offset, self.end_offset)

    def finish(self) -> bool:
        """Make the copy durable; False: it starts again, and trusts our own batches less. Raises
        CorruptData, OSError."""
        found, expected = self._target.segment.summary(), self._expected
        written = self._source.sums
        log_crc = expected.log_crc if written is None else written.log_crc
        may_differ = (
            not self._is_checksum_known
            or self._target.was_filled
            or (self._source.has_holes and self.bytes_fetched > 0)
        )
        if found.log_crc != log_crc and not may_differ:
            if self._distrusts and not self._may_differ:
                raise CorruptData(
                    f"the batches of the other replicas do not have the checksum "
                    f"{log_crc:08x} of this segment"
                )
            if not self._distrusts:
                self._start_again()
                return False
        self._target.finish(expected)
        return True

    def _start_again(self) -> None:
        """Trust our own batches less: one of them is wrong although it looks intact."""
        self._distrusts = True
        self._target.restart()
        self._source.restart()

    def install(self) -> bool:
        """On the log's own thread: swap the copy in. False: the log has changed meanwhile. Raises
        KafkaError(kafka_storage_error)."""
        cleaning, target = self._log.cleaning, self._target
        sums = target.sums.sums() if self._source.has_holes else None
        replaced = [self._expected]
        if not cleaning.take_in(target.segment, replaced, self._cuts, REPAIRED_SUFFIX, sums):
            return False
        self._log.damage.forget(self._expected.base_offset)
        if not self._log.damage.found:
            self._log.state.synced.is_held = False
        target.is_installed = True
        return True

    def close(self) -> None:
        """Release the files; a copy that was not installed is removed."""
        self._source.close()
        self._target.close()

    def _ours(self) -> memoryview | None:
        return self._source.batch_at(self.cursor, self._fits)

    def _ours_at_start(self) -> memoryview | None:
        """Damage among deleted records hides our first batch that is not deleted."""
        if not self.cursor < self._log.log_start_offset < self.end_offset:
            return None
        batch = self._source.batch_over(self._log.log_start_offset)
        if batch is None or parse_header(batch).base_offset < self.cursor:
            return None
        header = parse_header(batch)
        self._fill(header.base_offset, header.leader_epoch)
        return batch

    def _fits(self, header: BatchHeader) -> bool:
        """Whether a batch with this header continues the copy."""
        base, cursor = header.base_offset, self.cursor
        if not (cursor <= base <= header.last_offset < self.end_offset):
            return False
        if base != cursor and not self._source.has_holes:
            return False
        # Where our log differs from its leader's, our next batches are of an older epoch.
        target = self._target
        if header.leader_epoch < target.segment.last_leader_epoch and not target.was_filled:
            return False
        epoch = self._epochs.epoch_of(base)
        return epoch in (NO_LEADER_EPOCH, header.leader_epoch)

    def _take(self, batch: Buffer) -> None:
        self._source.passed(len(batch))
        self._target.add(batch)

    def _fill(self, end_offset: int, next_epoch: LeaderEpoch | None = None) -> None:
        """`next_epoch` is that of the batch that comes next, if it is at hand."""
        epoch = self._epochs.epoch_of(self.cursor)
        if epoch == NO_LEADER_EPOCH:
            # Unknown where batches are missing. Neither this batch nor the next one may be of an
            # older epoch than the one before it, or the next start refuses the segment.
            if next_epoch is None:
                header = self._source.next_header(self.cursor)
                next_epoch = LeaderEpoch(self._expected.last_leader_epoch)
                if header is not None and header.base_offset < self.end_offset:
                    next_epoch = LeaderEpoch(header.leader_epoch)
            epoch = LeaderEpoch(max(next_epoch, self._target.segment.last_leader_epoch))
        if self.cursor < end_offset:
            self._target.add(build_empty_batch(self.cursor, end_offset, epoch))
            self._target.was_filled = True
