"""ShareGroupHeartbeat (key 76, KIP-932): a member of a share group joins, stays or leaves.

The coordinator assigns partitions, of which several members may have the same. Answered when the
group's new state is on every in-sync replica. The first member of the cluster has
`__share_group_state` created, and is to ask again.
"""

from josefine_broker.api.shared.topics import submit_share_state_topic
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.groups_host import do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.coordinators.share_groups_host import heartbeat
from josefine_broker.engine.groups.consumer.values import by_topic
from josefine_broker.engine.groups.share.group import JOINING_EPOCH, ShareBeat, ShareBeatAnswer
from josefine_broker.engine.metadata.image import SHARE_STATE_TOPIC
from josefine_broker.engine.proposing import answer_when_settled
from josefine_broker.wire.entities import share_group_heartbeat as e


def handle(ctx: Context, info: RequestInfo, request: e.ShareGroupHeartbeatRequest) -> object:
    """Answered when it is committed."""
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    if request.member_epoch == JOINING_EPOCH and SHARE_STATE_TOPIC not in ctx.image.topics:
        return _create_state_topic(ctx)
    interval_ms = config_of(ctx, request.group_id).share_heartbeat_ms
    names = request.subscribed_topic_names
    beat = ShareBeat(
        member_id=request.member_id,
        epoch=request.member_epoch,
        rack_id=request.rack_id,
        topics=None if names is None else frozenset(names),
        client_id=info.header.client_id or "",
        client_host="/" + info.client_address.rpartition(":")[0],
    )

    def build(answer: ShareBeatAnswer) -> e.ShareGroupHeartbeatResponse:
        return _response(answer, interval_ms)

    response = heartbeat(ctx, request.group_id, beat, build, _failed)
    do_groups_work(ctx)
    return response


def refuse(
    request: e.ShareGroupHeartbeatRequest, error: KafkaError
) -> e.ShareGroupHeartbeatResponse:
    """The answer when the whole request is refused."""
    return _failed(error)


def _create_state_topic(ctx: Context) -> object:
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    message = "the topic of the share states was created a moment ago"
    again = KafkaError(ErrorCode.coordinator_not_available, message)
    try:
        proposals = submit_share_state_topic(ctx, deadline_ms)
    except KafkaError as error:
        # Not enough brokers for its replicas yet: every client retries after this code.
        raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error
    return answer_when_settled(ctx, proposals, deadline_ms, lambda: _failed(again))


def _failed(error: KafkaError) -> e.ShareGroupHeartbeatResponse:
    return e.ShareGroupHeartbeatResponse(
        error_code=error.code,
        error_message=error.message or error.code.name,
        member_epoch=0,
        heartbeat_interval_ms=0,
    )


def _response(answer: ShareBeatAnswer, interval_ms: int) -> e.ShareGroupHeartbeatResponse:
    assignment = None
    if answer.parts is not None:
        assignment = e.Assignment(
            topic_partitions=tuple(
                e.TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(answer.parts)
            )
        )
    return e.ShareGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=0 if answer.epoch < JOINING_EPOCH else interval_ms,
        assignment=assignment,
    )
