"""LeaveGroup (key 13): members leave, and the others share their partitions.

Several members since version 3, static ones by their instance alone (KIP-345): an admin removes a
member whose process will not return.
"""

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators import mixed_groups_host
from josefine_broker.engine.coordinators.groups_host import do_groups_work
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.values import Identity
from josefine_broker.wire.entities import leave_group as e


def handle(ctx: Context, info: RequestInfo, request: e.LeaveGroupRequest) -> e.LeaveGroupResponse:
    """Answered at once; errors are per member."""
    check_group_id(request.group_id)
    coordinator_of(ctx, request.group_id)
    leaving = [Identity(each.member_id, each.group_instance_id) for each in request.members]
    if mixed_groups_host.serving(ctx, request.group_id) is not None:
        codes = mixed_groups_host.leave(ctx, request.group_id, leaving)
    else:
        now_ms = ctx.clock.monotonic_ms()
        codes = ctx.clients.groups.coordinator.leave(request.group_id, leaving, now_ms)
    do_groups_work(ctx)
    return e.LeaveGroupResponse(
        members=tuple(
            e.MemberResponse(
                member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=code
            )
            for each, code in zip(request.members, codes, strict=True)
        )
    )


def refuse(request: e.LeaveGroupRequest, error: KafkaError) -> e.LeaveGroupResponse:
    """The answer when the whole request is refused."""
    return e.LeaveGroupResponse(error_code=error.code)
