"""OffsetFetch (key 9): the committed offsets of groups; several since v8 (KIP-709), ids since v10.

No offset is -1 without an error; null topics mean all committed offsets of the group. A client that
requires stable offsets gets UNSTABLE_OFFSET_COMMIT while an open transaction may change one
(KIP-447). A member of a consumer group sends its epoch since v9 (KIP-848).
"""

from collections.abc import Iterable
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.wire.entities import offset_fetch as e

IDS_SINCE = 10
NOTHING = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_time_ms=-1)


def handle(ctx: Context, info: RequestInfo, request: e.OffsetFetchRequest) -> e.OffsetFetchResponse:
    """The committed offsets of each named group; errors are per group."""
    groups = []
    by_id = info.header.api_version >= IDS_SINCE
    for group in request.groups:
        try:
            groups.append(_group(ctx, group, require_stable=request.require_stable, by_id=by_id))
        except KafkaError as error:
            groups.append(_failed(group, error))
    return e.OffsetFetchResponse(groups=tuple(groups))


def refuse(request: e.OffsetFetchRequest, error: KafkaError) -> e.OffsetFetchResponse:
    """The answer when the whole request is refused."""
    return e.OffsetFetchResponse(groups=tuple(_failed(group, error) for group in request.groups))


def _group(
    ctx: Context, group: e.OffsetFetchRequestGroup, *, require_stable: bool, by_id: bool
) -> e.OffsetFetchResponseGroup:
    coordinator_of(ctx, group.group_id)
    _check_member(ctx, group)
    committed = ctx.clients.groups.coordinator.offsets.committed(group.group_id)
    topics = []
    if group.topics is None:
        for name in sorted({tp.topic for tp in committed}):
            indexes = sorted(tp.partition for tp in committed if tp.topic == name)
            topics.append(_topic(ctx, group.group_id, name, None, indexes, require_stable))
    else:
        for topic in group.topics:
            known = ctx.topic_name((topic.name or None) if by_id else topic.name, topic.topic_id)
            if known is None:
                topics.append(_failed_topic(topic, ErrorCode.unknown_topic_id))
            else:
                indexes = list(topic.partition_indexes)
                topics.append(
                    _topic(ctx, group.group_id, known, topic.topic_id, indexes, require_stable)
                )
    return e.OffsetFetchResponseGroup(group_id=group.group_id, topics=tuple(topics))


def _check_member(ctx: Context, group: e.OffsetFetchRequestGroup) -> None:
    """Raises KafkaError for an unknown member of a consumer group, or one in another epoch: it must
    not continue from these offsets."""
    if group.member_id is None and group.member_epoch < 0:
        return
    consumers = ctx.clients.groups.coordinator.consumers
    found = consumers.get(group.group_id)
    if found is not None:
        code = consumers.may_commit(found, group.member_id or "", None, group.member_epoch)
        if code is not ErrorCode.none:
            raise KafkaError(code)


def _topic(
    ctx: Context,
    group_id: str,
    name: str,
    topic_id: UUID | None,
    indexes: Iterable[int],
    require_stable: bool,
) -> e.OffsetFetchResponseTopics:
    offsets = ctx.clients.groups.coordinator.offsets
    committed = offsets.committed(group_id)
    entry = ctx.image.topics.get(name)
    # An open transaction may still change the offset: a stable read retries (KIP-447).
    unstable = {
        index
        for index in indexes
        if require_stable and offsets.is_pending(group_id, TopicPartition(name, index))
    }
    known = {tp.partition: each for tp, each in committed.items() if tp.topic == name}
    found = [
        (index, NOTHING if index in unstable else known.get(index, NOTHING)) for index in indexes
    ]
    return e.OffsetFetchResponseTopics(
        name=name,
        topic_id=topic_id if entry is None else entry.topic_id,
        partitions=tuple(
            e.OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=each.offset,
                committed_leader_epoch=each.leader_epoch,
                metadata=each.metadata,
                error_code=(
                    ErrorCode.unstable_offset_commit if index in unstable else ErrorCode.none
                ),
            )
            for index, each in found
        ),
    )


def _failed_topic(
    topic: e.OffsetFetchRequestTopics, code: ErrorCode
) -> e.OffsetFetchResponseTopics:
    return e.OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=tuple(
            e.OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ),
    )


def _failed(group: e.OffsetFetchRequestGroup, error: KafkaError) -> e.OffsetFetchResponseGroup:
    """v1 has a group's error per partition only, later versions once per group: both are set."""
    return e.OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=tuple(_failed_topic(topic, error.code) for topic in group.topics or ()),
        error_code=error.code,
    )
