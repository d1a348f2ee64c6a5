"""End offsets of partitions with the ids of their topics.

The source's offset in a checkpoint, the end of a batch and the end of a Delta commit all have this
type. Rules: an offset is an exclusive end; it is valid only with its topic's id, because a topic
that was deleted and created again has the same name and other records; equal values give equal
JSON. Pure.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from josefine_broker.base.ids import TopicPartition

ByPartition = Mapping[TopicPartition, int]
"""Partition → end offset (exclusive)."""

TopicIds = Mapping[str, str]
"""Topic → its id; an empty string for a broker without topic ids (before KIP-516)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicOffsets:
    """End offsets of a read or a commit, per partition."""

    ends: ByPartition = field(default_factory=dict)
    topic_ids: TopicIds = field(default_factory=dict)
    first: ByPartition = field(default_factory=dict)
    """Offset at which a query started each partition: only in the source's own offsets, so that a
    partition found while the query runs is replayed from the same offset."""
    lost: Mapping[TopicPartition, tuple[int, int | None]] = field(default_factory=dict)
    """The lost range [from, to) of the batch that ends here: only in the source's own offsets, so
    that a replay skips the same range. `to` None: unknown, because the topic was recreated."""

    def start_of(self, partition: TopicPartition, end: "TopicOffsets") -> int:
        """Start of the range up to `end`: this offset, or the first one of a new partition."""
        known = self.ends.get(partition)
        if known is None or self.topic_ids.get(partition.topic) != end.topic_ids.get(
            partition.topic
        ):
            return end.first[partition]
        since, until = end.lost.get(partition, (known, None))
        if until is None:
            return known
        # Retention: the log starts after the lost range. Truncation: the log ended before it, and
        # new records were appended there.
        return until if known < until else since

    def recreated(self, now: TopicIds) -> set[str]:
        """The topics that have another id in `now`; topics missing from `now` do not count."""
        return {t for t, known in self.topic_ids.items() if now.get(t, known) != known}

    def without(self, topics: Iterable[str]) -> "TopicOffsets":
        """A copy without these topics, as if they had never been read."""
        gone = set(topics)
        return replace(
            self,
            ends={tp: end for tp, end in self.ends.items() if tp[0] not in gone},
            topic_ids={t: known for t, known in self.topic_ids.items() if t not in gone},
            first={tp: at for tp, at in self.first.items() if tp[0] not in gone},
            lost={tp: at for tp, at in self.lost.items() if tp[0] not in gone},
        )


def nested(values: ByPartition) -> dict[str, dict[str, int]]:
    """{topic: {"partition": value}}, sorted: the form in checkpoints, Delta logs and messages."""
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
