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

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.ports import File, Files
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.batch_walk import SCAN_BYTES
from josefine_broker.host.log.cleaned_sums import BLOCK_BYTES, BlockSums, load_sums
from josefine_broker.host.log.index import SegmentSummary, SparseIndex, load_index
from josefine_broker.host.log.isolated_batch import (
    FIND_BYTES,
    Place,
    find_isolated,
    next_intact,
    read_around,
)
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment
from josefine_broker.host.log.segment_copy import SegmentCopy
from josefine_broker.host.log.segment_swap import REPAIRED_SUFFIX
from josefine_broker.records.batch import (
    HEADER_BYTES,
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
        self._source = _Source(files, segment, has_holes=log.config.may_have_holes)
        self._target = SegmentCopy(files, segment, log.config.index_interval_bytes)
        self._is_checksum_known = is_checksum_known
        self._may_differ = may_differ
        """What the other replicas have may be right although it does not have our checksum: this
        log may differ from its leader's."""
        self._epoch_before = epoch_before
        """Of our batch before this segment, where that may be of a leader who lost."""
        self._distrusts = False
        """Our own batches are only used where no replica has others."""
        self.is_misfit = self.has_ours = False
        self.bytes_fetched = 0
        self.end_offset = self._expected.end_offset

    @property
    def cursor(self) -> int:
        """All batches below it are in the copy."""
        return self._target.segment.end_offset

    @property
    def _log_start(self) -> int:
        """Records may be deleted while the repair waits for them."""
        return self._log.log_start_offset

    @property
    def wanted(self) -> int:
        """The first offset that is missing in the copy, and was not deleted."""
        return max(self.cursor, min(self._log_start, self.end_offset - 1))

    @property
    def progress(self) -> tuple[bool, int]:
        """See `RebuildPort`."""
        return self._distrusts, self.wanted

    def copy(self, breathe: Callable[[], None]) -> int | None:
        """Copy our own batches while they are intact; returns the first offset that has to be
        fetched, None at the end of the segment. Raises OSError, CorruptData."""
        self._source.open()  # on the thread that reads it
        self._target.open()
        count = 0
        while self.cursor < self.end_offset:
            batch = None if self._distrusts else self._ours() or self._ours_at_start()
            # No checksum covers its epoch: that of our last batch may have flipped upwards.
            self.has_ours = batch is not None and self._starts_epoch(parse_header(batch))
            if batch is None or self.has_ours:
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
            if self.cursor < header.base_offset <= self._log_start:
                self._fill(header.base_offset, header.leader_epoch)  # deleted records
            if header.base_offset < self.cursor and not self._distrusts:
                # Batches overlap: one of ours only looked intact, with a damaged offset.
                self._start_again()
                return
            before = self._target.segment
            self.is_misfit = self._is_after_another_leaders(header)
            if self.is_misfit:
                raise CorruptData(
                    f"a batch of epoch {header.leader_epoch}, after one of epoch "
                    f"{self._epoch_before} that may be of a leader who lost"
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
                raise CorruptData(
                    f"the other replica has a batch with offsets {header.base_offset} to "
                    f"{header.last_offset} of epoch {header.leader_epoch} where {self.cursor} was "
                    "expected"
                )
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
        if not self.cursor < self._log_start < self.end_offset:
            return None
        batch = self._source.batch_over(self._log_start)
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


class _Source:
    """The damaged segment, read through a handle of its own; a missing file has no bytes."""

    def __init__(self, files: Files, segment: Segment, *, has_holes: bool) -> None:
        self.has_holes, self._end_offset = has_holes, segment.end_offset
        self._index: SparseIndex | None = segment.index_in_memory
        if self._index is None:
            self._index = load_index(files, segment.stem, segment.summary())
        self._files = files
        self._path = segment.stem + LOG_SUFFIX
        self.sums: BlockSums | None = None
        """Of what the cleaner wrote, if that is known."""
        if has_holes:
            self.sums = load_sums(files, segment.stem, segment.size_bytes)
        self._bad_blocks: list[int] = []
        self._base_offset = segment.base_offset
        self._file: File | None = None
        self._position = 0
        self._window_start = 0
        self._window = memoryview(b"")

    def open(self) -> None:
        """Raises OSError."""
        if self._file is not None:
            return
        with suppress(FileNotFoundError):
            self._file = self._files.open(self._path)
        if self.sums is not None and self._file is not None:
            # All at once: one block has hundreds of small batches.
            self._bad_blocks = [*self.sums.bad_blocks(self._file, 0, self.sums.log_bytes)]

    def restart(self) -> None:
        self._position = 0

    def passed(self, size_bytes: int) -> None:
        """A batch of this size is in the copy; ours are expected after as many bytes."""
        self._position += size_bytes

    def batch_at(
        self,
        offset: int,
        fits: Callable[[BatchHeader], bool],
        *,
        is_last_resort: bool = False,
    ) -> memoryview | None:
        """Our intact batch that continues the copy at `offset`, if there is one: where it is
        expected, where the index has it, or anywhere near. `is_last_resort`: no replica has it."""
        batch = self._intact(self._position, fits, offset, is_last_resort)
        if batch is not None:
            return batch
        for position in self._candidates(offset):
            batch = self._intact(position, fits, offset, is_last_resort)
            # A lost sector may end within a base offset, which no checksum covers: that batch
            # belongs elsewhere, although it looks intact.
            if batch is not None and self._is_followed(position, batch, may_skip=is_last_resort):
                self._position = position
                return batch
        return None

    def batch_over(self, offset: int) -> memoryview | None:
        """Our intact batch with this offset, wherever it is."""
        if self._file is None or self.has_holes:
            return None
        first, start = (
            (0, 0)
            if self._index is None
            else self._index.place_of_offset(offset - self._base_offset)
        )
        size = self._file.size()
        place = Place(start, self._base_offset + first, size, self._end_offset)
        data = read_around(self._file, start, min(FIND_BYTES, size - start))
        batch = find_isolated(data, place, offset)
        if batch is not None:
            self._position = start + data.find(bytes(batch))
        return batch

    def _is_followed(self, position: int, batch: memoryview, *, may_skip: bool) -> bool:
        """Whether the next batch, or the segment's end, confirms the base offset. `may_skip`:
        compaction may have removed offsets between the two, so that this proves little."""
        end_offset, after = parse_header(batch).end_offset, position + len(batch)
        following = bytes(self._read(after, 8))
        if len(following) < 8:
            return end_offset == self._end_offset
        next_offset = int.from_bytes(following, "big")
        return next_offset == end_offset or (
            may_skip and self.has_holes and end_offset < next_offset < self._end_offset
        )

    def _candidates(self, offset: int) -> Iterator[int]:
        index = self._index
        if index is not None:
            yield index.position_of_offset(offset - self._base_offset)
        near = bytes(self._read(self._position, SCAN_BYTES))
        wanted = offset.to_bytes(8, "big")
        at = near.find(wanted)
        while at >= 0:
            yield self._position + at
            at = near.find(wanted, at + 1)

    def next_header(self, after: int) -> BatchHeader | None:
        """The next batch of ours past `after` that is intact; None: none is found."""
        if self._file is None:
            return None
        data = read_around(self._file, self._position, FIND_BYTES)
        return next_intact(data, self._base_offset, after)

    def _intact(
        self,
        position: int,
        fits: Callable[[BatchHeader], bool],
        offset: int,
        is_last_resort: bool,
    ) -> memoryview | None:
        """The batch there, if it is intact and continues a copy that ends at `offset`. In a block
        that is not as the cleaner wrote it, both neighbours must confirm it."""
        try:
            header = parse_header(self._read(position, HEADER_BYTES))
            if not fits(header) or header.size_bytes < HEADER_BYTES:
                return None
            batch = self._read(position, header.size_bytes)
            verify(batch, 0, header)
            if self._is_in_bad_block(position, header.size_bytes):
                is_next = header.base_offset == offset
                after = position + header.size_bytes
                if not is_next or not (is_last_resort or self._continues(header, after)):
                    return None
            if self._hides_batches(position, header, offset, is_last_resort):
                return None
        except CorruptData:
            return None
        return batch[: header.size_bytes]

    def _hides_batches(
        self, position: int, header: BatchHeader, offset: int, is_last_resort: bool
    ) -> bool:
        """Whether a batch that leaves a hole after `offset` may have a base offset that has flipped
        upwards: then the batches after it would not fit into the copy any more. What follows must
        start after it; where no replica has another one, damage may follow, too."""
        if header.base_offset == offset or self.sums is not None:
            return False
        after = position + header.size_bytes
        if self._is_followed(position, self._read(position, header.size_bytes), may_skip=True):
            return False
        if not is_last_resort:
            return True
        try:
            following = parse_header(self._read(after, HEADER_BYTES))
            verify(self._read(after, following.size_bytes), 0, following)
        except CorruptData:
            return False
        return following.base_offset < header.end_offset

    def _continues(self, before: BatchHeader, position: int) -> bool:
        """Whether an intact batch there continues the one before it, in the same leader epoch.
        Raises CorruptData."""
        header = parse_header(self._read(position, HEADER_BYTES))
        if header.base_offset != before.end_offset or header.size_bytes < HEADER_BYTES:
            return False
        verify(self._read(position, header.size_bytes), 0, header)
        return header.leader_epoch == before.leader_epoch

    def _is_in_bad_block(self, position: int, size: int) -> bool:
        """Whether these bytes are not those that the cleaner wrote there: a batch's own checksum
        leaves out its offset."""
        end = position + size
        return any(at < end and position < at + BLOCK_BYTES for at in self._bad_blocks)

    def _read(self, position: int, size: int) -> memoryview:
        """These bytes, fewer at the end of the file."""
        start, window = self._window_start, self._window
        if start <= position and position + size <= start + len(window):
            return window[position - start : position - start + size]
        if self._file is None:
            return memoryview(b"")
        try:
            data = memoryview(self._file.read_at(position, max(size, SCAN_BYTES)))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._read_alone(position, size)
        self._window_start, self._window = position, data
        return data[:size]

    def _read_alone(self, position: int, size: int) -> memoryview:
        """The disk cannot read a sector near: read no more than is asked for."""
        assert self._file is not None
        try:
            return memoryview(self._file.read_at(position, size))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(b"")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
