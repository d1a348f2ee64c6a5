"""The replicator: it copies new records of a topic of journals into the store, round by round. No
clock, no sockets.

Rules: a round starts at the store's end offsets, so a failed or overtaken round is repeated from
there and nothing is stored twice; records that left the topic before they were stored are an error
that names them, or reported and skipped if asked for; an unreadable record stops only its own
partition, or becomes a dead letter. A dead letter is written before the records after it are
stored, so that after a crash it exists at least once.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from josefine_journal.errors import JournalError, Overtaken, RecordsGone, RecordsLost, StoreError
from josefine_journal.failpoints import nothing_fails
from josefine_journal.ports import Batch, Log, Snapshot, Store
from josefine_journal.settling import Settling
from josefine_journal.taking import DeadLetter, Taken

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Bytes of records per commit, all partitions together."""
EMPTY_COMMIT_MS = 60_000
"""Interval of commits without rows. Marks alone do not cause one: otherwise each read, which writes
a mark, would add an entry to the store's log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """The result of one round. Offsets are exclusive ends."""

    replicated: Mapping[int, int] = field(default_factory=dict)
    log_ends: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    """Records read from the log."""
    rows: int = 0
    """Stored rows."""
    committed: tuple[int, ...] = ()
    """Partitions."""
    behind: int = 0
    """Unread records of partitions that are not stalled."""
    overtaken: bool = False
    lost: tuple[RecordsLost, ...] = ()
    """Skipped lost ranges."""
    dead: tuple[DeadLetter, ...] = ()
    oldest_ms: int | None = None
    """Timestamp of the oldest stored action."""

    @property
    def lag(self) -> int:
        """Records that are not replicated yet, including marks."""
        return sum(
            max(0, end - self.replicated.get(partition, 0))
            for partition, end in self.log_ends.items()
        )


class CommitTimer:
    """The interval of commits without rows. Mutable: the time of the last commit."""

    __slots__ = ("_empty_commit_ms", "_last_ms")

    def __init__(self, empty_commit_ms: int) -> None:
        self._empty_commit_ms = empty_commit_ms
        self._last_ms: int | None = None

    def is_due(self, now_ms: int, *, is_last: bool) -> bool:
        """Whether marks alone are worth a commit; the interval starts when it is first asked."""
        if self._last_ms is None:
            self._last_ms = now_ms
        return is_last or now_ms - self._last_ms >= self._empty_commit_ms

    def committed(self, now_ms: int) -> None:
        self._last_ms = now_ms


class Replicator:
    """Replicates some partitions of a topic. For one task at a time. Mutable."""

    def __init__(
        self,
        log: Log,
        store: Store,
        partitions: Sequence[int],
        *,
        passes_lost: bool = False,
        bury: Callable[[DeadLetter], Awaitable[None]] | None = None,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        empty_commit_ms: int = EMPTY_COMMIT_MS,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """`passes_lost`: skip lost records. `bury`: writes a dead letter; without it an unreadable
        record stops its partition."""
        self.partitions = tuple(partitions)
        self.stalled: dict[int, JournalError] = {}
        """Partitions that stopped before an unreadable record."""
        self._log = log
        self._store = store
        self._passes_lost = passes_lost
        self._batch_bytes_max = batch_bytes_max
        self._timer = CommitTimer(empty_commit_ms)
        self._at = at
        self._looked: dict[int, int] = {}
        self._ends: dict[int, int | None] = {}
        self._settling = Settling()
        self._bury = bury

    async def round(self, now_ms: int, *, is_last: bool = False) -> Round:
        """Replicate new records, up to the size of one commit; the last round stores marks too.

        Raises RecordsLost, StoreError, OSError, and KafkaError if the broker is the cause: the next
        round reads again what was not committed.
        """
        # The snapshot comes before the log's ends: in the other order a concurrent replicator could
        # make the store's end larger than the log's, which would look like a truncated log.
        snapshot = await asyncio.to_thread(self._store.snapshot, self.partitions)
        ends = await self._log.end_offsets(self.partitions)
        self._at("begun")
        taken = await self._taken(snapshot, ends)
        self._at("read")
        batches = await asyncio.to_thread(self._settled, snapshot, taken)
        replicated = {p: snapshot.replicated(p) or 0 for p in self.partitions}
        found = Round(
            replicated=replicated,
            log_ends=ends,
            records=sum(each.records for each in taken.values()),
            behind=self._behind(snapshot, taken, ends),
            lost=tuple(each.lost for each in taken.values() if each.lost is not None),
            dead=tuple(letter for each in taken.values() for letter in each.dead),
        )
        if not self._is_due(batches, now_ms, is_last) and not found.lost and not found.dead:
            return found
        # Dead letters first: after the commit the store's end is past their records, and a crash in
        # between would lose them. Before it, a crash only writes them twice.
        for letter in found.dead:
            assert self._bury is not None
            await self._bury(letter)
        try:
            await asyncio.to_thread(self._store.commit, batches)
        except Overtaken:
            self._forget(self.partitions)
            return Round(replicated=replicated, log_ends=ends, overtaken=True)
        except BaseException:  # the outcome is unknown; the next snapshot shows it
            self._forget(self.partitions)
            raise
        self._settling.forget([each.partition for each in found.lost])
        self._timer.committed(now_ms)
        self._ends |= {batch.partition: batch.end for batch in batches}
        return replace(
            found,
            replicated=replicated | {batch.partition: batch.end for batch in batches},
            rows=sum(len(batch.records) for batch in batches),
            oldest_ms=_oldest_ms(batches),
            committed=tuple(batch.partition for batch in batches),
        )

    def _behind(
        self, snapshot: Snapshot, taken: Mapping[int, Taken], ends: Mapping[int, int]
    ) -> int:
        behind = 0
        for partition in self.partitions:
            if partition in self.stalled:
                continue
            stored = max(snapshot.replicated(partition) or 0, self._looked.get(partition, 0))
            at = taken[partition].end if partition in taken else stored
            behind += max(0, ends[partition] - at)
        return behind

    def _is_due(self, batches: Sequence[Batch], now_ms: int, is_last: bool) -> bool:
        is_time = self._timer.is_due(now_ms, is_last=is_last)
        return any(batch.records for batch in batches) or (bool(batches) and is_time)

    # -- reading

    async def _taken(self, snapshot: Snapshot, ends: Mapping[int, int]) -> dict[int, Taken]:
        room = self._batch_bytes_max
        taken: dict[int, Taken] = {}
        for partition in self.partitions:
            stored = snapshot.replicated(partition)
            if self._ends.setdefault(partition, stored) != stored:
                self._forget((partition,))  # another replicator has committed
                self._ends[partition] = stored
            if ends[partition] < (stored or 0):
                raise StoreError(
                    f"partition {self._log.topic}-{partition} ends at {ends[partition]}, its store "
                    f"at {stored}: the topic lost records, or is another one"
                )
            if partition in self.stalled or room <= 0:
                continue
            found = await self._read(partition, stored, ends[partition], room)
            room -= found.size
            if found.end > (stored or 0):
                taken[partition] = found
        self.partitions = (*self.partitions[1:], *self.partitions[:1])  # so that none starves
        return taken

    async def _read(self, partition: int, stored: int | None, end: int, room: int) -> Taken:
        """Read as much as fits, from the store's end or the end of an earlier read without rows."""
        begin = max(stored or 0, self._looked.get(partition, 0))
        taken = Taken(topic=self._log.topic, partition=partition, begin=stored, end=begin)
        if begin >= end:
            return taken
        try:
            async with aclosing(self._log.read(partition, begin, end)) as parts:
                async for records in parts:
                    error = taken.take_all(records, buries=self._bury is not None)
                    if error is not None:
                        self.stalled[partition] = error
                    if error is not None or taken.size >= room:
                        return taken
            taken.end = end
        except RecordsGone:
            if taken.end == begin:
                await self._lose(partition, taken, begin)
        except RecordsLost as lost:
            if taken.end == begin:  # otherwise the records before the gap are stored first
                self._pass(taken, lost)
        return taken

    async def _lose(self, partition: int, taken: Taken, begin: int) -> None:
        """Handle a log that starts after `begin`: the range in between was never stored."""
        start = await self._log.start_offset(partition)
        if start <= begin:
            return  # the log was truncated: the next round reports it
        self._pass(taken, RecordsLost(self._log.topic, partition, begin=begin, end=start))

    def _pass(self, taken: Taken, lost: RecordsLost) -> None:
        """Skip a lost range, or raise it unless skipping was asked for."""
        if not self._passes_lost:
            raise lost
        taken.end, taken.lost = lost.end, lost

    # -- settling

    def _settled(self, snapshot: Snapshot, taken: Mapping[int, Taken]) -> list[Batch]:
        batches = [self._settling.batch(snapshot, found) for found in taken.values()]
        for batch in batches:
            if not batch.records:
                self._looked[batch.partition] = batch.end
        return batches

    def _forget(self, partitions: Sequence[int]) -> None:
        """Drop the in-memory state of these partitions; it is read from the store again."""
        for partition in partitions:
            self._looked.pop(partition, None)
            self._ends.pop(partition, None)
        self._settling.forget(partitions)


def _oldest_ms(batches: Sequence[Batch]) -> int | None:
    times = (record.timestamp_ms for batch in batches for _, record in batch.records)
    return min(times, default=None)
