"""What stands in a topic's partitions behind their store, by journal: so that readers of a process
read it once, and not each of them all of it. Values and bounded tables, no I/O.

Rules: what is kept of a partition is a run of its log without a gap, from `begin` to `end`; a
journal that was put out to make room is missed, never taken for one without records; records of
others and damaged ones are kept or passed over unread, so they stall nobody.
"""

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER

BYTES_MAX = 4 * 1024 * 1024
"""Of all journals of a topic, each record counting RECORD_BYTES more than its key and value."""
RECORD_BYTES = 512
IDLE_MS_MAX = 600_000
"""A partition that nobody asked for so long is forgotten."""
JOURNAL_SHARE = 4
"""A journal of a larger part is put out at once: its readers stream it from the topic."""
EVICTED_SHARE = 10
"""One in so many journals makes room, those that were not written longest."""


@dataclass(slots=True)
class _Journal:
    """A journal's records, oldest first, and what they count."""

    since: int
    """All of its records from there on are here."""
    records: deque[Record] = field(default_factory=deque)
    size: int = 0


@dataclass(slots=True)
class _Part:
    """A run of a partition's log."""

    topic_id: UUID | None
    begin: int
    end: int
    used_ms: int
    missed_to: int = 0
    """Below it, journals may have been put out."""
    journals: OrderedDict[bytes, _Journal] = field(default_factory=OrderedDict)
    """Written last, last."""
    order: deque[tuple[int, bytes]] = field(default_factory=deque)
    """Offset and journal of each record, also of some that were put out."""
    size: int = 0


class HeadCache:
    """Of the partitions of one topic."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._parts: dict[int, _Part] = {}

    @property
    def size(self) -> int:
        """Bytes, as they are counted."""
        return sum(part.size for part in self._parts.values())

    def resume(
        self, partition: int, topic_id: UUID | None, begin: int, now_ms: int, *, rewinds: bool
    ) -> int:
        """From where on to read for somebody who wants what stands behind `begin`.

        What is kept begins anew there if it ends before, is of another topic, or was idle, and
        with `rewinds` also if it begins behind.
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
        """The store has what stands before `end`: nobody will ask for it."""
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
        """The records that follow what is there; the partition was resumed before."""
        part = self._parts[partition]
        for record in records:
            if record.offset < part.end:  # replicated while it was read
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
        """The journal's records from `begin` on, and up to where these are all: `begin` where it
        is not known, `end` at most."""
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
        """Of the largest partition."""
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
