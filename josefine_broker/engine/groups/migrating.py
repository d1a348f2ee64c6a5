"""The change of a group's protocol, while it is empty or together with its members (KIP-848).

Rules: generations and epochs are one number, which never decreases. Members move only if the group
is a stable one of consumers, every member has got its assignment, and all subscriptions and
assignments can be parsed. The assignment becomes the target assignment of the new group. If a
cooperative member joined with more partitions than it was assigned, it keeps the rest until it
joins without them. In the other direction, the remaining classic members start with a rebalance, in
the generation that is the group's epoch.
"""

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.consumer.embedded import (
    read_assignment,
    read_subscription,
    write_assignment,
    write_subscription,
)
from josefine_broker.engine.groups.consumer.replay import state_of
from josefine_broker.engine.groups.consumer.states import ConsumerMemberState
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import ClassicSide, ConsumerGroup, ConsumerMember
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.groups.states import GroupState, MemberState
from josefine_broker.engine.groups.values import (
    CONSUMER_PROTOCOL_TYPE,
    GroupRecord,
    Member,
    Protocol,
)


def emptied(group: Group) -> ConsumerGroup:
    """The consumer group that a classic group without members becomes."""
    epoch = group.generation
    return ConsumerGroup(group_id=group.group_id, epoch=epoch, target_epoch=epoch)


def empty_record(group: ConsumerGroup) -> GroupRecord:
    """The record of the classic group that an empty consumer group becomes."""
    return GroupRecord(
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=None,
        leader_id=None,
    )


def upgraded(group: Group, topics: Topics) -> ConsumerGroup:
    """The consumer group with the same members and assignments. Raises KafkaError:
    INCONSISTENT_GROUP_PROTOCOL if it is not possible, COORDINATOR_LOAD_IN_PROGRESS, after which
    clients retry, while the group rebalances."""
    if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _cannot(group, "are not consumers")
    # A write in flight, or an id that a client is about to join with, may still change members.
    is_settled = not group.writes and not group.reserved
    if group.state is not GroupState.STABLE or not is_settled or not _all_heard(group):
        message = f"group {group.group_id} is rebalancing in the classic protocol: try again"
        raise KafkaError(ErrorCode.coordinator_load_in_progress, message)
    members = {each.member_id: _member(group, each, topics) for each in group.members.values()}
    became = ConsumerGroup(
        group_id=group.group_id,
        epoch=group.generation,
        metadata_hash=0,  # forces a new epoch, because the assignment may not cover all partitions
        target_epoch=group.generation,
        members=members,
        target={key: each.assigned for key, each in members.items()},
    )
    return replace(became, state=state_of(became))


def downgraded(
    group: ConsumerGroup, names: Mapping[UUID, str], session_timeout_ms: int
) -> GroupRecord:
    """The record of the classic group that is left when all members of the consumer protocol are
    gone. Those members are still in it, as in any classic group until its next generation: a
    coordinator that loads it finds their sessions expired, and calls the others."""
    left = [
        _as_classic(member, member.classic, names)
        for member in group.members.values()
        if member.classic is not None
    ]
    # Of those that stay: the others are in the record for their partitions alone.
    name = protocols.select(left)
    gone = [
        _as_classic(
            member,
            ClassicSide(session_timeout_ms, ((name, write_subscription(member.topics)),)),
            names,
        )
        for member in group.members.values()
        if member.classic is None
    ]
    return GroupRecord(
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=name,
        leader_id=left[0].member_id,
        members=(*left, *gone),
    )


def _as_classic(member: ConsumerMember, side: ClassicSide, names: Mapping[UUID, str]) -> Member:
    """The member in the classic protocol's terms: `side` has its assignors, and the assignment is
    encoded as a classic leader would have sent it."""
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=side.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(Protocol(name, data) for name, data in side.protocols),
        assignment=write_assignment(member.assigned, names),
        state=MemberState.ASSIGNED,
    )


def _all_heard(group: Group) -> bool:
    """Whether every member has got its assignment, and no request of one waits."""
    return all(each.state is MemberState.ASSIGNED for each in group.members.values())


def _member(group: Group, member: Member, topics: Topics) -> ConsumerMember:
    """The member with its assignment, and what it has to revoke: a cooperative client may still own
    partitions that it was not assigned. Raises KafkaError(inconsistent_group_protocol)."""
    said = read_subscription(member.metadata(group.protocol_name))
    assigned = read_assignment(member.assignment, topics)
    if said is None or assigned is None:
        raise _cannot(group, "have a subscription or assignment that cannot be parsed")
    revoking = said.parts(topics) - assigned
    state = ConsumerMemberState.UNREVOKED_PARTITIONS if revoking else ConsumerMemberState.STABLE
    return ConsumerMember(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topics=said.topics,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        epoch=group.generation,
        previous_epoch=group.generation,
        state=state,
        assigned=assigned,
        revoking=revoking,
        classic=ClassicSide(
            member.session_timeout_ms, tuple((name, data) for name, data in member.protocols)
        ),
    )


def _cannot(group: Group, why: str) -> KafkaError:
    message = f"group {group.group_id} has members of the classic protocol that {why}"
    return KafkaError(ErrorCode.inconsistent_group_protocol, message)
