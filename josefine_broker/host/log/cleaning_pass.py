"""One pass of the log cleaner over one log, on a thread of its own.

Rules: what it needs of the log is taken from it when the pass begins, as values; it reads the
segments' files by handles of its own, and writes only files that nobody knows yet. The log is
changed on its own thread alone (`on_loop`), a group of segments at a time, in their order, and only
where it still is what was read: it may be appended to, rolled, cut, shortened, closed or deleted
meanwhile, and led by another broker. Whatever was written for nothing is removed.

A segment's checksum, over all its bytes, is compared before anything made of them counts: damage is
never written anew with a right checksum, and no key is given up for an offset that is not true.

The handles stay open until the segments were replaced: so it is this thread on which the kernel
gives back what they occupied, a second for large ones.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import TypeVar

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
from josefine_broker.host.log.index import SegmentSummary
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment, stem_of, walk_batches
from josefine_broker.host.log.segment_swap import CLEANED_SUFFIX
from josefine_broker.records.batch import BatchHeader, parse_header
from josefine_broker.records.crc import Buffer, crc32c

WRITE_BYTES = 1024 * 1024
"""Written at once."""

STEPS_PER_BATCH = 2
"""A batch costs as much as two records, beside its own."""

T = TypeVar("T")
OnLoop = Callable[[Callable[[], T]], T]


def _do_nothing() -> None:
    """For who is alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hands:
    """What a pass is given to work with."""

    on_loop: Callable[[Callable[[], bool]], bool] = lambda ask: ask()
    """Does something on the log's own thread."""
    breathe: Callable[[], None] = _do_nothing
    """Called every millisecond or so; raises KafkaError when nobody wants the pass any more."""
    moved: Callable[[int], None] = lambda size_bytes: None
    """So many bytes were read or written: waits where that is too fast."""
    room_bytes: Callable[[], int | None] = lambda: None
    """What may be written to the disk; None: no matter."""
    forget_aborted: Callable[[Collection[AbortedRange]], None] = lambda gone: None
    """On the log's own thread: nothing is left of these transactions but, perhaps, the marker."""


@dataclass(slots=True)
class PassReport:
    """What a pass did."""

    bytes_read: int = 0
    bytes_written: int = 0
    bytes_removed: int = 0
    segments_before: int = 0
    segments_after: int = 0
    map_bytes: int = 0
    keys: int = 0
    is_whole: bool = False
    """It came as far as it could remember keys; else it was broken off."""
    tally: Tally = field(default_factory=Tally)


class CleaningPass:
    """See the module. Made on the log's thread, run once on another."""

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
        """`dirt`: as `cleaning.dirt_of` found it in the log's `sealed` segments."""
        self.report = PassReport()
        self._files = files
        self._log = log
        self._directory = log.directory
        self._config: LogConfig = log.config
        self._dirt = dirt
        self._producers = producers
        self._transactions = transactions
        self._may_lose_markers = not log.awaits_snapshots
        """Else one from before may be stored yet that counts on them."""
        self._now_ms = now_ms
        self._map_bytes_max = map_bytes_max
        self._cuts = log.cleaning.cuts
        self._summaries = [each.summary() for each in log.cleaning.sealed()[: dirt.segments]]
        self._hands = Hands()
        self._breath = Breath()

    def run(self, hands: Hands) -> None:
        """Raises CorruptData where a segment is not what was written, OSError, and KafkaError that
        `breathe` raises or that the log answers with. The log then is as before, or as after."""
        self._hands, self._breath = hands, Breath(hands.breathe)
        cleaning, cuts = self._log.cleaning, self._cuts
        try:
            end_offset = self._clean_all()
        except CorruptData:
            if hands.on_loop(lambda: cleaning.was_cut_since(cuts)):
                return  # what it read was going, or another log's
            raise
        if end_offset is None:
            return
        self.report.is_whole = hands.on_loop(lambda: cleaning.came_to(end_offset, cuts))
        if self.report.is_whole:
            cleaning.store()

    def _clean_all(self) -> int | None:
        """How far it came; None: the log changed meanwhile, or there is no room."""
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
                delete_retention_ms=self._config.delete_retention_ms,
                breath=self._breath,
            )
            report.tally = judge.tally
            below = [each for each in self._summaries if each.base_offset < end_offset]
            for group in _grouped(below, self._config):
                if not self._clean(group, judge):
                    return None
                self._forget_aborted(transactions.take_emptied())
            return end_offset
        finally:
            latest.close()

    def _known_transactions(self) -> CleanedTransactions:
        """With what the stored snapshots count on. Raises OSError."""
        found = CleanedTransactions(self._transactions, may_lose=self._may_lose_markers)
        state = self._log.state
        for offset in state.snapshot_offsets():
            snapshot = state.snapshot(offset)
            with suppress(CorruptData):  # then no start begins from it
                found.counts_on(snapshot or b"", offset)
        return found

    def _forget_aborted(self, gone: Collection[AbortedRange]) -> None:
        """What was cleaned so far is in the log."""
        cleaning, cuts, hands = self._log.cleaning, self._cuts, self._hands

        def forget() -> bool:
            if not cleaning.was_cut_since(cuts):
                hands.forget_aborted(gone)
            return True

        if gone:
            hands.on_loop(forget)

    def _note_all_keys(self, latest: KeyOffsets, transactions: CleanedTransactions) -> int:
        """Where each key of the dirty part was written last; how far there was room for them."""
        first_dirty, end_offset, is_full = self._dirt.first_dirty, self._dirt.first_dirty, False
        for summary in self._summaries:
            if summary.end_offset <= first_dirty or is_full:
                continue
            with ExitStack() as stack:
                file = self._open(summary, stack)
                for _, header, batch in self._batches(file, summary):
                    if header.end_offset <= first_dirty or is_full:
                        continue  # read for the checksum alone
                    is_full = not note_keys(latest, batch, header, self._breath, transactions)
                    if not is_full:
                        end_offset = header.end_offset
            self.report.bytes_read += summary.log_bytes
        return end_offset

    def _open(self, summary: SegmentSummary, stack: ExitStack) -> File:
        path = stem_of(self._directory, summary.base_offset) + LOG_SUFFIX
        file = self._files.open(path)
        stack.callback(file.close)
        return file

    def _batches(
        self, file: File, summary: SegmentSummary
    ) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Each batch, and in the end whether they were what was written. Raises CorruptData."""
        moved, crc, end_offset = self._hands.moved, 0, summary.base_offset
        path = f"{stem_of(self._directory, summary.base_offset)}{LOG_SUFFIX}"
        for position, header, batch in walk_batches(file, 0, summary.log_bytes):
            self._breath.step(STEPS_PER_BATCH)
            moved(len(batch))
            crc = crc32c(batch, crc)
            if not end_offset <= header.base_offset < header.end_offset <= summary.end_offset:
                raise CorruptData(f"{path}: a batch at offset {header.base_offset}")
            end_offset = header.end_offset
            yield position, header, batch
        if crc != summary.log_crc:
            raise CorruptData(
                f"{path}: CRC {crc:08x} over all bytes, expected {summary.log_crc:08x}"
            )

    def _clean(self, group: Sequence[SegmentSummary], judge: BatchFilter) -> bool:
        """One group of segments; False: the log has changed, or there is no room."""
        report, size_bytes = self.report, sum(each.log_bytes for each in group)
        room = self._hands.room_bytes()
        if room is not None and room < size_bytes:
            raise OSError(errno.ENOSPC, f"{size_bytes} bytes are to be cleaned, {room} are free")
        with ExitStack() as stack:
            writer = stack.enter_context(_Writer(self._files, self._directory, group, self._config))
            for summary in group:
                self._filter(summary, judge, writer, stack)
                report.bytes_read += summary.log_bytes
            if not writer.is_begun:
                return True
            cleaned = writer.finish()
            report.bytes_written += cleaned.size_bytes
            cleaning, cuts = self._log.cleaning, self._cuts
            if not self._hands.on_loop(lambda: cleaning.take_in(cleaned, group, cuts)):
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
        """Write what stays of one segment; nothing as long as all of one that is alone does."""
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
    """Writes the cleaned segment of a group; what was not taken in is removed in the end."""

    def __init__(
        self, files: Files, directory: str, group: Sequence[SegmentSummary], config: LogConfig
    ) -> None:
        first, last = group[0], group[-1]
        self.end_offset = last.end_offset
        self.is_begun = len(group) > 1
        """Something is to be written; else all batches stayed so far."""
        self._files = files
        self._interval_bytes = config.index_interval_bytes
        self._parts: list[Buffer] = []
        self._parts_bytes = 0
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
            with suppress(OSError):  # a start removes it, too
                self._files.remove(self._path)

    def add(self, batch: Buffer) -> None:
        """The next batch that stays. Raises OSError."""
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
        self._parts, self._parts_bytes = [], 0

    def finish(self) -> Segment:
        """Make it durable. Raises OSError."""
        self._write()
        assert self._file is not None
        self._file.sync()
        assert self._segment.end_offset == self.end_offset, "the last batch of a segment stays"
        return self._segment
