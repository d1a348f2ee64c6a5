"""Which committed offsets are old, as Kafka has it since KIP-211.

An offset is kept for the retention time from its last commit, in a group that became empty later
than that from then on. Of a group with members only offsets of topics expire that nobody in it
reads any more; of one in a rebalance none, nor where what its members read is not to be understood.
A commit of the oldest clients may say itself until when it is to be kept (KIP-211 ended that).
"""

from collections.abc import Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.groups.offsets import NO_EXPIRY_MS, CommittedOffset
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.engine.groups.values import CONSUMER_PROTOCOL_TYPE


def subscribed(group: Group) -> frozenset[str] | None:
    """The topics that its members read; None where that is not known."""
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
    """What is to be deleted at this time of the wall clock."""
    if group.writes:
        return []  # it is about to be something else
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
    """What was committed so long ago, and not needed since `since_ms`. A consumer group's time
    counts from each commit alone, as in Kafka: its record does not say since when it is empty."""

    def is_old(each: CommittedOffset) -> bool:
        if each.expire_ms != NO_EXPIRY_MS:
            return wall_ms >= each.expire_ms
        return wall_ms - max(each.commit_time_ms, since_ms) >= retention_ms

    return [tp for tp, each in committed.items() if is_old(each)]
