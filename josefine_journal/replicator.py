"""Carries what is new in a topic of journals into its store, round by round. No clock, no sockets.

Rules: a round begins where the store says, so a round that failed, or that another replicator
overtook, is done again from there and nothing is stored twice; records that left the topic before
they were stored are an error that names them, or told and passed over if that was asked for; a
record that cannot be read stops its partition and no other.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER
from josefine_journal.errors import JournalError, Overtaken, RecordsGone, RecordsLost, StoreError
from josefine_journal.events import SeqNr
from josefine_journal.failpoints import nothing_fails
from josefine_journal.ports import Batch, Log, Snapshot, Store
from josefine_journal.records import ActionRecord, action_record
from josefine_journal.resolving import asks_for_pointer, settle

BATCH_BYTES_MAX = 16 * 1024 * 1024
"""Of records, all partitions together, that one commit takes."""
EMPTY_COMMIT_MS = 60_000
"""Marks alone are no reason for a commit: readers would write the store's log."""
POINTERS_MAX = 100_000
"""Journals whose last sequence number is known without asking the store."""
RECORD_BYTES = 128
"""What a record counts beside its key and value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What one round did. Offsets are exclusive ends."""

    replicated: Mapping[int, int] = field(default_factory=dict)
    log_ends: Mapping[int, int] = field(default_factory=dict)
    records: int = 0
    """Of the log, that were looked at."""
    rows: int = 0
    """That were stored."""
    committed: tuple[int, ...] = ()
    """Partitions."""
    behind: int = 0
    """Records that were not looked at, of partitions that have not stalled."""
    overtaken: bool = False
    lost: tuple[RecordsLost, ...] = ()
    """Passed over."""

    @property
    def lag(self) -> int:
        """Records that are not replicated yet, marks among them."""
        return sum(
            max(0, end - self.replicated.get(partition, 0))
            for partition, end in self.log_ends.items()
        )


@dataclass(slots=True)
class _Taken:
    """What was read of a partition."""

    begin: int | None
    end: int
    records: int = 0
    size: int = 0
    by_key: dict[str, list[ActionRecord]] = field(default_factory=dict)
    lost: RecordsLost | None = None


class Replicator:
    """Of some partitions of a topic. One task at a time."""

    def __init__(
        self,
        log: Log,
        store: Store,
        partitions: Sequence[int],
        *,
        passes_lost: bool = False,
        batch_bytes_max: int = BATCH_BYTES_MAX,
        empty_commit_ms: int = EMPTY_COMMIT_MS,
        at: Callable[[str], None] = nothing_fails,
    ) -> None:
        """`passes_lost`: go on behind records that are lost."""
        self.partitions = tuple(partitions)
        self.stalled: dict[int, JournalError] = {}
        """Partitions that stopped before a record that cannot be read."""
        self._log = log
        self._store = store
        self._passes_lost = passes_lost
        self._batch_bytes_max = batch_bytes_max
        self._empty_commit_ms = empty_commit_ms
        self._at = at
        self._looked: dict[int, int] = {}
        self._ends: dict[int, int | None] = {}
        self._pointers: OrderedDict[tuple[int, str], SeqNr | None] = OrderedDict()
        self._committed_ms: int | None = None

    async def round(self, now_ms: int) -> Round:
        """Replicate what is new, as much as one commit takes.

        Raises RecordsLost, StoreError, OSError, and KafkaError where the broker is the cause: what
        was not committed is read again by the next round.
        """
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
        )
        if not self._is_due(batches, now_ms) and not found.lost:
            return found
        try:
            await asyncio.to_thread(self._store.commit, batches)
        except Overtaken:
            self._forget(self.partitions)
            return Round(replicated=replicated, log_ends=ends, overtaken=True)
        except BaseException:  # committed or not: the store knows
            self._forget(self.partitions)
            raise
        self._committed_ms = now_ms
        self._ends |= {batch.partition: batch.end for batch in batches}
        return Round(
            replicated=replicated | {batch.partition: batch.end for batch in batches},
            log_ends=ends,
            records=found.records,
            behind=found.behind,
            rows=sum(len(batch.records) for batch in batches),
            committed=tuple(batch.partition for batch in batches),
            lost=found.lost,
        )

    def _behind(
        self, snapshot: Snapshot, taken: Mapping[int, _Taken], ends: Mapping[int, int]
    ) -> int:
        behind = 0
        for partition in self.partitions:
            if partition in self.stalled:
                continue
            stored = max(snapshot.replicated(partition) or 0, self._looked.get(partition, 0))
            at = taken[partition].end if partition in taken else stored
            behind += max(0, ends[partition] - at)
        return behind

    def _is_due(self, batches: Sequence[Batch], now_ms: int) -> bool:
        if self._committed_ms is None:
            self._committed_ms = now_ms
        if any(batch.records for batch in batches):
            return True
        return bool(batches) and now_ms - self._committed_ms >= self._empty_commit_ms

    # -- reading

    async def _taken(self, snapshot: Snapshot, ends: Mapping[int, int]) -> dict[int, _Taken]:
        room = self._batch_bytes_max
        taken: dict[int, _Taken] = {}
        for partition in self.partitions:
            stored = snapshot.replicated(partition)
            if self._ends.setdefault(partition, stored) != stored:
                self._forget((partition,))  # somebody else was at work
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
        self.partitions = (*self.partitions[1:], *self.partitions[:1])  # none is always the last
        return taken

    async def _read(self, partition: int, stored: int | None, end: int, room: int) -> _Taken:
        """From the store's end on, or from where nothing was to be stored, as much as fits."""
        begin = max(stored or 0, self._looked.get(partition, 0))
        taken = _Taken(begin=stored, end=begin)
        if begin >= end:
            return taken
        try:
            async with aclosing(self._log.read(partition, begin, end)) as parts:
                async for records in parts:
                    if not self._take_all(partition, taken, records) or taken.size >= room:
                        return taken
            taken.end = end
        except RecordsGone:
            if taken.end == begin:
                await self._lose(partition, taken, begin)
        return taken

    def _take_all(self, partition: int, taken: _Taken, records: Sequence[Record]) -> bool:
        """False: one of them is ours and cannot be read; those before it are taken."""
        try:
            for record in records:
                self._take(partition, taken, record)
        except JournalError as error:
            self.stalled[partition] = error
            return False
        return True

    def _take(self, partition: int, taken: _Taken, record: Record) -> None:
        key = _id_of(record)
        found = None if key is None else action_record(self._log.topic, partition, record)
        if key is not None and found is not None:
            taken.by_key.setdefault(key, []).append(found)
        taken.records += 1
        taken.size += RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
        taken.end = record.offset + 1

    async def _lose(self, partition: int, taken: _Taken, begin: int) -> None:
        """The log begins behind `begin`: what is between was never stored."""
        start = await self._log.start_offset(partition)
        if start <= begin:
            return  # the log's end went back: the next round says so
        lost = RecordsLost(self._log.topic, partition, begin=begin, end=start)
        if not self._passes_lost:
            raise lost
        taken.end, taken.lost = start, lost

    # -- settling

    def _settled(self, snapshot: Snapshot, taken: Mapping[int, _Taken]) -> list[Batch]:
        batches = []
        for partition, found in taken.items():
            rows = self._rows(snapshot, partition, found)
            if not rows:
                self._looked[partition] = found.end
            batches.append(
                Batch(partition=partition, begin=found.begin, end=found.end, records=rows)
            )
        return batches

    def _rows(
        self, snapshot: Snapshot, partition: int, taken: _Taken
    ) -> list[tuple[str, ActionRecord]]:
        """What of them the store takes."""
        asking = {key for key, records in taken.by_key.items() if asks_for_pointer(records)}
        unknown = sorted(key for key in asking if (partition, key) not in self._pointers)
        asked = snapshot.pointers(partition, unknown) if unknown else {}
        rows: list[tuple[str, ActionRecord]] = []
        for key, records in taken.by_key.items():
            known = (partition, key)
            before = self._pointers.get(known, asked.get(key))
            settled = settle(records, before)
            rows += ((key, record) for record in settled.records)
            if key in asking or known in self._pointers:
                self._pointers[known] = settled.pointer
                self._pointers.move_to_end(known)
        while len(self._pointers) > POINTERS_MAX:
            self._pointers.popitem(last=False)
        return rows

    def _forget(self, partitions: Sequence[int]) -> None:
        """What was known of them stands in the store."""
        for partition in partitions:
            self._looked.pop(partition, None)
            self._ends.pop(partition, None)
        gone = [known for known in self._pointers if known[0] in partitions]
        for known in gone:
            del self._pointers[known]


def _id_of(record: Record) -> str | None:
    """The journal's id; None: nobody's, for nobody can ask for it."""
    if not record.key or not any(name == ACTION_HEADER for name, _ in record.headers):
        return None
    try:
        return record.key.decode()
    except UnicodeDecodeError:
        return None
