"""Traffic counters per topic: records and bytes in and out, counted per batch and per answered
partition."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(slots=True)
class Traffic:
    """The counters of one topic: of all its partitions that are, or were, on this broker."""

    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: "Traffic") -> None:
        """Add the counts of another one."""
        self.batches_in += other.batches_in
        self.records_in += other.records_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


class TrafficTable:
    """The counters of every existing topic that this broker has had a partition of."""

    __slots__ = ("_deleted", "_ids", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, Traffic] = {}
        self._ids: dict[int, Traffic] = {}
        """The same objects by topic id, which newer fetches use. As keys, UUIDs are several times
        slower than their integers, because they are hashed in Python."""
        self._deleted = Traffic()

    def of(self, name: str, topic_id: UUID) -> Traffic:
        """The one object of a topic, which its partitions share."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = self._ids[topic_id.int] = Traffic()
        return found

    def sent(self, name: str | None, topic_id: UUID | None, size: int) -> None:
        """Count the bytes of one partition in an answer."""
        found = self._topics.get(name) if topic_id is None else self._ids.get(topic_id.int)  # type: ignore[arg-type]
        if found is not None:
            found.bytes_out += size

    def forget(self, name: str, topic_id: UUID) -> None:
        """Remove a deleted topic; the total keeps its counts."""
        found = self._topics.pop(name, None)
        self._ids.pop(topic_id.int, None)
        if found is not None:
            self._deleted.add(found)

    def topics(self) -> list[tuple[str, Traffic]]:
        """(name, counters), by name."""
        return sorted(self._topics.items())

    def total(self) -> Traffic:
        """The sum over all topics that ever existed; it never decreases."""
        total = Traffic()
        total.add(self._deleted)
        for each in self._topics.values():
            total.add(each)
        return total
