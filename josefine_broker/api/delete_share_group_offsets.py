"""DeleteShareGroupOffsets (key 92, KIP-932): forgets topics of a share group without members.

The next member of the group starts there as in a topic that is new to it.
"""

from collections.abc import Mapping
from dataclasses import replace

from josefine_broker.api.alter_share_group_offsets import empty_share_group
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.coordinators.share_groups_host import change_group
from josefine_broker.engine.coordinators.share_state_requests import delete_state, gather
from josefine_broker.engine.coordinators.share_states_host import Outcome
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.wire.entities import delete_share_group_offsets as e


def handle(ctx: Context, info: RequestInfo, request: e.DeleteShareGroupOffsetsRequest) -> object:
    """Answered when all of them are committed; errors are per topic. Raises KafkaError."""
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    group = empty_share_group(ctx, request.group_id, may_create=False)
    ids = {
        topic.topic_name: ctx.image.topics[topic.topic_name].topic_id
        for topic in request.topics
        if topic.topic_name in ctx.image.topics
    }
    keys = [
        ShareKey(request.group_id, topic_id, index)
        for topic_id in ids.values()
        for index in range(group.topics.get(topic_id, 0))
    ]

    def build(outcomes: Mapping[ShareKey, Outcome]) -> e.DeleteShareGroupOffsetsResponse:
        failed = {key.topic_id: each for key, each in outcomes.items() if each.code.value}
        now = ctx.clients.groups.coordinator.shares.get(request.group_id)
        gone = set(ids.values()) - set(failed)
        # In the group last: what is named there can be deleted again.
        if now is not None and gone & set(now.topics):
            left = {key: count for key, count in now.topics.items() if key not in gone}
            change_group(ctx, now, replace(now, topics=left))
        topics = []
        for topic in request.topics:
            topic_id = ids.get(topic.topic_name)
            outcome = Outcome()
            if topic_id is None or topic_id not in group.topics:
                code = ErrorCode.unknown_topic_or_partition
                outcome = Outcome(None, code, f"the group has no offsets of '{topic.topic_name}'")
            elif topic_id in failed:
                outcome = failed[topic_id]
            topics.append(
                e.DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name,
                    topic_id=topic_id,
                    error_code=outcome.code,
                    error_message=outcome.message,
                )
            )
        return e.DeleteShareGroupOffsetsResponse(responses=tuple(topics))

    return gather(ctx, keys, lambda key, heard: delete_state(ctx, key, heard), build)


def refuse(
    request: e.DeleteShareGroupOffsetsRequest, error: KafkaError
) -> e.DeleteShareGroupOffsetsResponse:
    """The answer when the whole request is refused."""
    return e.DeleteShareGroupOffsetsResponse(
        error_code=error.code, error_message=error.message or error.code.name, responses=()
    )
