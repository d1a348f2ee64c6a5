"""One pass of the log cleaner over one log, on its own thread.

Rules: when the pass starts it copies everything it needs of the log as values; it reads the segment
files through its own handles, and writes only files that no other code knows yet. The log itself is
changed only on its own thread (`on_loop`), one group of segments at a time, in order, and only
where it still is what was read: meanwhile it may be appended to, rolled, truncated, shortened,
closed or deleted, and another broker may lead it. Files written in vain are removed.

The checksum over all bytes of a segment is compared before any result made from it counts: damage
is never rewritten under a valid checksum, and no key is dropped for a wrong offset.
The handles stay open until the segments are replaced, so that the kernel frees their blocks on this
thread: a second for large segments.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerId
from josefine_broker.base.ports import File, Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.batch_filter import BatchFilter, Breath, Tally, note_keys
from josefine_broker.engine.partition.cleaned_transactions import (
    CleanedTransactions,
    TransactionFacts,
)
from josefine_broker.engine.partition.cleaning import Dirt, SegmentFacts, groups
from josefine_broker.engine.partition.key_offsets import KeyOffsets
from josefine_broker.engine.partition.transactions import AbortedRange
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.cleaned_sums import SumsWriter, load_sums
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment, stem_of
from josefine_broker.host.log.segment_swap import CLEANED_SUFFIX
from josefine_broker.records.batch import BatchHeader, parse_header
from josefine_broker.records.crc import Buffer, crc32c

WRITE_BYTES = 1024 * 1024
"""Bytes written at once."""

STEPS_PER_BATCH = 2
"""A batch costs as much as two records, in addition to its own."""


def _do_nothing() -> None:
    """The callback of a pass that runs alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """The callbacks of a pass."""

    on_loop: Callable[[Callable[[], bool]], bool] = lambda ask: ask()
    """Runs a callable on the log's own thread."""
    breathe: Callable[[], None] = _do_nothing
    """Called about every millisecond; raises KafkaError when the pass is no longer wanted."""
    moved: Callable[[int], None] = lambda size_bytes: None
    """Called with bytes read or written: waits when that is too fast."""
    room_bytes: Callable[[], int | None] = lambda: None
    """Bytes that may be written to the disk; None: unlimited."""
    forget_aborted: Callable[[Collection[AbortedRange]], None] = lambda gone: None
    """On the log's own thread: only the markers of these transactions can be left."""


@dataclass(slots=True)
class PassReport:
    """The result of a pass."""

    bytes_read: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0
    segments_before: int = 0
    segments_after: int = 0
    map_bytes: int = 0
    keys: int = 0
    is_whole: bool = False
    """It came as far as the key map allowed; otherwise it was aborted."""
    tally: Tally = field(default_factory=Tally)


@dataclass(frozen=True, slots=True)
class LogCopy:
    """What a pass needs of its log, copied on the log's thread: the log may change meanwhile."""

    directory: str
    config: LogConfig
    summaries: Sequence[SegmentSummary]
    """Of the full segments that it cleans."""
    cuts: int
    """How often the log had been cut, or replaced: what was read is compared with that later."""
    may_lose_markers: bool
    """Otherwise an older stored snapshot may still depend on them."""


class CleaningPass:
    """See the module. Created on the log's thread, run once on another."""

    def __init__(
        self,
        files: Files,
        log: PartitionLog,
        dirt: Dirt,
        producers: Mapping[ProducerId, int],
        *,
        transactions: TransactionFacts = TransactionFacts(),
        now_ms: int,
        map_bytes_max: int,
    ) -> None:
        """`dirt`: the result of `cleaning.dirt_of` for the log's `sealed` segments."""
        self.report = PassReport()
        self._files = files
        self._log = log
        self._copy = LogCopy(
            directory=log.directory,
            config=log.config,
            summaries=[each.summary() for each in log.cleaning.sealed()[: dirt.segments]],
            cuts=log.cleaning.cuts,
            may_lose_markers=not log.awaits_snapshots,
        )
        self._dirt = dirt
        self._producers = producers
        self._transactions = transactions
        self._now_ms = now_ms
        self._map_bytes_max = map_bytes_max
        self._hands = Hands()
        self._breath = Breath()

    def run(self, hands: Hands) -> None:
        """Raises CorruptData for a damaged segment, OSError, and KafkaError from `breathe` or from
        the log. Then each group of segments is either unchanged or replaced."""
        self._hands, self._breath = hands, Breath(hands.breathe)
        cleaning, cuts = self._log.cleaning, self._copy.cuts
        try:
            end_offset = self._clean_all()
        except CorruptData:
            if hands.on_loop(lambda: cleaning.was_cut_since(cuts)):
                return  # the data it read is being removed, or belongs to another log
            raise
        if end_offset is None:
            return
        self.report.is_whole = hands.on_loop(lambda: cleaning.came_to(end_offset, cuts))
        if self.report.is_whole:
            cleaning.store()

    def _clean_all(self) -> int | None:
        """The offset it reached; None: the log changed meanwhile, or the disk is full."""
        dirt, report = self._dirt, self.report
        transactions = self._known_transactions()
        latest = KeyOffsets(self._map_bytes_max, dirt.end - dirt.first_dirty)
        report.map_bytes = latest.size_bytes
        try:
            end_offset = self._note_all_keys(latest, transactions)
            report.keys = latest.count
            judge = BatchFilter(
                latest,
                end_offset,
                self._producers,
                transactions,
                now_ms=self._now_ms,
                delete_retention_ms=self._copy.config.delete_retention_ms,
                breath=self._breath,
            )
            report.tally = judge.tally
            below = [each for each in self._copy.summaries if each.base_offset < end_offset]
            for group in _grouped(below, self._copy.config):
                if not self._clean(group, judge):
                    return None
                self._forget_aborted(transactions.take_emptied())
            return end_offset
        finally:
            latest.close()

    def _known_transactions(self) -> CleanedTransactions:
        """Transactions of the stored snapshots included. Raises OSError."""
        found = CleanedTransactions(self._transactions, may_lose=self._copy.may_lose_markers)
        state = self._log.state
        for offset in state.snapshot_offsets():
            snapshot = state.snapshot(offset)
            with suppress(CorruptData):  # a start does not use a damaged snapshot
                found.counts_on(snapshot or b"", offset)
        return found

    def _forget_aborted(self, gone: Collection[AbortedRange]) -> None:
        """The cleaned part is in the log now: drop its aborted ranges."""
        cleaning, cuts, hands = self._log.cleaning, self._copy.cuts, self._hands

        def forget() -> bool:
            if not cleaning.was_cut_since(cuts):
                hands.forget_aborted(gone)
            return True

        if gone:
            hands.on_loop(forget)

    def _note_all_keys(self, latest: KeyOffsets, transactions: CleanedTransactions) -> int:
        """Map each key of the dirty part to its last offset; return how far the map sufficed."""
        first_dirty, end_offset, is_full = self._dirt.first_dirty, self._dirt.first_dirty, False
        for summary in self._copy.summaries:
            if summary.end_offset <= first_dirty or is_full:
                continue
            with ExitStack() as stack:
                file = self._open(summary, stack)
                for _, header, batch in self._batches(file, summary):
                    if header.end_offset <= first_dirty or is_full:
                        continue  # read only for the checksum
                    is_full = not note_keys(latest, batch, header, self._breath, transactions)
                    if not is_full:
                        end_offset = header.end_offset
            self.report.bytes_read += summary.log_bytes
        return end_offset

    def _open(self, summary: SegmentSummary, stack: ExitStack) -> File:
        path = stem_of(self._copy.directory, summary.base_offset) + LOG_SUFFIX
        file = self._files.open(path)
        stack.callback(file.close)
        return file

    def _batches(
        self, file: File, summary: SegmentSummary
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Each batch; at the end the segment's checksum is verified. Raises CorruptData."""
        moved, crc, end_offset = self._hands.moved, 0, summary.base_offset
        path = f"{stem_of(self._copy.directory, summary.base_offset)}{LOG_SUFFIX}"
        for position, header, batch in walk_batches(file, 0, summary.log_bytes):
            self._breath.step(STEPS_PER_BATCH)
            moved(len(batch))
            crc = crc32c(batch, crc)
            if not end_offset <= header.base_offset < header.end_offset <= summary.end_offset:
                raise CorruptData(f"{path}: unexpected batch at offset {header.base_offset}")
            end_offset = header.end_offset
            yield position, header, batch
        sums = load_sums(self._files, path.removesuffix(LOG_SUFFIX), summary.log_bytes)
        if sums is not None and (reason := sums.why_not(summary.log_bytes, crc)):
            raise CorruptData(f"{path}: {reason}")
        if crc != summary.log_crc:
            raise CorruptData(
                f"{path}: CRC {crc:08x} over all bytes, expected {summary.log_crc:08x}"
            )

    def _clean(self, group: Sequence[SegmentSummary], judge: BatchFilter) -> bool:
        """Clean one group of segments; False: the log changed, or the disk is full."""
        report, size_bytes = self.report, sum(each.log_bytes for each in group)
        room = self._hands.room_bytes()
        if room is not None and room < size_bytes:
            raise OSError(errno.ENOSPC, f"{size_bytes} bytes to clean, but only {room} are free")
        with ExitStack() as stack:
            writer = stack.enter_context(
                _Writer(self._files, self._copy.directory, group, self._copy.config)
            )
            for summary in group:
                self._filter(summary, judge, writer, stack)
                report.bytes_read += summary.log_bytes
            if not writer.is_begun:
                return True
            cleaned = writer.finish()
            report.bytes_written += cleaned.size_bytes
            cleaning, cuts = self._log.cleaning, self._copy.cuts
            sums = writer.sums.sums()
            if not self._hands.on_loop(lambda: cleaning.take_in(cleaned, group, cuts, sums=sums)):
                return False
        report.bytes_removed += size_bytes - cleaned.size_bytes
        report.segments_before += len(group)
        report.segments_after += 1
        return True

    def _filter(
        self,
        summary: SegmentSummary,
        judge: BatchFilter,
        writer: _Writer,
        stack: ExitStack,
    ) -> None:
        """Write the kept records of one segment; nothing as long as all of a single one are
        kept."""
        file = self._open(summary, stack)
        for position, header, batch in self._batches(file, summary):
            is_last = header.end_offset == writer.end_offset
            left = judge.keep(batch, header, is_last=is_last)
            if not writer.is_begun:
                if left is batch:
                    continue
                writer.is_begun = True
                for _, _, before in walk_batches(file, 0, position):
                    self._breath.step(STEPS_PER_BATCH)
                    writer.add(before)
            if left is not None:
                self._hands.moved(len(left))
                writer.add(left)


def _grouped(
    summaries: Sequence[SegmentSummary], config: LogConfig
) -> Iterator[Sequence[SegmentSummary]]:
    facts = [
        SegmentFacts(each.base_offset, each.end_offset, each.log_bytes, 0, 0) for each in summaries
    ]
    return (summaries[each.start : each.stop] for each in groups(facts, config))


class _Writer:
    """Writes the cleaned segment of a group; at exit removes a file that was not installed."""

    def __init__(
        self, files: Files, directory: str, group: Sequence[SegmentSummary], config: LogConfig
    ) -> None:
        first, last = group[0], group[-1]
        self.end_offset = last.end_offset
        self.is_begun = len(group) > 1
        """A batch was dropped or changed, so a file is needed; otherwise all were kept so far."""
        self._files = files
        self._interval_bytes = config.index_interval_bytes
        self._parts: list[Buffer] = []
        self._parts_bytes = 0
        self.sums = SumsWriter()
        """Checksums of the file so far."""
        self._file: File | None = None
        stem = stem_of(directory, first.base_offset)
        self._path = stem + CLEANED_SUFFIX
        self._segment = Segment(files, stem, first.base_offset)
        self._segment.first_append_ms = first.first_append_ms
        self._segment.last_append_ms = last.last_append_ms

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._file is not None:
            self._file.close()
        if self.is_begun:
            with suppress(OSError):  # a start removes it too
                self._files.remove(self._path)

    def add(self, batch: Buffer) -> None:
        """Add the next kept batch. Raises OSError."""
        header = parse_header(batch)
        self._segment.account(
            batch, header.base_offset, header.leader_epoch, header, self._interval_bytes
        )
        self._parts.append(batch)
        self._parts_bytes += len(batch)
        if self._parts_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._files.remove(self._path)
            self._file = self._files.open(self._path, create=True)
        self._file.write_at_end(self._parts)
        self.sums.add(self._parts)
        self._parts, self._parts_bytes = [], 0

    def finish(self) -> Segment:
        """Make the segment durable. Raises OSError."""
        self._write()
        assert self._file is not None
        self._file.sync()
        assert self._segment.end_offset == self.end_offset, "the last batch of a segment is kept"
        return self._segment
