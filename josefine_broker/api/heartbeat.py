"""Heartbeat (key 12): a member is alive, and learns whether it must rejoin.

While its group is being loaded the answer is success, as in Kafka: in a moment the group is known,
with a new session for the member, and an error would only make its client ask more often.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators import mixed_groups_host
from josefine_broker.engine.coordinators.groups_host import do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.values import Identity
from josefine_broker.wire.entities import heartbeat as e


def handle(ctx: Context, info: RequestInfo, request: e.HeartbeatRequest) -> e.HeartbeatResponse:
    """Answered at once."""
    check_group_id(request.group_id)
    try:
        coordinator_of(ctx, request.group_id)
    except KafkaError as error:
        if error.code is ErrorCode.coordinator_load_in_progress:
            return e.HeartbeatResponse()
        raise
    identity = Identity(request.member_id, request.group_instance_id)
    generation = request.generation_id
    if mixed_groups_host.serving(ctx, request.group_id) is not None:
        code = mixed_groups_host.heartbeat(ctx, request.group_id, identity, generation)
        do_groups_work(ctx)
    else:
        now_ms = ctx.clock.monotonic_ms()
        coordinator = ctx.clients.groups.coordinator
        code = coordinator.heartbeat(request.group_id, identity, generation, now_ms)
    return e.HeartbeatResponse(error_code=code)


def refuse(request: e.HeartbeatRequest, error: KafkaError) -> e.HeartbeatResponse:
    """The answer when the whole request is refused."""
    return e.HeartbeatResponse(error_code=error.code)
