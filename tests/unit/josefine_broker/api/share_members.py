"""A member of a share group at a broker in memory, by the APIs that clients use."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    find_coordinator,
    share_acknowledge,
    share_fetch,
    share_group_heartbeat,
)
from tests.unit.josefine_broker.api.world import World

GROUP = "readers"
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


class Sharer:
    """One member: joins, fetches by its session, acknowledges."""

    def __init__(self, world: World, name: str, *topics: str, group_id: str = GROUP) -> None:
        self.world = world
        self.name = name
        self.principal = ANONYMOUS
        self.group_id = group_id
        self.topics = topics or ("orders",)
        self.epoch = 0
        self.session = 0
        self.parts: dict[tuple[UUID, int], None] = {}

    def beat(self, epoch: int | None = None) -> Any:
        """One heartbeat; the assignment becomes what it fetches."""
        epoch = self.epoch if epoch is None else epoch
        request = share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.name,
            member_epoch=epoch,
            subscribed_topic_names=self.topics if epoch == 0 else None,
        )
        answer = self.world.ask(apis.SHARE_GROUP_HEARTBEAT, request, principal=self.principal)
        if answer.error_code is ErrorCode.none:
            self.epoch = max(0, answer.member_epoch)
            if answer.assignment is not None:
                self.parts = {
                    (topic.topic_id, index): None
                    for topic in answer.assignment.topic_partitions
                    for index in topic.partitions
                }
        return answer

    def join(self) -> Sharer:
        """Once more if the topic of the share states had to be created."""
        find(self.world, self.group_id)
        if self.beat(0).error_code is ErrorCode.coordinator_not_available:
            self.world.advance(10)
            assert self.beat(0).error_code is ErrorCode.none
        return self

    def fetch(
        self,
        *acks: tuple[int, int, int],
        session: int | None = None,
        part: tuple[UUID, int] | None = None,
        **changes: Any,
    ) -> Any:
        """A ShareFetch of everything that is assigned, or of one part; `acks`: (first, last, type)
        of the first partition. Returns the answer, or the Parked that waits for it."""
        f = share_fetch
        batches = tuple(
            f.AcknowledgementBatch(first_offset=a, last_offset=b, acknowledge_types=(kind,))
            for a, b, kind in acks
        )
        wanted = list(self.parts) if part is None else [part]
        topics = tuple(
            f.FetchTopic(
                topic_id=topic_id,
                partitions=(
                    f.FetchPartition(
                        partition_index=index, acknowledgement_batches=batches if at == 0 else ()
                    ),
                ),
            )
            for at, (topic_id, index) in enumerate(wanted)
        )
        session = self.session if session is None else session
        plain = {"max_wait_ms": 0, "min_bytes": 1, "max_records": 500, "batch_size": 500}
        request = f.ShareFetchRequest(
            group_id=self.group_id,
            member_id=self.name,
            share_session_epoch=session,
            topics=topics,
            forgotten_topics_data=(),
            **(plain | changes),
        )
        answer = self.world.ask(apis.SHARE_FETCH, request, principal=self.principal)
        if isinstance(answer, Parked) or answer.error_code is ErrorCode.none:
            self.session = 0 if session == -1 else session + 1
        return answer

    def acknowledge(
        self, *acks: tuple[int, int, int], part: tuple[UUID, int] | None = None, **changes: Any
    ) -> Any:
        """A ShareAcknowledge for one partition: its code, or the Parked that waits for it."""
        a = share_acknowledge
        topic_id, index = next(iter(self.parts)) if part is None else part
        batches = tuple(
            a.AcknowledgementBatch(first_offset=x, last_offset=y, acknowledge_types=(kind,))
            for x, y, kind in acks
        )
        where = a.AcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
        plain = {"share_session_epoch": self.session}
        request = a.ShareAcknowledgeRequest(
            group_id=self.group_id,
            member_id=self.name,
            topics=(a.AcknowledgeTopic(topic_id=topic_id, partitions=(where,)),),
            **(plain | changes),
        )
        answer = self.world.ask(apis.SHARE_ACKNOWLEDGE, request, principal=self.principal)
        if isinstance(answer, Parked):
            self.session += 1
            return answer
        if answer.error_code is not ErrorCode.none:
            return answer.error_code
        self.session += 1
        return answer.responses[0].partitions[0].error_code


def find(world: World, group_id: str = GROUP) -> None:
    """What every client asks first; it creates the topic of the groups."""
    request = find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
    (found,) = world.ask(apis.FIND_COORDINATOR, request).coordinators
    assert found.error_code is ErrorCode.none
    world.advance(10)


def got(answer: Any) -> list[tuple[int, int, int]]:
    """The acquired records of an answer: (first, last, delivery count)."""
    assert not isinstance(answer, Parked)
    assert answer.error_code is ErrorCode.none, answer
    return [
        (each.first_offset, each.last_offset, each.delivery_count)
        for topic in answer.responses
        for part in topic.partitions
        for each in part.acquired_records
    ]


def values_of(answer: Any) -> list[bytes | None]:
    """The values of all records in an answer."""
    found = []
    for topic in answer.responses:
        for part in topic.partitions:
            data = memoryview(part.records or b"")
            for pos, header in iter_batches(data):
                found += [r.value for r in read_records(data[pos : pos + header.size_bytes])]
    return found


def ack_codes(answer: Any) -> list[ErrorCode]:
    """What became of the acknowledgements in a ShareFetch."""
    return [
        ErrorCode(part.acknowledge_error_code)
        for topic in answer.responses
        for part in topic.partitions
    ]
