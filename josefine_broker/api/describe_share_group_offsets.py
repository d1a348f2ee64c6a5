"""DescribeShareGroupOffsets (key 90, KIP-932): where share groups are, and how far behind.

The group's coordinator asks the share coordinator of each partition. Without topics in the request:
all of which the group has state. The lag (KIP-1226) is known where this broker leads the partition;
elsewhere it is -1.
"""

from collections.abc import Mapping

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.coordinators.share_state_requests import gather, summarize_state
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.values import NO_START, ShareKey
from josefine_broker.wire.entities import describe_share_group_offsets as e

Wanted = dict[str, tuple[int, ...]]
"""Partitions by topic."""


def handle(ctx: Context, info: RequestInfo, request: e.DescribeShareGroupOffsetsRequest) -> object:
    """Answered when all share coordinators have; errors are per group and per partition."""
    wanted: dict[str, Wanted] = {}
    refused: dict[str, KafkaError] = {}
    for group in request.groups:
        try:
            wanted[group.group_id] = _wanted(ctx, group)
        except KafkaError as error:
            refused[group.group_id] = error.without_frames()
    # One round for all groups; a topic that does not exist has no share partitions to ask for.
    keys = [
        ShareKey(group_id, ctx.image.topics[name].topic_id, index)
        for group_id, topics in wanted.items()
        for name, indexes in topics.items()
        if name in ctx.image.topics
        for index in indexes
    ]

    def build(outcomes: Mapping[ShareKey, Outcome]) -> e.DescribeShareGroupOffsetsResponse:
        return e.DescribeShareGroupOffsetsResponse(
            groups=tuple(
                _failed(group.group_id, refused[group.group_id])
                if group.group_id in refused
                else e.DescribeShareGroupOffsetsResponseGroup(
                    group_id=group.group_id,
                    topics=tuple(
                        _topic(ctx, group.group_id, name, indexes, outcomes)
                        for name, indexes in wanted[group.group_id].items()
                    ),
                )
                for group in request.groups
            )
        )

    return gather(ctx, keys, lambda key, heard: summarize_state(ctx, key, heard), build)


def refuse(
    request: e.DescribeShareGroupOffsetsRequest, error: KafkaError
) -> e.DescribeShareGroupOffsetsResponse:
    """The answer when the whole request is refused."""
    return e.DescribeShareGroupOffsetsResponse(
        groups=tuple(_failed(group.group_id, error) for group in request.groups)
    )


def _wanted(ctx: Context, asked: e.DescribeShareGroupOffsetsRequestGroup) -> Wanted:
    """Raises KafkaError."""
    check_group_id(asked.group_id)
    coordinator_of(ctx, asked.group_id)
    group = ctx.clients.groups.coordinator.shares.get(asked.group_id)
    if group is None:
        message = f"Group {asked.group_id} not found."
        raise KafkaError(ErrorCode.group_id_not_found, message)
    if asked.topics is not None:
        return {topic.topic_name: topic.partitions for topic in asked.topics}
    names = ctx.image.topic_names
    return {
        names[topic_id]: tuple(range(count))
        for topic_id, count in group.topics.items()
        if topic_id in names
    }


def _topic(
    ctx: Context,
    group_id: str,
    name: str,
    indexes: tuple[int, ...],
    outcomes: Mapping[ShareKey, Outcome],
) -> e.DescribeShareGroupOffsetsResponseTopic:
    entry = ctx.image.topics.get(name)
    topic_id = None if entry is None else entry.topic_id
    parts = []
    for index in indexes:
        # Errors are per partition, also those of a topic that the request alone names.
        if topic_id is None:
            code = ErrorCode.unknown_topic_or_partition
            outcome = Outcome(None, code, f"there is no topic '{name}'")
        else:
            outcome = outcomes[ShareKey(group_id, topic_id, index)]
        state = outcome.state
        parts.append(
            e.DescribeShareGroupOffsetsResponsePartition(
                partition_index=index,
                start_offset=NO_START if state is None else state.start_offset,
                leader_epoch=0 if state is None else state.leader_epoch,
                lag=_lag(ctx, name, index, outcome),
                error_code=outcome.code,
                error_message=outcome.message,
            )
        )
    return e.DescribeShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=topic_id, partitions=tuple(parts)
    )


def _lag(ctx: Context, name: str, index: int, outcome: Outcome) -> int:
    """The records that are not finished; -1: unknown here."""
    hosted, state = ctx.hosted.partitions.get((name, index)), outcome.state
    if hosted is None or state is None or not hosted.partition.is_leader:
        return -1
    if state.start_offset == NO_START or state.complete_count < 0:
        return -1
    start = max(state.start_offset, hosted.log.log_start_offset)
    return max(0, hosted.partition.high_watermark - start - state.complete_count)


def _failed(group_id: str, error: KafkaError) -> e.DescribeShareGroupOffsetsResponseGroup:
    return e.DescribeShareGroupOffsetsResponseGroup(
        group_id=group_id,
        topics=(),
        error_code=error.code,
        error_message=error.message or error.code.name,
    )
