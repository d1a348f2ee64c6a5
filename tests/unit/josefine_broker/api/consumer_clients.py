"""What members of the consumer protocol send, as functions of a `World` or of one of `Replicas`."""

from __future__ import annotations

from typing import Any

from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    consumer_group_describe,
    consumer_group_heartbeat,
    offset_commit,
    offset_fetch,
)
from tests.unit.josefine_broker.api.group_clients import GROUP, Broker, said

Owned = list[tuple[Any, tuple[int, ...]]]
"""Partitions by topic id."""


def send_beat(
    broker: Broker,
    member_id: str = "m",
    epoch: int = 0,
    *,
    owned: Owned | None = None,
    group: str = GROUP,
    version: int = 1,
    **fields: Any,
) -> Any:
    """The answer, or a `Parked`. One with epoch 0 says what a joining member has to."""
    e = consumer_group_heartbeat
    if epoch == 0:
        owned = []
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("orders",)} | fields
    request = e.ConsumerGroupHeartbeatRequest(
        group_id=group,
        member_id=member_id,
        member_epoch=epoch,
        topic_partitions=None
        if owned is None
        else tuple(e.TopicPartitions(topic_id=key, partitions=each) for key, each in owned),
        **fields,
    )
    return broker.ask(apis.CONSUMER_GROUP_HEARTBEAT, request, version=version)


def beat(broker: Broker, member_id: str = "m", epoch: int = 0, **fields: Any) -> Any:
    return said(send_beat(broker, member_id, epoch, **fields))


def parts(answer: Any) -> list[int] | None:
    """The partitions that it is told, of one topic; None: as before."""
    if answer.assignment is None:
        return None
    return sorted(index for each in answer.assignment.topic_partitions for index in each.partitions)


def owned(answer: Any) -> Owned:
    """What a member says that has what it was told."""
    return [(each.topic_id, each.partitions) for each in answer.assignment.topic_partitions]


def described(broker: Broker, group: str = GROUP) -> Any:
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=(group,))
    return broker.ask(apis.CONSUMER_GROUP_DESCRIBE, request).groups[0]


def send_commit(
    broker: Broker,
    offset: int,
    member_id: str,
    epoch: int,
    *,
    version: int = 9,
) -> Any:
    """Of partition 0 of `orders`."""
    e = offset_commit
    part = e.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    request = e.OffsetCommitRequest(
        group_id=GROUP,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=(e.OffsetCommitRequestTopic(name="orders", partitions=(part,)),),
    )
    return broker.ask(apis.OFFSET_COMMIT, request, version=version)


def commit(broker: Broker, offset: int, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
    answer = said(send_commit(broker, offset, member_id, epoch, **fields))
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


def fetched(broker: Broker, member_id: str | None, epoch: int) -> ErrorCode:
    """What who says that is told when it asks for offsets."""
    e = offset_fetch
    group = e.OffsetFetchRequestGroup(
        group_id=GROUP, member_id=member_id, member_epoch=epoch, topics=None
    )
    request = e.OffsetFetchRequest(groups=(group,))
    code: ErrorCode = broker.ask(apis.OFFSET_FETCH, request, version=9).groups[0].error_code
    return code
