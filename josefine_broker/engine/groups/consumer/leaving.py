"""Members go: they leave, are lost, or were told to give up and did not in time; and a group that
nobody is in ends.

Rules: who is gone has nothing any more, and what it had is free; the group's epoch says so. The
next heartbeat of another member makes the target for it. A static member that only goes away keeps
what it has, as long as its session lasts.
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
    """The group when these members are gone; the same where none of them is of it."""
    if not any(member_id in group.members for member_id in gone):
        return group
    members = {key: each for key, each in group.members.items() if key not in gone}
    target = {key: each for key, each in group.target.items() if key not in gone}
    event = ConsumerGroupEvent.CHANGED if members else ConsumerGroupEvent.EMPTIED
    return group.moved(event, epoch=group.epoch + 1, members=members, target=target)


def leave(group: ConsumerGroup, beat: Beat) -> tuple[ConsumerGroup, BeatAnswer]:
    """A heartbeat of epoch -1 or -2. Raises KafkaError(unknown_member_id | fenced_instance_id)."""
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
    """The static member that says it is. Raises KafkaError(unknown_member_id |
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
    """It is told to begin anew."""
    return KafkaError(ErrorCode.unknown_member_id, f"member {member_id} is not of the group")
