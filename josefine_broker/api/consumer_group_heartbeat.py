"""ConsumerGroupHeartbeat (key 68, KIP-848): a consumer protocol member joins, stays or leaves.

One request replaces JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups: the
coordinator assigns, and each answer brings the member a step closer to its target assignment.
Answered when the group's new state is on every in-sync replica. Since version 1 a client creates
its member id itself; before, a member without one gets one. Served from `group.version` 1.
"""

from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.consumer_groups_host import heartbeat
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.coordinators.groups_host import do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.consumer.values import (
    JOINING_EPOCH,
    Beat,
    BeatAnswer,
    by_topic,
    parts_of,
)
from josefine_broker.engine.metadata.image import GROUP_VERSION
from josefine_broker.wire.entities import consumer_group_heartbeat as e

OWN_ID_SINCE = 1


def handle(ctx: Context, info: RequestInfo, request: e.ConsumerGroupHeartbeatRequest) -> object:
    """Answered when it is committed."""
    if not ctx.image.serves_consumer_groups:
        message = f"the consumer protocol is served from {GROUP_VERSION} 1 on: finalize it"
        raise KafkaError(ErrorCode.unsupported_version, message)
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    interval_ms = config_of(ctx, request.group_id).consumer_heartbeat_ms

    def build(answer: BeatAnswer) -> e.ConsumerGroupHeartbeatResponse:
        return _response(answer, interval_ms)

    response = heartbeat(ctx, request.group_id, _beat(ctx, info, request), build, _failed)
    do_groups_work(ctx)
    return response


def refuse(
    request: e.ConsumerGroupHeartbeatRequest, error: KafkaError
) -> e.ConsumerGroupHeartbeatResponse:
    """The answer when the whole request is refused."""
    return _failed(error)


def _failed(error: KafkaError) -> e.ConsumerGroupHeartbeatResponse:
    return e.ConsumerGroupHeartbeatResponse(
        error_code=error.code, error_message=error.message or error.code.name
    )


def _beat(ctx: Context, info: RequestInfo, request: e.ConsumerGroupHeartbeatRequest) -> Beat:
    member_id = request.member_id
    is_old = info.header.api_version < OWN_ID_SINCE
    if not member_id and is_old and request.member_epoch == JOINING_EPOCH:
        member_id = str(UUID(int=ctx.ports.rng.getrandbits(128), version=4))
    names, owned = request.subscribed_topic_names, request.topic_partitions
    return Beat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=request.instance_id,
        rack_id=request.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=None if names is None else frozenset(names),
        regex=request.subscribed_topic_regex,
        assignor=request.server_assignor,
        owned=None if owned is None else parts_of((o.topic_id, o.partitions) for o in owned),
        client_id=info.header.client_id or "",
        client_host="/" + info.client_address.rpartition(":")[0],
    )


def _response(answer: BeatAnswer, interval_ms: int) -> e.ConsumerGroupHeartbeatResponse:
    assignment = None
    if answer.parts is not None:
        assignment = e.Assignment(
            topic_partitions=tuple(
                e.TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic(answer.parts)
            )
        )
    has_left = answer.epoch < JOINING_EPOCH
    return e.ConsumerGroupHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=0 if has_left else answer.interval_ms(interval_ms),
        assignment=assignment,
    )
