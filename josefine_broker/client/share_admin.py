"""Administration of share groups (KIP-932): members, start offsets and lag, alteration, deletion.

All of it is answered by the group's coordinator. A share group has a start offset of each partition
instead of committed offsets: every record below it is finished.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.effects import Operation
from josefine_broker.client.groups import ask_coordinator
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

SHARE = "share"
"""Type of such a group."""
UNKNOWN = -1
"""Of a start offset or a lag."""


class ShareOffset(NamedTuple):
    """Where a group is in a partition."""

    start: int
    lag: int | None
    """None: the coordinator does not know it."""


def describe_members(
    session: Session, attempts: Attempts, group: str
) -> Operation[e.share_group_describe.DescribedGroup | None]:
    """A share group as its coordinator describes it; None: there is none, or the broker does not
    serve them."""
    request = e.share_group_describe.ShareGroupDescribeRequest(
        group_ids=(group,), include_authorized_operations=False
    )
    try:
        response = yield from ask_coordinator(
            session,
            attempts,
            group,
            apis.SHARE_GROUP_DESCRIBE,
            request,
            lambda r: _error(r.groups[0], ErrorCode.group_id_not_found),
        )
    except KafkaError as error:
        if error.code is ErrorCode.unsupported_version:
            return None
        raise
    found: e.share_group_describe.DescribedGroup = response.groups[0]
    return found if found.error_code is ErrorCode.none else None


def share_offsets(
    session: Session, group: str, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, ShareOffset]]:
    """The start offset and the lag of each partition of which the group has state."""
    d = e.describe_share_group_offsets
    wanted = d.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    response = yield from ask_coordinator(
        session,
        session.start(now_ms, deadline_ms, f"offsets of share group '{group}'"),
        group,
        apis.DESCRIBE_SHARE_GROUP_OFFSETS,
        d.DescribeShareGroupOffsetsRequest(groups=(wanted,)),
        lambda r: _error(r.groups[0]),
    )
    return {
        TopicPartition(topic.topic_name, part.partition_index): ShareOffset(
            part.start_offset, None if part.lag == UNKNOWN else part.lag
        )
        for topic in response.groups[0].topics
        for part in topic.partitions
        if part.error_code is ErrorCode.none and part.start_offset != UNKNOWN
    }


def alter_share_offsets(
    session: Session,
    group: str,
    starts: Mapping[TopicPartition, int],
    now_ms: int,
    deadline_ms: int,
) -> Operation[None]:
    """Let a group without members start there. Raises KafkaError for the first partition that is
    refused; the others may be altered."""
    # A new state epoch for each partition: a leader that still knows the old one is fenced.
    a = e.alter_share_group_offsets
    topics = tuple(
        a.AlterShareGroupOffsetsRequestTopic(
            topic_name=topic,
            partitions=tuple(
                a.AlterShareGroupOffsetsRequestPartition(
                    partition_index=index, start_offset=starts[TopicPartition(topic, index)]
                )
                for index in indexes
            ),
        )
        for topic, indexes in by_topic(starts).items()
    )

    def check(response: Any) -> KafkaError | None:
        return _first_error(
            response,
            ((f"{t.topic_name}-{p.partition_index}", p) for t in response.responses
             for p in t.partitions),
        )  # fmt: skip

    yield from ask_coordinator(
        session,
        session.start(now_ms, deadline_ms, f"alter offsets of share group '{group}'"),
        group,
        apis.ALTER_SHARE_GROUP_OFFSETS,
        a.AlterShareGroupOffsetsRequest(group_id=group, topics=topics),
        check,
    )


def delete_share_offsets(
    session: Session, group: str, topics: Collection[str], now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Forget topics of a group without members. Raises KafkaError for the first that is refused."""
    d = e.delete_share_group_offsets
    named = tuple(d.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in topics)
    yield from ask_coordinator(
        session,
        session.start(
            now_ms, deadline_ms, f"delete offsets of share group '{group}'", unknown_is_final=True
        ),
        group,
        apis.DELETE_SHARE_GROUP_OFFSETS,
        d.DeleteShareGroupOffsetsRequest(group_id=group, topics=named),
        lambda r: _first_error(r, ((each.topic_name, each) for each in r.responses)),
    )


def _first_error(response: Any, parts: Any) -> KafkaError | None:
    """The error of the whole answer, or of the first part that has one."""
    error = _error(response)
    if error is not None:
        return error
    for name, part in parts:
        error = _error(part)
        if error is not None:
            return KafkaError(error.code, f"{name}: {error.message}")
    return None


def _error(result: Any, *no_errors: ErrorCode) -> KafkaError | None:
    code: ErrorCode = result.error_code
    if code is ErrorCode.none or code in no_errors:
        return None
    return KafkaError(code, result.error_message or code.name.replace("_", " "))
