"""What the checkers know of consumer groups: who was told to own what, what was committed by whom,
and what the offsets topic says of it, in its order.

Each commit carries a token in its metadata, so that it is known again wherever it turns up. What
is committed in the offsets topic is the truth that every coordinator is held against.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.consumer.records import is_consumer_key
from josefine_broker.engine.groups.consumer.replay import ConsumerReplay
from josefine_broker.engine.groups.consumer.values import ConsumerGroup
from josefine_broker.engine.groups.offsets import GroupOffsets, coordinator_partition
from josefine_broker.engine.groups.records import decode_key, decode_value, is_group_key
from josefine_broker.engine.groups.values import GroupRecord
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record
from josefine_broker.records.reader import read_records

if TYPE_CHECKING:
    from tests.simulation.cluster.view import Batch, PartitionFacts, View

__all__ = ["Commit", "GroupFacts", "Written", "records_of"]

Place = tuple[str, TopicPartition]
"""A group, and what it reads."""


class Commit(NamedTuple):
    """An offset of one partition, as a member sent it."""

    group: str
    tp: TopicPartition
    offset: int
    member_id: str
    generation: int
    token: str


class Written(NamedTuple):
    """A record of the offsets topic that is committed: a group's, or an offset's."""

    group: str
    record: GroupRecord | None = None
    commit: Commit | None = None


class GroupFacts:
    """Mutable; filled by `group_watch.py`."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.sent: dict[str, Commit] = {}
        """By token."""
        self.log: dict[Place, list[str]] = {}
        """Tokens in the order in which they were committed."""
        self.acknowledged: dict[Place, int] = {}
        """How long the log was that a member was told of; what lies before stays."""
        self.records: dict[str, GroupRecord] = {}
        """The last of each group."""
        self._consumers = ConsumerReplay()

    def partition_of(self, group: str) -> PartitionFacts | None:
        """The partition of the offsets topic that keeps a group; None: there is no such topic."""
        topic = self._view.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            return None
        index = coordinator_partition(group, len(topic.partitions))
        return self._view.partitions[topic.topic_id, index]

    def is_excused(self, group: str) -> bool:
        """Whether records of it may have been lost."""
        facts = self.partition_of(group)
        return facts is not None and bool(
            facts.excused or facts.losses.cuts or facts.losses.due_epoch >= 0
        )

    def coordinator(self, group: str) -> tuple[int, int]:
        """By the newest metadata: the broker, and its leader epoch."""
        facts = self.partition_of(group)
        entry = None if facts is None else self._view.image.partition(OFFSETS_TOPIC, facts.key[1])
        return (-1, -1) if entry is None else (entry.leader, entry.leader_epoch)

    def consumers(self, group: str) -> ConsumerGroup | None:
        """A group of the consumer protocol, as the topic has it so far."""
        return self._consumers.groups().get(group)

    def length(self, place: Place) -> int:
        return len(self.log.get(place, ()))

    def position(self, place: Place, token: str) -> int:
        """How long the log was with it at its end; 0: it is not there, or is no token."""
        log = self.log.get(place, [])
        return log.index(token) + 1 if token in log else 0

    def read(self, hosted: HostedPartition, batches: list[Batch]) -> Iterator[Written]:
        """What these say, which are committed now; each is noted when it was looked at."""
        for key, value in ((each.key, each.value) for each in records_of(hosted, batches)):
            if key is not None and is_consumer_key(key):
                self._consumers.take(key, value)
                continue
            if value is None or key is None:
                continue
            if is_group_key(key):
                group, record = decode_key(key), decode_value(value).record
                yield Written(group, record=record)
                self.records[group] = record
                continue
            offsets = GroupOffsets()
            offsets.replay(key, value)
            for group in offsets.group_ids:
                for tp, committed in offsets.committed(group).items():
                    yield Written(group, commit=self.sent[committed.metadata])
                    self.log.setdefault((group, tp), []).append(committed.metadata)


def records_of(hosted: HostedPartition, batches: list[Batch]) -> Iterator[Record]:
    """The records of committed batches, which that replica has."""
    offset, end = batches[0].base_offset, batches[-1].end_offset
    while offset < end:
        for buffer in hosted.log.read(offset, 1 << 20, end_offset=end):
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                yield from read_records(data[pos : pos + header.size_bytes], bytes_max=1 << 20)
                offset = header.end_offset
