"""A journal's log and store in memory: what `josefine_journal.ports` asks for, without a broker and
without Delta. A commit can be made to fail before or after it is done, as a killed process would.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import takewhile
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import Record
from josefine_journal.actions import Append, Delete, Purge
from josefine_journal.errors import MISSING, Overtaken, RecordsGone, RecordsLost
from josefine_journal.events import SeqNr
from josefine_journal.opening import check_topic
from josefine_journal.ports import Batch, Outline
from josefine_journal.records import ActionRecord
from josefine_journal.reduction import Last, behind

Rows = Mapping[tuple[int, str], tuple[ActionRecord, ...]]


class MemoryLog:
    """Partitions as lists; `retain` takes their beginning, as retention does."""

    def __init__(self, partitions: int, topic: str = "t", per_fetch: int = 3) -> None:
        self.topic = topic
        self.reads = 0
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        """Done once, behind the next record that is written."""
        self.placed: Callable[[int, Record], None] = lambda partition, record: None
        self.written: Callable[[Record, int], None] = lambda record, offset: None
        self._records: list[list[Record | None]] = [[] for _ in range(partitions)]
        self._starts = [0] * partitions
        self._count: tuple[UUID | None, int] | None = None
        self._ids: list[UUID | None] = [None]
        self.configured: dict[str, str] = {}
        self.is_write_only = False
        """Whether whoever opens it is not authorized to read."""
        self.per_fetch = per_fetch

    @property
    def topic_id(self) -> UUID | None:
        return self._ids[-1]

    async def partition_count(self) -> int:
        if self._count is None or self._count[0] != self.topic_id:
            reads = self.reads
            await check_topic(self, len(self._records))
            self.reads = reads  # of journals, not of the check
            self._count = self.topic_id, len(self._records)
        return self._count[1]

    async def partition_of(self, key: bytes) -> int:
        return partition_for_key(key, await self.partition_count())

    async def configs(self) -> Mapping[str, str]:
        return self.configured

    async def start_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        return {p: self._starts[p] for p in partitions}

    def widen(self, count: int) -> None:
        """As `topics alter --partitions`; seen by `opened_again` only."""
        self._records += [[] for _ in range(count - len(self._records))]
        self._starts += [0] * (count - len(self._starts))

    def make_again(self, count: int, topic_id: UUID) -> None:
        """Another topic of the same name, for those who have it open, too."""
        self._records[:] = [[] for _ in range(count)]
        self._starts[:] = [0] * count
        self._ids.append(topic_id)

    def has(self, partition: int, offset: int) -> bool:
        """Whether a record is there."""
        records = self._records[partition]
        is_there = self._starts[partition] <= offset < len(records)
        return is_there and records[offset] is not None

    def opened_again(self) -> MemoryLog:
        """The same topic, for a process that starts now."""
        other = copy(self)
        other._count = None
        return other

    async def start_offset(self, partition: int) -> int:
        return self._starts[partition]

    async def end_offsets(self, partitions: Sequence[int]) -> dict[int, int]:
        return {p: len(self._records[p]) for p in partitions}

    async def write(self, partition: int, record: Record) -> int:
        offset = len(self._records[partition])
        self._records[partition].append(record._replace(offset=offset))
        self.written(record, offset)
        self.placed(partition, record._replace(offset=offset))
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return offset

    async def write_all(self, partition: int, records: Sequence[Record]) -> None:
        for record in records:
            await self.write(partition, record)

    async def read(
        self, partition: int, begin: int, end: int
    ) -> AsyncGenerator[list[Record], None]:
        self.reads += 1
        if self.is_write_only:
            raise KafkaError(ErrorCode.topic_authorization_failed, f"topic '{self.topic}'")
        while begin < end:
            if begin < self._starts[partition]:
                raise RecordsGone(f"offset {begin} is gone")
            until = min(end, begin + self.per_fetch)
            found = self._records[partition][begin:until]
            whole = [each for each in takewhile(lambda each: each is not None, found) if each]
            if whole:
                yield whole
            begin += len(whole)
            if len(whole) < len(found):
                hole = takewhile(lambda each: each is None, self._records[partition][begin:end])
                gap_end = begin + len(list(hole))
                raise RecordsLost(self.topic, partition, begin=begin, end=gap_end, reason=MISSING)

    def compact(self, partition: int) -> None:
        """The last record of each key stays, as compaction leaves it."""
        last = {each.key: each.offset for each in self._records[partition] if each}
        self._records[partition] = [
            each if each and last[each.key] == each.offset else None
            for each in self._records[partition]
        ]

    def retain(self, partition: int, start: int) -> None:
        self._starts[partition] = max(self._starts[partition], start)


class MemorySnapshot:
    """The store at one commit."""

    def __init__(
        self, ends: Mapping[int, int], rows: Rows, lost: Mapping[int, int] | None = None
    ) -> None:
        self.ends = ends
        self.rows = rows
        self.lost = lost or {}

    def lost_to(self, partition: int) -> int:
        return self.lost.get(partition, 0)

    def replicated(self, partition: int) -> int | None:
        return self.ends.get(partition)

    def files(self, partition: int) -> Sequence[object]:
        """None: there is nothing to merge."""
        return ()

    def outline(self, partition: int, key: str) -> Outline:
        found = Outline()
        for row in self.rows.get((partition, key), ()):
            match row.action:
                case Append():
                    found = replace(found, last=behind(row.placed, found.last))
                case Delete(to=to):
                    last = found.last
                    if last is not None:
                        last = replace(last, seq_nr=SeqNr(max(last.seq_nr, to)))
                    found = replace(found, last=last, deleted_to=max(found.deleted_to, to))
                case Purge():
                    found = Outline(begin_offset=row.offset)
        return found

    def lasts(self, partition: int, keys: Sequence[str]) -> Mapping[str, Last]:
        found = {key: self.outline(partition, key).last for key in keys}
        return {key: last for key, last in found.items() if last is not None}

    def appends(
        self, partition: int, key: str, outline: Outline, begin: int
    ) -> Iterator[list[ActionRecord]]:
        for row in self.rows.get((partition, key), ()):
            if (
                isinstance(row.action, Append)
                and row.value is not None
                and row.offset >= outline.begin_offset
                and row.action.range.last >= begin
            ):
                yield [row]

    def history(self, partition: int) -> Iterator[list[tuple[str, ActionRecord]]]:
        found = [
            (key, row) for (of, key), rows in self.rows.items() if of == partition for row in rows
        ]
        yield sorted(found, key=lambda each: each[1].offset)

    def expired(self, partition: int, now_ms: int) -> Iterator[tuple[str, int]]:
        for (of, key), rows in self.rows.items():
            appends = [row for row in rows if isinstance(row.action, Append)]
            last = self.outline(of, key).last
            if of == partition and last is not None:
                over = appends[-1].expire_on_ms
                if over is not None and over <= now_ms:
                    yield key, last.offset


class MemoryStore:
    """Commits as values; `at` is called before and after each."""

    def __init__(self, at: Callable[[str], None] = lambda place: None) -> None:
        self.at = at
        self.newest = MemorySnapshot({}, {})

    def snapshot(self, partitions: Sequence[int]) -> MemorySnapshot:
        return self.newest

    def commit(self, batches: Sequence[Batch]) -> None:
        for batch in batches:
            if self.newest.ends.get(batch.partition) != batch.begin:
                raise Overtaken(f"partition {batch.partition}")
        self.at("before_commit")
        rows = dict(self.newest.rows)
        for batch in batches:
            for key, record in batch.records:
                assert (batch.begin or 0) <= record.offset < batch.end
                place = (batch.partition, key)
                rows[place] = (*rows.get(place, ()), record)
        ends = {**self.newest.ends, **{batch.partition: batch.end for batch in batches}}
        lost = {b.partition: max(b.lost_to, self.newest.lost_to(b.partition)) for b in batches}
        self.newest = MemorySnapshot(ends, rows, {**self.newest.lost, **lost})
        self.at("after_commit")
