"""The departure of members: they leave, are lost, or did not revoke in time. A group without
members is empty.

Rules: a member that is gone owns nothing, its partitions are free, and the group's epoch grows. The
next heartbeat of another member computes the target assignment. A static member that is only away
keeps its partitions until its session ends.
"""

from collections.abc import Collection
from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.states import ConsumerGroupEvent
from josefine_broker.engine.groups.consumer.values import (
    AWAY_EPOCH,
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerMember,
)


def without(group: ConsumerGroup, gone: Collection[str]) -> ConsumerGroup:
    """The group without these members; the same object if none of them is in it."""
    if not any(member_id in group.members for member_id in gone):
        return group
    members = {key: each for key, each in group.members.items() if key not in gone}
    target = {key: each for key, each in group.target.items() if key not in gone}
    event = ConsumerGroupEvent.CHANGED if members else ConsumerGroupEvent.EMPTIED
    return group.moved(event, epoch=group.epoch + 1, members=members, target=target)


def leave(group: ConsumerGroup, beat: Beat) -> tuple[ConsumerGroup, BeatAnswer]:
    """Handle a heartbeat of epoch -1 or -2. Raises KafkaError(unknown_member_id |
    fenced_instance_id)."""
    member = _leaving(group, beat)
    answer = BeatAnswer(member_id=member.member_id, epoch=beat.epoch)
    if beat.epoch == AWAY_EPOCH:
        return group.with_member(replace(member, epoch=AWAY_EPOCH)).settled(), answer
    return without(group, (member.member_id,)), answer


def _leaving(group: ConsumerGroup, beat: Beat) -> ConsumerMember:
    if beat.instance_id is not None:
        return static_of(group, beat.instance_id, beat.member_id)
    member = group.members.get(beat.member_id)
    if member is None:
        raise unknown_member(beat.member_id)
    return member


def static_of(group: ConsumerGroup, instance_id: str, member_id: str) -> ConsumerMember:
    """The static member with this identity. Raises KafkaError(unknown_member_id |
    fenced_instance_id): another process has its instance id."""
    member = group.static_member(instance_id)
    if member is None:
        raise KafkaError(
            ErrorCode.unknown_member_id, f"no member has the instance id {instance_id}"
        )
    if member.member_id != member_id:
        raise KafkaError(
            ErrorCode.fenced_instance_id,
            f"member {member.member_id} has the instance id {instance_id}",
        )
    return member


def unknown_member(member_id: str) -> KafkaError:
    """The error after which a client joins again."""
    return KafkaError(ErrorCode.unknown_member_id, f"member {member_id} is not in the group")
