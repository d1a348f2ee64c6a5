"""A group that changes its protocol: while it is empty, and a classic one also with its members
when it becomes one of the consumer protocol (KIP-848).

Rules: generations and epochs are one count, which never falls. With members only a group of
consumers that is stable, whose members all heard their assignments, and said and got what we can
read: what they were given is the target that the next one begins with. A cooperative member that
joined with more than it was given has the rest until it joins without it.
"""

from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.embedded import read_assignment, read_subscription
from josefine_broker.engine.groups.consumer.replay import state_of
from josefine_broker.engine.groups.consumer.states import ConsumerMemberState
from josefine_broker.engine.groups.consumer.subscriptions import Topics, metadata_hash
from josefine_broker.engine.groups.consumer.values import ClassicSide, ConsumerGroup, ConsumerMember
from josefine_broker.engine.groups.group import Group
from josefine_broker.engine.groups.states import GroupState, MemberState
from josefine_broker.engine.groups.values import CONSUMER_PROTOCOL_TYPE, GroupRecord, Member


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
        metadata_hash=metadata_hash(members, topics),
        target_epoch=group.generation,
        members=members,
        target={key: each.assigned for key, each in members.items()},
    )
    return replace(became, state=state_of(became))


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
