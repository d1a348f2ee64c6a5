"""What clients brought to and took from each topic here: counted per batch and per answered
partition, summed when somebody asks."""

from dataclasses import dataclass
from uuid import UUID


@dataclass(slots=True)
class Traffic:
    """Of one topic, all its partitions that are, or were, on this broker."""

    batches_in: int = 0
    records_in: int = 0
    bytes_in: int = 0
    bytes_out: int = 0

    def add(self, other: "Traffic") -> None:
        """Take its counts over."""
        self.batches_in += other.batches_in
        self.records_in += other.records_in
        self.bytes_in += other.bytes_in
        self.bytes_out += other.bytes_out


class TrafficTable:
    """Of every topic that this broker has had a partition of, while the topic exists."""

    __slots__ = ("_deleted", "_ids", "_topics")

    def __init__(self) -> None:
        self._topics: dict[str, Traffic] = {}
        self._ids: dict[int, Traffic] = {}
        """The same ones: newer fetches name topics by their ids. A UUID is hashed in Python, at
        several times the cost of its number."""
        self._deleted = Traffic()

    def of(self, name: str, topic_id: UUID) -> Traffic:
        """The one object of a topic; its partitions hold it."""
        found = self._topics.get(name)
        if found is None:
            found = self._topics[name] = self._ids[topic_id.int] = Traffic()
        return found

    def sent(self, name: str | None, topic_id: UUID | None, size: int) -> None:
        """So many bytes of one partition are in an answer."""
        found = self._topics.get(name) if topic_id is None else self._ids.get(topic_id.int)  # type: ignore[arg-type]
        if found is not None:
            found.bytes_out += size

    def forget(self, name: str, topic_id: UUID) -> None:
        """The topic was deleted; in the sum it stays."""
        found = self._topics.pop(name, None)
        self._ids.pop(topic_id.int, None)
        if found is not None:
            self._deleted.add(found)

    def topics(self) -> list[tuple[str, Traffic]]:
        """In the order of their names."""
        return sorted(self._topics.items())

    def total(self) -> Traffic:
        """Of all topics that ever were; it never falls."""
        total = Traffic()
        total.add(self._deleted)
        for each in self._topics.values():
            total.add(each)
        return total
