"""The expiration of committed offsets, as in Kafka since KIP-211.

An offset stays for the retention time after its last commit, or after its group became empty if
that was later. In a group with members, only offsets of topics expire that no member reads any
more; none expire during a rebalance, or if a subscription cannot be parsed. A commit of very old
clients may contain its own expiration time (which KIP-211 removed).
"""

from collections.abc import Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.groups.offsets import NO_EXPIRY_MS, CommittedOffset
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.engine.groups.values import CONSUMER_PROTOCOL_TYPE


def subscribed(group: Group) -> frozenset[str] | None:
    """The topics that its members read; None if that is unknown."""
    if group.protocol_type != CONSUMER_PROTOCOL_TYPE or group.protocol_name is None:
        return None
    found: set[str] = set()
    for member in group.members.values():
        topics = protocols.subscribed_topics(member.metadata(group.protocol_name))
        if topics is None:
            return None
        found |= topics
    return frozenset(found)


def expired(
    group: Group,
    committed: Mapping[TopicPartition, CommittedOffset],
    retention_ms: int,
    wall_ms: int,
) -> list[TopicPartition]:
    """The offsets to delete at this wall clock time."""
    if group.writes:
        return []  # a change is being stored
    read: frozenset[str] | None = frozenset()
    if group.state is not GroupState.EMPTY:
        read = subscribed(group) if group.state is GroupState.STABLE else None
    if read is None:
        return []
    since_ms = -1 if group.empty_since_ms is None else group.empty_since_ms
    return [tp for tp in old(committed, retention_ms, wall_ms, since_ms) if tp.topic not in read]


def old(
    committed: Mapping[TopicPartition, CommittedOffset],
    retention_ms: int,
    wall_ms: int,
    since_ms: int = -1,
) -> list[TopicPartition]:
    """The offsets that were last committed, and last needed (`since_ms`), too long ago. For a
    consumer group each commit time counts alone, as in Kafka: its record does not contain the time
    when it became empty."""

    def is_old(each: CommittedOffset) -> bool:
        if each.expire_ms != NO_EXPIRY_MS:
            return wall_ms >= each.expire_ms
        return wall_ms - max(each.commit_time_ms, since_ms) >= retention_ms

    return [tp for tp, each in committed.items() if is_old(each)]
