"""Offsets of partitions with the ids of the topics they are of: the one value for "how far".

The source's place in a checkpoint, the end of a batch, what a Delta commit reached: all are this.
Rules: an offset is an exclusive end; without its topic's id it means nothing, for a topic that was
deleted and created again has the name and other records; equal values give equal JSON. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from josefine_broker.base.ids import TopicPartition

ByPartition = Mapping[TopicPartition, int]
"""Partition → the next offset: everything below it is meant."""

TopicIds = Mapping[str, str]
"""Topic → its id; empty text for a broker without topic ids (before KIP-516)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """How far something has come."""

    ends: ByPartition = field(default_factory=dict)
    topic_ids: TopicIds = field(default_factory=dict)
    first: ByPartition = field(default_factory=dict)
    """Where a query began each partition: only in what its source plans, so that a partition
    found in mid-query is replayed from the same place."""
    lost: Mapping[TopicPartition, tuple[int, int | None]] = field(default_factory=dict)
    """What the batch that ends here could not read, [from, to): only in what a source plans, so
    that a replay passes over the same. None: the topic was created again, nobody knows."""

    def start_of(self, partition: TopicPartition, end: "TopicOffsets") -> int:
        """Where the range up to `end` starts: here, or at its first offset when it is new."""
        known = self.ends.get(partition)
        if known is None or self.topic_ids.get(partition.topic) != end.topic_ids.get(
            partition.topic
        ):
            return end.first[partition]
        since, until = end.lost.get(partition, (known, None))
        if until is None:
            return known
        # The log begins behind what is gone, or it ends before it and was written on from there.
        return until if known < until else since

    def recreated(self, now: TopicIds) -> set[str]:
        """The topics that have another id in `now`; not those that it does not name."""
        return {t for t, known in self.topic_ids.items() if now.get(t, known) != known}

    def without(self, topics: Iterable[str]) -> "TopicOffsets":
        """The same, as if those topics had never been read."""
        gone = set(topics)
        return replace(
            self,
            ends={tp: end for tp, end in self.ends.items() if tp[0] not in gone},
            topic_ids={t: known for t, known in self.topic_ids.items() if t not in gone},
            first={tp: at for tp, at in self.first.items() if tp[0] not in gone},
            lost={tp: at for tp, at in self.lost.items() if tp[0] not in gone},
        )


def nested(values: ByPartition) -> dict[str, dict[str, int]]:
    """{topic: {"partition": value}}, topics and partitions in order: the form in checkpoints, in
    Delta logs and in messages."""
    result: dict[str, dict[str, int]] = {}
    for (topic, partition), value in sorted(values.items()):
        result.setdefault(topic, {})[str(partition)] = value
    return result


def flat(data: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    """The reverse of `nested`. Raises ValueError, TypeError or AttributeError on another shape."""
    return {
        TopicPartition(topic, int(partition)): int(value)
        for topic, partitions in data.items()
        for partition, value in partitions.items()
    }
