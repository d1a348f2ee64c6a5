"""DescribeGroups (key 15): the state of groups and their members.

A missing group is Dead without an error, since version 6 GROUP_ID_NOT_FOUND (KIP-1043). The group
name may be empty, as simple consumers may have none. A consumer protocol group counts as missing:
ConsumerGroupDescribe covers those (KIP-848). Metadata and assignments of members are included for a
stable group only, as in Kafka.
"""

from josefine_broker.api.shared.topics import ALL_GROUP_OPERATIONS
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.engine.groups.values import Member
from josefine_broker.engine.groups.views import CONSUMER, TEXT, GroupView
from josefine_broker.wire.entities import describe_groups as e

NOT_FOUND_SINCE = 6
NOT_ASKED = -2147483648


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeGroupsRequest
) -> e.DescribeGroupsResponse:
    """Errors are per group."""
    groups = []
    for group_id in request.groups:
        try:
            groups.append(_described(ctx, info, group_id, request.include_authorized_operations))
        except KafkaError as error:
            groups.append(_failed(group_id, error))
    return e.DescribeGroupsResponse(groups=tuple(groups))


def refuse(request: e.DescribeGroupsRequest, error: KafkaError) -> e.DescribeGroupsResponse:
    """The answer when the whole request is refused."""
    return e.DescribeGroupsResponse(
        groups=tuple(_failed(group_id, error) for group_id in request.groups)
    )


def _described(
    ctx: Context, info: RequestInfo, group_id: str, with_operations: bool
) -> e.DescribedGroup:
    coordinator_of(ctx, group_id)
    view = ctx.clients.groups.coordinator.view(group_id)
    operations = ALL_GROUP_OPERATIONS if with_operations else NOT_ASKED
    if view is None or view.group_type == CONSUMER:
        if info.header.api_version >= NOT_FOUND_SINCE:
            what = "not found" if view is None else "is a consumer group"
            raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")
        return e.DescribedGroup(
            group_id=group_id,
            group_state=GroupState.DEAD.value,
            authorized_operations=operations,
        )
    is_stable = view.state is GroupState.STABLE
    return e.DescribedGroup(
        group_id=group_id,
        group_state=view.state.value,
        protocol_type=view.protocol_type,
        protocol_data=(view.protocol_name or "") if is_stable else "",
        members=(
            *(_member(view, each, is_stable) for each in view.members),
            *(_subscription(tp, id_) for tp, id_ in sorted(view.holders.items())),
        ),
        authorized_operations=operations,
    )


def _member(view: GroupView, member: Member, is_stable: bool) -> e.DescribedGroupMember:
    return e.DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.metadata(view.protocol_name) if is_stable else b"",
        member_assignment=member.assignment if is_stable else b"",
    )


def _subscription(tp: TopicPartition, id_: str) -> e.DescribedGroupMember:
    """A member of the text protocol; its assignment is the name of its partition."""
    return e.DescribedGroupMember(
        member_id=id_,
        client_id=TEXT,
        client_host="",
        member_metadata=b"",
        member_assignment=str(tp).encode(),
    )


def _failed(group_id: str, error: KafkaError) -> e.DescribedGroup:
    is_missing = error.code is ErrorCode.group_id_not_found
    return e.DescribedGroup(
        error_code=error.code,
        error_message=error.message or None,
        group_id=group_id,
        group_state=GroupState.DEAD.value if is_missing else "",
    )
