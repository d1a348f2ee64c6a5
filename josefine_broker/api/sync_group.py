"""SyncGroup (key 14): the leader sends its generation's assignment, every member gets its part.

Answered once the assignment is on every in-sync replica of the group's partition. Since version 5 a
member names its protocol (KIP-559).
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators import mixed_groups_host
from josefine_broker.engine.coordinators.groups_host import GroupWait, answer_of, do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.values import Identity, Sync, SyncAnswer
from josefine_broker.wire.entities import sync_group as e

PROTOCOL_SINCE = 5


def handle(ctx: Context, info: RequestInfo, request: e.SyncGroupRequest) -> object:
    """Answered when the assignment is stored."""
    if info.header.api_version >= PROTOCOL_SINCE and None in (
        request.protocol_type,
        request.protocol_name,
    ):
        raise KafkaError(ErrorCode.inconsistent_group_protocol, "no protocol is named")
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    sync = Sync(
        identity=Identity(request.member_id, request.group_instance_id),
        generation=request.generation_id,
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignments=tuple((each.member_id, each.assignment) for each in request.assignments),
    )
    if mixed_groups_host.serving(ctx, request.group_id) is not None:
        response = mixed_groups_host.sync(ctx, request.group_id, sync, _response)
        do_groups_work(ctx)
        return response
    wait = GroupWait(ctx, _response, SyncAnswer(error=ErrorCode.not_coordinator))
    now_ms = ctx.clock.monotonic_ms()
    ctx.clients.groups.coordinator.sync(request.group_id, sync, wait, now_ms)
    return answer_of(ctx, wait)


def refuse(request: e.SyncGroupRequest, error: KafkaError) -> e.SyncGroupResponse:
    """The answer when the whole request is refused."""
    return e.SyncGroupResponse(error_code=error.code)


def _response(answer: SyncAnswer) -> e.SyncGroupResponse:
    return e.SyncGroupResponse(
        error_code=answer.error,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        assignment=answer.assignment,
    )
