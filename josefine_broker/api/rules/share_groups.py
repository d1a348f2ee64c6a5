"""Special access rules of share groups: their descriptions and their offsets (KIP-932)."""

from dataclasses import replace
from typing import Any

from josefine_broker.api.rules.asker import After, Asker, Refuse
from josefine_broker.api.rules.kinds import parted
from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.wire.entities import describe_share_group_offsets, share_group_describe

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


def shared_group(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
    """READ on the group. The handler refuses a request without one, and checks the topics."""
    group_id = request.group_id
    if group_id and not asker.may(Operation.READ, GROUP, group_id):
        raise asker.denied(Operation.READ, GROUP)
    return request, None


def described_share_topics(
    asker: Asker, request: object, refuse: Refuse
) -> tuple[Any, After | None]:
    """A group is shown without members if they read topics that this client may not DESCRIBE."""

    def after(
        answer: share_group_describe.ShareGroupDescribeResponse,
    ) -> share_group_describe.ShareGroupDescribeResponse:
        groups = tuple(
            each
            if all(asker.may(Operation.DESCRIBE, TOPIC, name) for name in _topics_of(each))
            else replace(
                each,
                error_code=ErrorCode.topic_authorization_failed,
                error_message="its members read topics that this client may not describe",
                members=(),
            )
            for each in answer.groups
        )
        return replace(answer, groups=groups)

    return request, after


def _topics_of(group: share_group_describe.DescribedGroup) -> set[str]:
    named = {name for member in group.members for name in member.subscribed_topic_names}
    for member in group.members:
        named.update(each.topic_name for each in member.assignment.topic_partitions)
    return named


def described_share_offsets(
    asker: Asker,
    request: describe_share_group_offsets.DescribeShareGroupOffsetsRequest,
    refuse: Refuse,
) -> tuple[Any, After | None]:
    """DESCRIBE on each group; topics that this client may not DESCRIBE are left out."""
    # Of a request without topics the answer has them all, so topics are judged afterwards.
    flags = [asker.may(Operation.DESCRIBE, GROUP, each.group_id) for each in request.groups]
    refused: tuple[describe_share_group_offsets.DescribeShareGroupOffsetsResponseGroup, ...] = ()
    if not all(flags):
        error = asker.denied(Operation.DESCRIBE, GROUP)
        if not any(flags):
            raise error
        request, denied = parted(request, "groups", flags)
        refused = refuse(denied, error).groups

    def after(
        answer: describe_share_group_offsets.DescribeShareGroupOffsetsResponse,
    ) -> describe_share_group_offsets.DescribeShareGroupOffsetsResponse:
        groups = tuple(
            replace(
                group,
                topics=tuple(
                    each
                    for each in group.topics
                    if asker.may(Operation.DESCRIBE, TOPIC, each.topic_name)
                ),
            )
            for group in answer.groups
        )
        return replace(answer, groups=(*groups, *refused))

    return request, after


def each_share_topic(asker: Asker, request: Any, refuse: Refuse) -> tuple[Any, After | None]:
    """READ on every topic, or the request is refused."""
    for topic in request.topics:
        if not asker.may(Operation.READ, TOPIC, topic.topic_name):
            raise asker.denied(Operation.READ, TOPIC)
    return request, None
