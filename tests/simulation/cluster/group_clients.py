"""What every virtual client of a consumer group has: it asks the coordinator what is committed. An
observer does nothing else, over and over, as tools that watch a group's lag do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.wire import apis
from josefine_broker.wire.entities import offset_fetch
from tests.simulation.cluster.coordinated import CoordinatedClient

if TYPE_CHECKING:
    from tests.simulation.cluster.group_watch import GroupWatch

__all__ = ["TIMEOUT_MS", "GroupClient", "GroupObserver"]

FETCH = apis.OFFSET_FETCH, 9
TIMEOUT_MS = 900
OBSERVED_MS = 40

Fetched = Callable[[ErrorCode | None, dict[TopicPartition, int]], None]
"""Gets the error, None when there is no answer, and the offsets."""


class GroupClient(CoordinatedClient):
    """One process."""

    def __init__(self, watch: GroupWatch, node: int, rng: Random, group: str) -> None:
        super().__init__(watch.world, node, rng, group)
        self.group = group
        self.watch = watch

    def coordinated_by(self) -> tuple[int, int]:
        """The group's coordinator by the newest metadata, as a request leaves."""
        return self.world.view.groups.coordinator(self.group)

    def is_current(self, asked: tuple[int, int]) -> bool:
        """Whether it answers who has coordinated the group since then, not a former coordinator
        that has not heard of its successor yet."""
        return asked[0] == self.coordinator and asked == self.coordinated_by()

    def fetch(self, tps: Sequence[TopicPartition], then: Fetched) -> None:
        """What is committed of these; the checkers hear of it."""
        facts = self.world.view.groups
        asked = self.coordinated_by()
        known = {tp: facts.length((self.group, tp)) for tp in tps}
        topics = tuple(
            offset_fetch.OffsetFetchRequestTopics(
                name=name, partition_indexes=tuple(tp.partition for tp in tps if tp.topic == name)
            )
            for name in sorted({tp.topic for tp in tps})
        )
        one = offset_fetch.OffsetFetchRequestGroup(group_id=self.group, topics=topics)

        def fetched(answer: offset_fetch.OffsetFetchResponse | None) -> None:
            code = None if answer is None else answer.groups[0].error_code
            if answer is None or code is not ErrorCode.none:
                then(code, {})
                return
            is_current = self.is_current(asked)
            offsets = {}
            for topic in answer.groups[0].topics:
                for part in topic.partitions:
                    tp = TopicPartition(topic.name, part.partition_index)
                    offsets[tp] = max(part.committed_offset, 0)
                    if is_current:
                        self.watch.told(self.group, tp, part.metadata or "", known[tp])
                    else:
                        self.world.met["offset told by a former coordinator"] += 1
            then(code, offsets)

        request = offset_fetch.OffsetFetchRequest(groups=(one,))
        self.ask_coordinator(FETCH, request, fetched, TIMEOUT_MS)


class GroupObserver(GroupClient):
    """Asks as long as the world lives."""

    def start(self) -> None:
        self.find(self._look)

    def _look(self) -> None:
        self.fetch(self.watch.reads, self._seen)

    def _seen(self, code: ErrorCode | None, _offsets: dict[TopicPartition, int]) -> None:
        if code in (ErrorCode.none, ErrorCode.coordinator_load_in_progress):
            self.soon(self._look, OBSERVED_MS)
        else:
            self.soon(self.start)
