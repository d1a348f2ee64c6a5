"""A group that changes its protocol: while it is empty, or with its members (KIP-848).

Rules: generations and epochs are one count, which never falls. With members only a group of
consumers that is stable, whose members all heard their assignments, and said and got what we can
read: what they were given is the target that the next one begins with. A cooperative member that
joined with more than it was given has the rest until it joins without it. Back again: the classic
members that are left begin with a rebalance, in the generation that is the group's epoch.
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
    """Of a classic group without members."""
    epoch = group.generation
    return ConsumerGroup(group_id=group.group_id, epoch=epoch, target_epoch=epoch)


def empty_record(group: ConsumerGroup) -> GroupRecord:
    """What the log is to say of the classic group that an empty one becomes."""
    return GroupRecord(
        generation=group.epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=None,
        leader_id=None,
    )


def upgraded(group: Group, topics: Topics) -> ConsumerGroup:
    """The same members, with what they have. Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL where
    it can not be, COORDINATOR_LOAD_IN_PROGRESS, at which clients try again, while it rebalances."""
    if group.members and group.protocol_type != CONSUMER_PROTOCOL_TYPE:
        raise _cannot(group, "are no consumers")
    is_settled = not group.writes and not group.reserved
    if group.state is not GroupState.STABLE or not is_settled or not _all_heard(group):
        message = f"group {group.group_id} rebalances by the classic protocol: try again"
        raise KafkaError(ErrorCode.coordinator_load_in_progress, message)
    members = {each.member_id: _member(group, each, topics) for each in group.members.values()}
    became = ConsumerGroup(
        group_id=group.group_id,
        epoch=group.generation,
        metadata_hash=0,  # what they were given may not be all there is: the next epoch sees to it
        target_epoch=group.generation,
        members=members,
        target={key: each.assigned for key, each in members.items()},
    )
    return replace(became, state=state_of(became))


def downgraded(
    group: ConsumerGroup, names: Mapping[UUID, str], session_timeout_ms: int
) -> GroupRecord:
    """What the log is to say of the classic group that a group becomes of which only classic
    members are left. Who went is still in it, as in any classic group until its next generation: a
    coordinator that begins with it misses them when a session is over, and calls the others."""
    left = [
        _as_classic(member, member.classic, names)
        for member in group.members.values()
        if member.classic is not None
    ]
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
    return all(each.state is MemberState.ASSIGNED for each in group.members.values())


def _member(group: Group, member: Member, topics: Topics) -> ConsumerMember:
    said = read_subscription(member.metadata(group.protocol_name))
    assigned = read_assignment(member.assignment, topics)
    if said is None or assigned is None:
        raise _cannot(group, "said what is not to be understood")
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
