"""Distinct types for integers that are used side by side, so that mypy sees them swapped.

An epoch is used next to an offset, a sequence or another kind of epoch, and is passed on far more
often than computed: a distinct type costs nothing at run time. Numbers that are computed at each
step (offsets) or have a type in Raft already (broker ids) are plain integers.

`end_offset` is exclusive and `last_offset` inclusive everywhere in this project.
"""

from collections.abc import Iterable
from typing import NamedTuple, NewType
from uuid import UUID

LeaderEpoch = NewType("LeaderEpoch", int)
"""Of a partition: counts its leaders. A number from the wire is converted where it enters."""
ProducerId = NewType("ProducerId", int)
ProducerEpoch = NewType("ProducerEpoch", int)
TopicId = NewType("TopicId", UUID)


class TopicPartition(NamedTuple):
    """A partition by name. A NamedTuple because it is a dict key on the data path."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers by topic, in the order given: the nesting of most requests."""
    nested: dict[str, list[int]] = {}
    for topic, partition in partitions:
        nested.setdefault(topic, []).append(partition)
    return nested
