"""The view of one journal up to a mark: its rows in the store, and the topic's records after them.

Rules: the store's rows and its replicated offset are of one snapshot, and the topic is read from
that offset on, so no record is read twice or missed; if retention deleted records of the topic
meanwhile, the store is read again, and records that neither has are an error, never a silent gap;
if the store reaches the mark, the topic is not read at all.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass

from josefine_broker.records.builder import Record
from josefine_journal.errors import JournalError, JournalMoved, RecordsGone, RecordsLost
from josefine_journal.events import SeqNr
from josefine_journal.heads import Heads
from josefine_journal.moved import Left
from josefine_journal.ports import Log, Outline, Snapshot, Store
from josefine_journal.records import ActionRecord, PartitionOffset, action_record
from josefine_journal.remembered import Folded, Remembered
from josefine_journal.window import Window

ATTEMPTS = 5
"""How often the store is read again because retention was faster than the reader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A journal's state in the store: all of its actions below `end_offset`."""

    snapshot: Snapshot
    partition: int
    key: str
    outline: Outline
    end_offset: int
    lost_to: int
    """End of the lost range that matters to the journal."""

    def appends(self, begin: int) -> Iterator[list[ActionRecord]]:
        """The appends with a sequence number of at least `begin`, in order."""
        return self.snapshot.appends(self.partition, self.key, self.outline, begin)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A journal up to a mark; `stored` None: no wanted events are before the window."""

    window: Window
    stored: Stored | None
    end_offset: int
    """End offset (exclusive); after the mark if the store is further."""
    passed_to: int

    @property
    def pointer(self) -> SeqNr | None:
        return self.window.pointer

    @property
    def deleted_to(self) -> int:
        """Sequence number up to which events are deleted; 0: none."""
        if self.stored is None or self.window.is_purged:
            return self.window.deleted_to
        return max(self.window.deleted_to, self.stored.outline.deleted_to)

    @property
    def folded(self) -> Folded:
        """The entry for the cache of remembered journals."""
        window = self.window
        return _folded(self.end_offset, window, self.passed_to)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The journal's state before a write, and the store's snapshot of that time, in case the topic
    loses the records after `before` meanwhile."""

    before: Folded
    snapshot: Snapshot | None


class Viewer:
    """Reads one journal. Raises JournalError, and KafkaError if the broker is the cause."""

    def __init__(
        self,
        key: bytes,
        log: Log,
        store: Store | None,
        remembered: Remembered,
        heads: Heads | None,
    ) -> None:
        self._key = key
        self._log = log
        self._store = store
        self._remembered = remembered
        self._heads = heads

    async def look(self, mark: PartitionOffset, *, wanted: int, kept_bytes_max: int = 0) -> View:
        """The journal up to the mark, as far as needed for events from `wanted` on."""
        snapshot = await self._snapshot(mark.partition)
        known = self._recalled(mark.partition, mark.offset, snapshot)
        if known is not None and wanted > (known.pointer or 0):
            try:
                window = await self.window(known, mark, kept_bytes_max)
                return View(
                    window=window,
                    stored=None,
                    end_offset=mark.offset + 1,
                    passed_to=known.passed_to,
                )
            except (RecordsGone, RecordsLost):
                pass  # the store may have them
        for _ in range(ATTEMPTS):
            before, stored = await self._before(mark.partition)
            end_offset = max(mark.offset + 1, before.end_offset)
            try:
                window = await self.window(before, mark, kept_bytes_max, rewinds=True)
            except RecordsGone:
                # Retention overtook this read: a newer snapshot of the store may have the records.
                if stored is not None:
                    await self._check_nothing_is_lost(mark.partition)
                continue
            if stored is None:
                self._check_beginning(mark.partition, before, window)
            return View(
                window=window, stored=stored, end_offset=end_offset, passed_to=before.passed_to
            )
        raise JournalError(
            f"{self._log.topic}-{mark.partition}: retention deletes records faster than they are "
            "read: make the topic's retention longer, or replicate it more often"
        )

    async def known(self, partition: int) -> Known:
        """The journal's state now, up to some offset of the log.

        Raises RecordsLost if it cannot be known, so that nothing is written on a guess.
        """
        snapshot = await self._snapshot(partition)
        before = self._recalled(partition, None, snapshot)
        if before is None:
            before = (await self._before(partition, snapshot))[0]
            before = await self._without_loss(partition, before)
        return Known(before=before, snapshot=snapshot)

    async def _snapshot(self, partition: int) -> Snapshot | None:
        if self._store is None:
            return None
        return await asyncio.to_thread(self._store.snapshot, (partition,))

    def _recalled(
        self, partition: int, end_offset: int | None, snapshot: Snapshot | None
    ) -> Folded | None:
        """The remembered state, unless the store has skipped a lost range since: this reader may
        have read those records, but it must judge appends like readers that could not."""
        known = self._remembered.get(self._key, self._log.topic_id, end_offset)
        if known is None or snapshot is None:
            return known
        return known if known.passed_to == snapshot.lost_to(partition) else None

    async def last_at(self, at: PartitionOffset, known: Known) -> Folded:
        """The journal up to its own record `at`; `known` is the state before the write.

        Raises RecordsLost if the topic lost the records in between.
        """
        if known.before.end_offset > at.offset:  # the topic was recreated in between
            known = await self.known(at.partition)
        try:
            window = await self.window(known.before, at)
            return _folded(at.offset, window, known.before.passed_to)
        except (RecordsGone, RecordsLost) as error:
            if known.snapshot is None:
                raise await self._untold(at, known.before, error) from error
        before, _ = await self._before(at.partition, known.snapshot)
        try:
            return _folded(at.offset, await self.window(before, at), before.passed_to)
        except (RecordsGone, RecordsLost) as error:
            raise await self._untold(at, before, error) from error

    async def _untold(
        self, at: PartitionOffset, before: Folded, error: RecordsGone | RecordsLost
    ) -> RecordsLost:
        """The error for an append that is written while the topic lost the records before it."""
        begin, end = before.end_offset, at.offset
        if isinstance(error, RecordsLost):
            begin, end = error.begin, error.end
        else:
            end = max(begin + 1, min(end, await self._log.start_offset(at.partition)))
        reason = (
            f"left the topic before the append at {at.offset} was compared with them: it is "
            "unknown whether its expectation was met; read the journal to find out"
        )
        return RecordsLost(self._log.topic, at.partition, begin=begin, end=end, reason=reason)

    async def window(
        self,
        before: Folded,
        end: PartitionOffset,
        kept_bytes_max: int = 0,
        *,
        rewinds: bool = False,
    ) -> Window:
        """The actions from `before` up to `end` (exclusive)."""
        window = Window(before.last, kept_bytes_max=kept_bytes_max, lost_to=before.lost_to)
        begin = before.end_offset
        try:
            if self._heads is not None and begin < end.offset:
                records, begin = await self._heads.records(
                    end.partition, self._key, begin, end.offset, rewinds=rewinds
                )
                for action in self._own(end.partition, records):
                    window.take(action, is_held=True)  # the topic may have lost it in between
            async for actions in self.actions(begin, end):
                for action in actions:
                    window.take(action)
        except JournalError:
            self._remembered.forget(self._key)  # its offset may be lost: start from the store
            raise
        await self._check_left(window.left)
        return window

    async def _check_left(self, left: Left | None) -> None:
        """Raises JournalMoved if the topic was opened before its journals were moved."""
        if left is not None and left.move.count_before == await self._log.partition_count():
            self._remembered.forget(self._key)
            raise JournalMoved(
                self._log.topic,
                self._key.decode(),
                count=left.move.count,
                partition=left.partition,
            )

    async def actions(self, begin: int, end: PartitionOffset) -> AsyncIterator[list[ActionRecord]]:
        """This journal's actions in the range; of other records only the key is read."""
        if begin >= end.offset:
            return
        async for records in self._log.read(end.partition, begin, end.offset):
            yield self._own(end.partition, records)

    def _own(self, partition: int, records: Iterable[Record]) -> list[ActionRecord]:
        own = [each for each in records if each.key == self._key]
        found = (action_record(self._log.topic, partition, each) for each in own)
        return [each for each in found if each is not None]

    async def _before(
        self, partition: int, snapshot: Snapshot | None = None
    ) -> tuple[Folded, Stored | None]:
        """The state from which the topic is read: the store's end, else the log's start."""
        if self._store is None:
            begin = await self._log.start_offset(partition)
            return Folded(end_offset=begin, last=None), None
        stored = await asyncio.to_thread(self._stored, self._store, partition, snapshot)
        if self._heads is not None:
            self._heads.replicated(partition, stored.end_offset)
        last = stored.outline.last
        folded = Folded(
            end_offset=stored.end_offset,
            last=last,
            lost_to=stored.lost_to,
            passed_to=stored.snapshot.lost_to(partition),
        )
        return folded, stored

    def _stored(self, store: Store, partition: int, snapshot: Snapshot | None) -> Stored:
        snapshot = snapshot or store.snapshot((partition,))
        key = self._key.decode()
        outline = snapshot.outline(partition, key)
        lost_to = snapshot.lost_to(partition)
        if outline.last is None and outline.begin_offset >= lost_to:
            lost_to = 0  # a purge followed
        return Stored(
            snapshot=snapshot,
            partition=partition,
            key=key,
            outline=outline,
            lost_to=lost_to,
            end_offset=snapshot.replicated(partition) or 0,
        )

    async def _without_loss(self, partition: int, before: Folded) -> Folded:
        """A state with a known last sequence number. Raises RecordsLost if there is none."""
        if self._store is not None:
            if await self._log.start_offset(partition) > before.end_offset:
                await self._check_nothing_is_lost(partition)
            return before
        if before.end_offset == 0:
            return before
        end = (await self._log.end_offsets((partition,)))[partition]
        window = await self.window(before, PartitionOffset(partition=partition, offset=end))
        self._check_beginning(partition, before, window)
        return _folded(end, window, 0)

    def _check_beginning(self, partition: int, before: Folded, window: Window) -> None:
        """Without a store, raises RecordsLost if the topic lost its start and the journal was not
        purged since."""
        if before.end_offset > 0 and not window.is_begun_anew:
            raise RecordsLost(self._log.topic, partition, begin=0, end=before.end_offset)

    async def _check_nothing_is_lost(self, partition: int) -> None:
        """Raises RecordsLost if the log starts after the store's end."""
        assert self._store is not None
        begin = await self._log.start_offset(partition)
        snapshot = await asyncio.to_thread(self._store.snapshot, (partition,))
        end_offset = snapshot.replicated(partition) or 0
        if end_offset < begin:
            raise RecordsLost(self._log.topic, partition, begin=end_offset, end=begin)


def _folded(end_offset: int, window: Window, passed_to: int) -> Folded:
    last, lost_to = window.last, window.lost_to
    return Folded(end_offset=end_offset, last=last, lost_to=lost_to, passed_to=passed_to)
