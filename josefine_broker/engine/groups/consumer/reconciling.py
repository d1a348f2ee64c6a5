"""The reconciliation of one member: from the partitions it owns to its target (KIP-848).

Rules: a member first has to revoke partitions that are not in its target. Nobody else gets them
before that member has confirmed it, left, or was lost; until then it stays in its epoch. Then it
moves to the target's epoch with all partitions that are free, and gets the rest when others have
released them.

A member that joins again owns nothing. But the join may be an old one, from a connection that its
client has given up, and then the member owns what it was assigned since. The join itself does not
show the difference; a heartbeat in the epoch of its answer does, because only a client that got the
answer knows the epoch.
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
    """The member one step further, or the same object if there is no step. `owned` is what it
    reports to own; None: it reports nothing."""
    if member.epoch == group.target_epoch and member.state is ConsumerMemberState.STABLE:
        return member
    if member.state is ConsumerMemberState.UNREVOKED_PARTITIONS and _has_any(
        owned, member.revoking
    ):
        return member
    after = _towards_target(group, member, owned)
    return member if after == member else after


def begun_anew(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """The member after it joined again, at once in the target's epoch; the same object if nothing
    changes. Its first heartbeat in that epoch frees what is no longer in its target. If it is in
    that epoch already, it keeps what it owns, and its next heartbeat adds to it."""
    target = group.target_of(member.member_id)
    had = member.assigned | member.revoking
    if member.epoch == group.target_epoch:
        # If the join is an old one, its answer is lost, and the client continues in this epoch. It
        # only learns of partitions that its own heartbeats add, so those must add the free ones.
        has = had & target
    else:
        has = target - group.held_by_others(member.member_id)
    lost = had - target
    has_all = has == target and not lost
    event = ConsumerMemberEvent.HAS_ALL if has_all else ConsumerMemberEvent.MUST_WAIT
    after = member.moved(event, group.target_epoch, has, lost)
    return member if after == member else after


def joined_again(group: ConsumerGroup, member: ConsumerMember, owned: Parts) -> ConsumerMember:
    """The member after a JoinGroup that reports `owned`: in the target's epoch, or in its own while
    it still has to revoke some of that. It waits until it requests its assignment."""
    target = group.target_of(member.member_id)
    had = member.assigned | member.revoking
    if member.epoch != JOINING_EPOCH and (had & owned) - target:
        event = ConsumerMemberEvent.MUST_GIVE_UP
        return member.moved(event, member.epoch, member.assigned & target, had - target)
    has = target - group.held_by_others(member.member_id)
    event = ConsumerMemberEvent.MUST_WAIT
    return member.moved(event, group.target_epoch, has, had - target)


def asked(group: ConsumerGroup, member: ConsumerMember) -> ConsumerMember:
    """The member after a SyncGroup in its epoch, which frees what it owned before that join."""
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
    """First it gives up what is not in its target, in its present epoch. Only when it reports that
    it did, it moves to the epoch of the target, with what no other member holds. So two members
    never own one partition (KIP-848)."""
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
    """Whether it owns any of these; a member that reports nothing is assumed to own all."""
    return owned is None or not owned.isdisjoint(parts)
