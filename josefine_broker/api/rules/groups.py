"""Special access rules of groups: committed offsets, and descriptions."""

from dataclasses import replace
from typing import Any

from josefine_broker.api.rules.asker import After, Asker, Refuse
from josefine_broker.api.rules.kinds import parted
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.entities import (
    consumer_group_describe,
    consumer_group_heartbeat,
    find_coordinator,
    offset_delete,
    offset_fetch,
)

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
GROUP_COORDINATOR, SHARE_COORDINATOR = 0, 2


def coordinators(
    asker: Asker, request: find_coordinator.FindCoordinatorRequest, refuse: Refuse
) -> tuple[Any, After | None]:
    """DESCRIBE on each group, or transactional id; only brokers look for share coordinators."""
    if request.key_type == SHARE_COORDINATOR:
        if not asker.may_cluster(Operation.CLUSTER_ACTION):
            raise asker.denied(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        return request, None
    is_group = request.key_type == GROUP_COORDINATOR
    kind = GROUP if is_group else ResourceType.TRANSACTIONAL_ID
    flags = [asker.may(Operation.DESCRIBE, kind, key) for key in request.coordinator_keys]
    if all(flags):
        return request, None
    error = asker.denied(Operation.DESCRIBE, kind)
    if not any(flags):
        raise error
    left, denied = parted(request, "coordinator_keys", flags)
    refused = refuse(denied, error)

    def after(answer: find_coordinator.FindCoordinatorResponse) -> Any:
        return replace(answer, coordinators=(*answer.coordinators, *refused.coordinators))

    return left, after


def fetched_offsets(
    asker: Asker, request: offset_fetch.OffsetFetchRequest, refuse: Refuse
) -> tuple[Any, After | None]:
    """DESCRIBE on each group and on each topic; of all committed offsets, those the client may
    see."""
    flags = [asker.may(Operation.DESCRIBE, GROUP, each.group_id) for each in request.groups]
    refused: tuple[offset_fetch.OffsetFetchResponseGroup, ...] = ()
    if not all(flags):
        error = asker.denied(Operation.DESCRIBE, GROUP)
        if not any(flags):
            raise error
        request, denied = parted(request, "groups", flags)
        refused = refuse(denied, error).groups
    narrowed, hidden = [], []
    for group in request.groups:
        left, told = _narrowed(asker, group, refuse)
        narrowed.append(left)
        hidden.append(told)

    def after(answer: offset_fetch.OffsetFetchResponse) -> offset_fetch.OffsetFetchResponse:
        # With null topics the handler returns every topic of the group: hide the others here.
        groups = []
        for found, told in zip(answer.groups, hidden, strict=True):
            seen = (
                topic
                for topic in found.topics
                if not topic.name or asker.may(Operation.DESCRIBE, TOPIC, topic.name)
            )
            groups.append(replace(found, topics=(*seen, *told)))
        return replace(answer, groups=(*groups, *refused))

    return replace(request, groups=tuple(narrowed)), after


def _narrowed(
    asker: Asker, group: offset_fetch.OffsetFetchRequestGroup, refuse: Refuse
) -> tuple[
    offset_fetch.OffsetFetchRequestGroup, tuple[offset_fetch.OffsetFetchResponseTopics, ...]
]:
    if not group.topics:
        return group, ()
    flags = [asker.may_topic(Operation.DESCRIBE, topic) for topic in group.topics]
    if all(flags):
        return group, ()
    left, denied = parted(group, "topics", flags)
    request = offset_fetch.OffsetFetchRequest(groups=(denied,))
    return left, refuse(request, asker.denied(Operation.DESCRIBE, TOPIC)).groups[0].topics


def deleted_offsets(
    asker: Asker, request: offset_delete.OffsetDeleteRequest, refuse: Refuse
) -> tuple[Any, After | None]:
    """READ on each topic."""
    flags = [asker.may(Operation.READ, TOPIC, topic.name) for topic in request.topics]
    if all(flags):
        return request, None
    code = asker.denied(Operation.READ, TOPIC).code
    left, denied = parted(request, "topics", flags)
    refused = tuple(
        offset_delete.OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=tuple(
                offset_delete.OffsetDeleteResponsePartition(
                    partition_index=part.partition_index, error_code=code
                )
                for part in topic.partitions
            ),
        )
        for topic in denied.topics
    )

    if not any(flags):
        return None, lambda _: offset_delete.OffsetDeleteResponse(topics=refused)

    def after(answer: offset_delete.OffsetDeleteResponse) -> offset_delete.OffsetDeleteResponse:
        return replace(answer, topics=(*answer.topics, *refused))

    return left, after


def subscribed_topics(
    asker: Asker,
    request: consumer_group_heartbeat.ConsumerGroupHeartbeatRequest,
    refuse: Refuse,
) -> tuple[Any, After | None]:
    """DESCRIBE on each topic that a member names; topics that its expression matches are checked
    when it reads them."""
    for name in request.subscribed_topic_names or ():
        if not asker.may(Operation.DESCRIBE, TOPIC, name):
            raise asker.denied(Operation.DESCRIBE, TOPIC)
    return request, None


def described_topics(asker: Asker, request: object, refuse: Refuse) -> tuple[Any, After | None]:
    """A consumer protocol group is shown without members if they read topics that this client may
    not DESCRIBE (KIP-848)."""

    def after(
        answer: consumer_group_describe.ConsumerGroupDescribeResponse,
    ) -> consumer_group_describe.ConsumerGroupDescribeResponse:
        groups = tuple(
            each if all(map(may_see, _topics_of(each))) else hidden(each) for each in answer.groups
        )
        return replace(answer, groups=groups)

    def may_see(topic: str) -> bool:
        return asker.may(Operation.DESCRIBE, TOPIC, topic)

    def hidden(
        group: consumer_group_describe.DescribedGroup,
    ) -> consumer_group_describe.DescribedGroup:
        return consumer_group_describe.DescribedGroup(
            group_id=group.group_id,
            error_code=ErrorCode.topic_authorization_failed,
            error_message="its members read topics that this client may not describe",
        )

    return request, after


def _topics_of(group: consumer_group_describe.DescribedGroup) -> set[str]:
    names = {name for member in group.members for name in member.subscribed_topic_names}
    for member in group.members:
        for assignment in (member.assignment, member.target_assignment):
            names.update(each.topic_name for each in assignment.topic_partitions)
    return names
