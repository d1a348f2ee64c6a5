"""The head cache: unreplicated records of a topic's partitions, by journal, so that the readers of
a process read them once. Values and bounded tables, no I/O.

Rules: the cached records of a partition are a contiguous part of its log, from `begin` to `end`; an
evicted journal is a cache miss, never a journal without records; foreign and damaged records are
cached or skipped without being decoded, so they stop nobody.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER

BYTES_MAX = 4 * 1024 * 1024
"""Size of the cache of one topic; each record counts RECORD_BYTES more than its key and value."""
RECORD_BYTES = 512
IDLE_MS_MAX = 600_000
"""A partition without a reader for this long is evicted."""
JOURNAL_SHARE = 4
"""A journal that takes more than one part in four of the cache is evicted at once: its readers
stream it from the topic."""
EVICTED_SHARE = 10
"""An eviction removes one in ten journals, those with the oldest last record."""


@dataclass(slots=True)
class _Journal:
    """A journal's records, oldest first, and their size."""

    since: int
    """All of its records from this offset on are cached."""
    records: deque[Record] = field(default_factory=deque)
    size: int = 0


@dataclass(slots=True)
class _Part:
    """The cached part of a partition's log."""

    topic_id: UUID | None
    begin: int
    end: int
    used_ms: int
    missed_to: int = 0
    """Journals may be evicted below this offset."""
    journals: OrderedDict[bytes, _Journal] = field(default_factory=OrderedDict)
    """The most recently written journal comes last."""
    order: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Offset and journal of each record, also of some evicted ones."""
    size: int = 0


class HeadCache:
    """The cache of one topic's partitions. Mutable."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: dict[int, _Part] = {}

    @property
    def size(self) -> int:
        """Counted bytes."""
        return sum(part.size for part in self._parts.values())

    def resume(
        self, partition: int, topic_id: UUID | None, begin: int, now_ms: int, *, rewinds: bool
    ) -> int:
        """The offset from which to read on for a reader that needs the records from `begin`.

        The cached part is dropped and starts again at `begin` if it ends before it, is of another
        topic, or was idle, and with `rewinds` also if it starts after it.
        """
        self._expire(now_ms)
        part = self._parts.get(partition)
        is_apart = part is None or part.end < begin or (rewinds and begin < part.begin)
        if part is None or is_apart or part.topic_id != topic_id:
            part = _Part(topic_id=topic_id, begin=begin, end=begin, used_ms=now_ms)
            self._parts[partition] = part
        part.used_ms = now_ms
        return part.end

    def replicated(self, partition: int, end: int) -> None:
        """Drop the records before `end`: the store has them now."""
        part = self._parts.get(partition)
        if part is None or end <= part.begin:
            return
        while part.order and part.order[0][0] < end:
            offset, key = part.order.popleft()
            journal = part.journals.get(key)
            if journal is not None and journal.records[0].offset == offset:
                self._shrink(part, key, journal)
        part.begin, part.end = end, max(end, part.end)

    def take(self, partition: int, records: Sequence[Record]) -> None:
        """Add the records that follow the cached ones; the partition was resumed before."""
        part = self._parts[partition]
        for record in records:
            if record.offset < part.end:  # it was replicated during the read
                continue
            part.end = record.offset + 1
            if record.key and any(name == ACTION_HEADER for name, _ in record.headers):
                self._keep(part, record.key, record)
        if len(part.order) > 1_000 + 2 * part.size // RECORD_BYTES:
            part.order = deque(each for each in part.order if each[1] in part.journals)
        while self.size > self._bytes_max:
            self._evict()

    def reach(self, partition: int, end: int) -> None:
        """There are no more records before `end`."""
        part = self._parts[partition]
        part.end = max(part.end, end)

    def head(self, partition: int, key: bytes, begin: int, end: int) -> tuple[list[Record], int]:
        """The journal's records from `begin` on, and the offset up to which they are complete:
        `begin` for a cache miss, `end` at most."""
        part = self._parts.get(partition)
        if part is None or begin < part.begin or part.end <= begin:
            return [], begin
        journal = part.journals.get(key)
        if begin < (part.missed_to if journal is None else journal.since):
            return [], begin
        if journal is None:
            return [], min(end, part.end)
        found = [each for each in journal.records if begin <= each.offset < end]
        return found, min(end, part.end)

    def forget(self, partition: int) -> None:
        self._parts.pop(partition, None)

    def _keep(self, part: _Part, key: bytes, record: Record) -> None:
        journal = part.journals.get(key)
        if journal is None:
            journal = part.journals[key] = _Journal(since=part.missed_to)
        part.journals.move_to_end(key)
        journal.records.append(record)
        part.order.append((record.offset, key))
        size = _size(record)
        journal.size += size
        part.size += size
        if journal.size > self._bytes_max // JOURNAL_SHARE:
            self._put_out(part, key)

    def _put_out(self, part: _Part, key: bytes) -> None:
        journal = part.journals.pop(key)
        part.size -= journal.size
        part.missed_to = max(part.missed_to, journal.records[-1].offset + 1)

    def _shrink(self, part: _Part, key: bytes, journal: _Journal) -> None:
        size = _size(journal.records.popleft())
        journal.size -= size
        part.size -= size
        if not journal.records:
            del part.journals[key]

    def _evict(self) -> None:
        """Evict journals of the largest partition."""
        part = max(self._parts.values(), key=lambda each: each.size)
        for _ in range(1 + len(part.journals) // EVICTED_SHARE):
            self._put_out(part, next(iter(part.journals)))
        part.order = deque(each for each in part.order if each[1] in part.journals)

    def _expire(self, now_ms: int) -> None:
        idle = [p for p, part in self._parts.items() if now_ms - part.used_ms > IDLE_MS_MAX]
        for partition in idle:
            del self._parts[partition]


def _size(record: Record) -> int:
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"")
