"""Group descriptions for admin clients, and the restoration of a classic group from its record."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.groups.consumer.states import ConsumerGroupState
from josefine_broker.engine.groups.consumer.values import ConsumerGroup
from josefine_broker.engine.groups.group import Group, GroupCounts
from josefine_broker.engine.groups.records import NO_TIMESTAMP_MS, StoredGroup
from josefine_broker.engine.groups.share.group import ShareGroup
from josefine_broker.engine.groups.share.states import ShareGroupState
from josefine_broker.engine.groups.states import GroupState
from josefine_broker.engine.groups.values import CONSUMER_PROTOCOL_TYPE, Member

CLASSIC, CONSUMER, SHARE, TEXT = "classic", "consumer", "share", "text"
"""Group types: those of KIP-848 and KIP-932, and that of the text protocol."""
NO_HOLDERS: Mapping[TopicPartition, str] = MappingProxyType({})


class GroupView(NamedTuple):
    """The description of a group."""

    group_id: str
    state: GroupState | ConsumerGroupState | ShareGroupState
    protocol_type: str
    protocol_name: str | None
    members: tuple[Member, ...]
    """Set for a classic group."""
    size: int
    """Number of members."""
    group_type: str = CLASSIC
    holders: Mapping[TopicPartition, str] = NO_HOLDERS
    """Set for a group of the text protocol."""


def view_of_classic(group: Group) -> GroupView:
    """The view of a classic group; one that has only offsets is empty."""
    return GroupView(
        group.group_id,
        group.state,
        group.protocol_type,
        group.protocol_name,
        tuple(group.members.values()),
        len(group.members),
    )


def view_of_consumer(group: ConsumerGroup) -> GroupView:
    """The view of a consumer group; ConsumerGroupDescribe returns its members."""
    size = len(group.members)
    return GroupView(group.group_id, group.state, CONSUMER_PROTOCOL_TYPE, None, (), size, CONSUMER)


def view_of_share(group: ShareGroup) -> GroupView:
    """The view of a share group; ShareGroupDescribe returns its members."""
    size = len(group.members)
    return GroupView(group.group_id, group.state, SHARE, None, (), size, SHARE)


def view_of_text(group_id: str, holders: Mapping[TopicPartition, str]) -> GroupView:
    """The view of a text group; its members are its subscriptions, each of one partition."""
    state = GroupState.STABLE
    return GroupView(group_id, state, TEXT, None, (), len(holders), TEXT, dict(holders))


def restored(
    group_id: str, write_ids: Iterator[int], counts: GroupCounts, stored: StoredGroup
) -> Group:
    """The classic group in its record's state."""
    record, stamped_ms = stored
    state = GroupState.STABLE if record.members else GroupState.EMPTY
    group = Group(group_id, write_ids, counts, state)
    group.generation = record.generation
    group.protocol_type = record.protocol_type
    group.protocol_name = record.protocol_name
    group.leader_id = record.leader_id
    for member in record.members:
        group.put(member)
    # KIP-211: the offsets of an empty group expire from that time on, over any number of failovers.
    if not record.members and stamped_ms != NO_TIMESTAMP_MS:
        group.empty_since_ms = stamped_ms
    return group
