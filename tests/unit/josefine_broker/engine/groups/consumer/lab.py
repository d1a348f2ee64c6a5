"""Groups of the consumer protocol on a bench: a clock that tests move, topics that they make, a log
of the entries, and a second coordinator made of that log."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.groups.consumer.consumers import ConsumerGroups, lost
from josefine_broker.engine.groups.consumer.records import Entry, changes
from josefine_broker.engine.groups.consumer.replay import ConsumerReplay
from josefine_broker.engine.groups.consumer.values import (
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerMember,
    Part,
    Parts,
)
from josefine_broker.engine.metadata.image import PartitionEntry, TopicEntry

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 20_000
_PARTITION = PartitionEntry(
    leader=1, leader_epoch=LeaderEpoch(0), partition_epoch=0, replicas=(1,), isr=(1,)
)


class Lab:
    """One coordinator, driven by hand."""

    def __init__(self, *, size_max: int = 100, **topics: int) -> None:
        """`topics`: names with their numbers of partitions."""
        self.groups = ConsumerGroups(SESSION_MS, size_max)
        self.size_max = size_max
        self.now_ms = 0
        self.log: list[Entry] = []
        self.refuses = False
        """The log takes nothing."""
        self.topics: dict[str, TopicEntry] = {}
        self._ids = 0
        for name, count in topics.items():
            self.create(name, count)

    # Topics.

    def create(self, name: str, count: int) -> None:
        self._ids += 1
        self._place(name, UUID(int=self._ids), count)

    def grow(self, name: str, count: int) -> None:
        self._place(name, self.topics[name].topic_id, count)

    def delete(self, name: str) -> None:
        self.topics = {key: each for key, each in self.topics.items() if key != name}

    def _place(self, name: str, topic_id: UUID, count: int) -> None:
        entry = TopicEntry(name=name, topic_id=topic_id, partitions=(_PARTITION,) * count)
        self.topics = {**self.topics, name: entry}

    def parts(self, name: str, *indexes: int) -> Parts:
        return frozenset(Part(self.topics[name].topic_id, index) for index in indexes)

    def every(self, *names: str) -> Parts:
        return frozenset().union(
            *(self.parts(name, *range(len(self.topics[name].partitions))) for name in names)
        )

    # The host.

    def beat(self, beat: Beat) -> BeatAnswer:
        """Raises KafkaError, also where the log refuses."""
        before = self.groups.get(GROUP)
        after, answer = self.groups.beat(GROUP, beat, self.topics)
        self._write(before, after)
        self.groups.beaten(GROUP, answer.member_id, self.topics, self.now_ms)
        return answer

    def _write(self, before: ConsumerGroup | None, after: ConsumerGroup) -> None:
        entries = changes(before, after)
        if entries and self.refuses:
            raise KafkaError(ErrorCode.coordinator_not_available)
        self.log += entries
        if entries:
            self.groups.keep(after, self.now_ms)

    def advance(self, ms: int) -> None:
        """Time passes; the coordinator is woken when it asks."""
        until_ms = self.now_ms + ms
        while (at_ms := self.groups.wake_at_ms()) is not None and at_ms <= until_ms:
            self.now_ms = max(self.now_ms, at_ms)
            for group, gone in self.groups.late(self.now_ms):
                if not self.refuses:
                    self._write(group, lost(group, gone))
        self.now_ms = until_ms

    def replayed(self) -> dict[str, ConsumerGroup]:
        replay = ConsumerReplay()
        for key, value in self.log:
            replay.take(key, value)
        return replay.groups()

    def fail_over(self) -> None:
        """Another broker coordinates, with what is in the log."""
        self.groups = ConsumerGroups(SESSION_MS, self.size_max)
        self.groups.load(self.replayed(), self.now_ms)

    # Requests.

    def join(self, member_id: str, *topics: str, **changes: Any) -> BeatAnswer:
        wanted: dict[str, Any] = {
            "member_id": member_id,
            "epoch": 0,
            "rebalance_timeout_ms": REBALANCE_MS,
            "topics": frozenset(topics or ("t",)),
            "owned": frozenset(),
            "client_id": "c",
            "client_host": "/h",
        }
        return self.beat(Beat(**(wanted | changes)))

    def say(
        self, member_id: str, epoch: int, owned: Parts | None = None, **more: Any
    ) -> BeatAnswer:
        return self.beat(Beat(member_id=member_id, epoch=epoch, owned=owned, **more))

    # What is so.

    @property
    def group(self) -> ConsumerGroup:
        found = self.groups.get(GROUP)
        assert found is not None
        return found

    def member(self, member_id: str) -> ConsumerMember:
        return self.group.members[member_id]

    @property
    def state(self) -> str:
        return self.group.state.value


def code_of(error: KafkaError) -> ErrorCode:
    return error.code
