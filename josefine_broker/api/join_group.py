"""JoinGroup (key 11): join a group, or rejoin for its next generation.

The answer waits for the other members, up to the longest rebalance timeout of any. Versions with a
changed meaning: since 4 a new member gets its id first (KIP-394), since 9 a leader that rejoined
may be asked to keep the assignment (KIP-814); version 0 has no rebalance timeout and uses the
session timeout. A group with consumer protocol members answers at once if it may mix both protocols
(KIP-848), otherwise it refuses; an empty one becomes a classic group and keeps its committed
offsets.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators import mixed_groups_host
from josefine_broker.engine.coordinators.consumer_groups_host import give_name_to_classic
from josefine_broker.engine.coordinators.groups_host import GroupWait, answer_of, do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.values import Join, JoinAnswer, Protocol
from josefine_broker.wire.entities import join_group as e

ID_FIRST_SINCE = 4
MAY_SKIP_ASSIGNMENT_SINCE = 9
REBALANCE_TIMEOUT_SINCE = 1


def handle(ctx: Context, info: RequestInfo, request: e.JoinGroupRequest) -> object:
    """Answered when the join phase is over."""
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    if mixed_groups_host.serving(ctx, request.group_id) is not None:
        response = mixed_groups_host.join(ctx, request.group_id, _join(info, request), _response)
        do_groups_work(ctx)
        return response
    give_name_to_classic(ctx, request.group_id)
    unanswered = JoinAnswer(error=ErrorCode.not_coordinator, member_id=request.member_id)
    wait = GroupWait(ctx, _response, unanswered)
    now_ms = ctx.clock.monotonic_ms()
    join = _join(info, request)
    ctx.clients.groups.coordinator.join(request.group_id, join, wait, now_ms, ctx.ports.rng)
    return answer_of(ctx, wait)


def refuse(request: e.JoinGroupRequest, error: KafkaError) -> e.JoinGroupResponse:
    """The answer when the whole request is refused."""
    return e.JoinGroupResponse(error_code=error.code, member_id=request.member_id)


def _join(info: RequestInfo, request: e.JoinGroupRequest) -> Join:
    version = info.header.api_version
    has_timeout = version >= REBALANCE_TIMEOUT_SINCE
    return Join(
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        client_id=info.header.client_id or "",
        client_host="/" + info.client_address.rpartition(":")[0],
        session_timeout_ms=request.session_timeout_ms,
        rebalance_timeout_ms=(
            request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms
        ),
        protocol_type=request.protocol_type,
        protocols=tuple(Protocol(each.name, each.metadata) for each in request.protocols),
        takes_id_first=version >= ID_FIRST_SINCE,
        may_skip_assignment=version >= MAY_SKIP_ASSIGNMENT_SINCE,
    )


def _response(answer: JoinAnswer) -> e.JoinGroupResponse:
    return e.JoinGroupResponse(
        error_code=answer.error,
        generation_id=answer.generation,
        protocol_type=answer.protocol_type,
        protocol_name=answer.protocol_name,
        leader=answer.leader_id,
        skip_assignment=answer.skip_assignment,
        member_id=answer.member_id,
        members=tuple(
            e.JoinGroupResponseMember(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                metadata=each.metadata,
            )
            for each in answer.members
        ),
    )
