"""AlterShareGroupOffsets (key 91, KIP-932): lets a share group without members start elsewhere.

Each partition gets a new state epoch, which fences a leader that still knows the old state. A group
that does not exist is created, as with committed offsets.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from josefine_broker.api.shared.topics import submit_share_state_topic
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.coordinators.share_groups_host import change_group
from josefine_broker.engine.coordinators.share_state_requests import (
    Heard,
    gather,
    initialize_state,
    summarize_state,
)
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.group import ShareGroup
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.metadata.image import SHARE_STATE_TOPIC
from josefine_broker.wire.entities import alter_share_group_offsets as e


def handle(ctx: Context, info: RequestInfo, request: e.AlterShareGroupOffsetsRequest) -> object:
    """Answered when all of them are committed; errors are per partition. Raises KafkaError."""
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    group = empty_share_group(ctx, request.group_id, may_create=True)
    if SHARE_STATE_TOPIC not in ctx.image.topics:
        deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
        submit_share_state_topic(ctx, deadline_ms)
        message = "the topic of the share states is being created: try again"
        raise KafkaError(ErrorCode.coordinator_not_available, message)
    starts: dict[ShareKey, int] = {}
    counts: dict[UUID, int] = {}
    for topic in request.topics:
        entry = ctx.image.topics.get(topic.topic_name)
        if entry is None:
            continue
        counts[entry.topic_id] = len(entry.partitions)
        for part in topic.partitions:
            if 0 <= part.partition_index < len(entry.partitions):
                key = ShareKey(request.group_id, entry.topic_id, part.partition_index)
                starts[key] = part.start_offset
    # In the group first: its deletion deletes what it names.
    if any(group.topics.get(each) != count for each, count in counts.items()):
        known = ctx.clients.groups.coordinator.shares.get(request.group_id)
        change_group(ctx, known, replace(group, topics={**group.topics, **counts}))

    def alter(key: ShareKey, heard: Heard) -> None:
        def summarized(outcome: Outcome) -> None:
            if outcome.code is not ErrorCode.none:
                heard(outcome)
                return
            epoch = 1 if outcome.state is None else outcome.state.state_epoch + 1
            initialize_state(ctx, key, epoch, starts[key], heard)

        summarize_state(ctx, key, summarized)

    return gather(ctx, starts, alter, lambda outcomes: _answer(ctx, request, outcomes), requests=2)


def refuse(
    request: e.AlterShareGroupOffsetsRequest, error: KafkaError
) -> e.AlterShareGroupOffsetsResponse:
    """The answer when the whole request is refused."""
    return e.AlterShareGroupOffsetsResponse(
        error_code=error.code, error_message=error.message or error.code.name, responses=()
    )


def empty_share_group(ctx: Context, group_id: str, *, may_create: bool) -> ShareGroup:
    """The group, which has no members. Raises KafkaError(group_id_not_found | non_empty_group)."""
    coordinator = ctx.clients.groups.coordinator
    group = coordinator.shares.get(group_id)
    if group is None:
        if not may_create or coordinator.view(group_id) is not None:
            raise KafkaError(
                ErrorCode.group_id_not_found, f"Group {group_id} is not a share group."
            )
        return ShareGroup(group_id=group_id)
    if group.members:
        message = f"group {group_id} has {len(group.members)} members: stop them first"
        raise KafkaError(ErrorCode.non_empty_group, message)
    return group


def _answer(
    ctx: Context,
    request: e.AlterShareGroupOffsetsRequest,
    outcomes: Mapping[ShareKey, Outcome],
) -> e.AlterShareGroupOffsetsResponse:
    topics = []
    for topic in request.topics:
        entry = ctx.image.topics.get(topic.topic_name)
        parts = []
        for part in topic.partitions:
            outcome = Outcome(None, ErrorCode.unknown_topic_or_partition, "no such partition")
            if entry is not None:
                key = ShareKey(request.group_id, entry.topic_id, part.partition_index)
                outcome = outcomes.get(key, outcome)
            parts.append(
                e.AlterShareGroupOffsetsResponsePartition(
                    partition_index=part.partition_index,
                    error_code=outcome.code,
                    error_message=outcome.message,
                )
            )
        topics.append(
            e.AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=None if entry is None else entry.topic_id,
                partitions=tuple(parts),
            )
        )
    return e.AlterShareGroupOffsetsResponse(responses=tuple(topics))
