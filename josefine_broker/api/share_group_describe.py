"""ShareGroupDescribe (key 77, KIP-932): the state of share groups, with their assignments.

A missing group, and one of another protocol, is GROUP_ID_NOT_FOUND. The answer has the
coordinator's decisions, perhaps a moment before the last of them is committed.
"""

from josefine_broker.api.shared.topics import ALL_GROUP_OPERATIONS
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.offsets_topic import check_group_id, coordinator_of
from josefine_broker.engine.groups.consumer.values import Parts, by_topic
from josefine_broker.engine.groups.share.assignor import ASSIGNOR
from josefine_broker.engine.groups.share.group import ShareMember
from josefine_broker.wire.entities import share_group_describe as e

NOT_ASKED = -2147483648


def handle(
    ctx: Context, info: RequestInfo, request: e.ShareGroupDescribeRequest
) -> e.ShareGroupDescribeResponse:
    """Errors are per group."""
    groups = []
    for group_id in request.group_ids:
        try:
            groups.append(_described(ctx, group_id, request.include_authorized_operations))
        except KafkaError as error:
            groups.append(_failed(group_id, error))
    return e.ShareGroupDescribeResponse(groups=tuple(groups))


def refuse(request: e.ShareGroupDescribeRequest, error: KafkaError) -> e.ShareGroupDescribeResponse:
    """The answer when the whole request is refused."""
    return e.ShareGroupDescribeResponse(
        groups=tuple(_failed(group_id, error) for group_id in request.group_ids)
    )


def _described(ctx: Context, group_id: str, with_operations: bool) -> e.DescribedGroup:
    check_group_id(group_id)
    coordinator_of(ctx, group_id)
    coordinator = ctx.clients.groups.coordinator
    group = coordinator.shares.get(group_id)
    if group is None:
        is_there = coordinator.view(group_id) is not None
        what = "is not a share group" if is_there else "not found"
        raise KafkaError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")
    return e.DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor_name=ASSIGNOR,
        members=tuple(_member(ctx, each) for each in group.members.values()),
        authorized_operations=ALL_GROUP_OPERATIONS if with_operations else NOT_ASKED,
    )


def _member(ctx: Context, member: ShareMember) -> e.Member:
    return e.Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(member.topics)),
        assignment=_assignment(ctx, member.assigned),
    )


def _assignment(ctx: Context, parts: Parts) -> e.Assignment:
    """Only topics that exist."""
    names = ctx.image.topic_names
    return e.Assignment(
        topic_partitions=tuple(
            e.TopicPartitions(topic_id=topic_id, topic_name=names[topic_id], partitions=indexes)
            for topic_id, indexes in by_topic(parts)
            if topic_id in names
        )
    )


def _failed(group_id: str, error: KafkaError) -> e.DescribedGroup:
    return e.DescribedGroup(
        error_code=error.code,
        error_message=error.message or None,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        assignor_name="",
        members=(),
    )
