"""A member on its way from what it has to what the target gives it: KIP-848's reconciliation.

Rules: what a member is to lose it is told first, and nobody gets it before that member said that it
does not have it any more, left, or was lost; until then it stays in its epoch. Then it comes to the
target's epoch with all that is free, and gets the rest when others released it.

A member that begins anew has nothing, but a join may be an old one, of a connection that its client
gave up long ago: then its member has what it was told since. No join tells the one from the other,
a heartbeat in the epoch that it is answered with does: only who heard that answer can say it.
"""

from josefine_broker.engine.groups.consumer.states import ConsumerMemberEvent, ConsumerMemberState
from josefine_broker.engine.groups.consumer.values import (
    JOINING_EPOCH,
    NO_PARTS,
    ConsumerGroup,
    ConsumerMember,
    Parts,
)


def reconciled(group: ConsumerGroup, member: ConsumerMember, owned: Parts | None) -> ConsumerMember:
    """The member one step further, the same object where there is none to go. `owned` is what it
    says that it has; None: it does not say."""
    if member.epoch == group.target_epoch and member.state is ConsumerMemberState.STABLE:
        return member
    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and _has_any(
        owned, member.revoking
    ):
        return member
    after = _towards_target(group, member, owned)
    return member if after == member else after


def begun_anew(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """The member that joins, in the target's epoch at once; the same object where it is as it was.
    What it is not to have any more is free with its first heartbeat there. If it is in that epoch
    already, it keeps what it has, and its next heartbeat adds to it."""
    target = group.target_of(member.member_id)
    had = member.assigned | member.revoking
    if member.epoch == group.target_epoch:
        # If the join is an old one, nobody hears its answer, and the client goes on in this epoch.
        # It is only notified of what its own heartbeats add, so those must add what is free.
        has = had & target
    else:
        has = target - group.held_by_others(member.member_id)
    lost = had - target
    has_all = has == target and not lost
    event = ConsumerMemberEvent.HAS_ALL if has_all else ConsumerMemberEvent.MUST_WAIT
    after = member.moved(event, group.target_epoch, has, lost)
    return member if after == member else after


def joined_again(group: ConsumerGroup, member: ConsumerMember, owned: Parts) -> ConsumerMember:
    """The member after a JoinGroup by which it has `owned`: in the target's epoch, or in its own,
    where it is still to give some of that up. It waits until it asks what it has."""
    target = group.target_of(member.member_id)
    had = member.assigned | member.revoking
    if member.epoch != JOINING_EPOCH and (had & owned) - target:
        event = ConsumerMemberEvent.MUST_GIVE_UP
        return member.moved(event, member.epoch, member.assigned & target, had - target)
    has = target - group.held_by_others(member.member_id)
    event = ConsumerMemberEvent.MUST_WAIT
    return member.moved(event, group.target_epoch, has, had - target)


def asked(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """The member after a SyncGroup in its epoch: what it had before it joined for that is free."""
    if member.state is not ConsumerMemberState.UNRELEASED_PARTITIONS:
        return member
    is_of_target = member.epoch == group.target_epoch
    has_all = is_of_target and member.assigned == group.target_of(member.member_id)
    event = ConsumerMemberEvent.HAS_ALL if has_all else ConsumerMemberEvent.MUST_WAIT
    after = member.moved(event, member.epoch, member.assigned, NO_PARTS)
    return member if after == member else after


def _towards_target(
    group: ConsumerGroup, member: ConsumerMember, owned: Parts | None
) -> ConsumerMember:
    target = group.target_of(member.member_id)
    keeps = member.assigned & target
    loses = member.assigned - target
    if loses and _has_any(owned, loses):
        return member.moved(ConsumerMemberEvent.MUST_GIVE_UP, member.epoch, keeps, loses)
    wants = target - keeps
    free = wants - group.held_by_others(member.member_id) if wants else NO_PARTS
    event = ConsumerMemberEvent.HAS_ALL if free == wants else ConsumerMemberEvent.MUST_WAIT
    return member.moved(event, group.target_epoch, keeps | free, NO_PARTS)


def _has_any(owned: Parts | None, parts: Parts) -> bool:
    """Who does not say what it has has all that it had."""
    return owned is None or not owned.isdisjoint(parts)
