"""Classic members in a consumer-protocol group: the effect of their JoinGroup, SyncGroup and
Heartbeat (KIP-848, while clients are migrated).

Rules: such a member's generation is its epoch, and no member leads: the coordinator assigns. The
member is called to join again when its target is newer than its epoch, while it has to revoke
partitions, when the partitions that it waits for are free, and when it joined without a sync,
because that join may be an old one. A join is answered at once. Partitions outside its target are
free when it syncs in the epoch of a join that no longer reported them. With cooperative
rebalancing, the first answer has what it keeps, and it joins again without the rest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.embedded import (
    Subscription,
    read_subscription,
    write_assignment,
)
from josefine_broker.engine.groups.consumer.heartbeats import of_its_epoch, take_place
from josefine_broker.engine.groups.consumer.leaving import static_of, unknown_member, without
from josefine_broker.engine.groups.consumer.reconciling import asked, joined_again
from josefine_broker.engine.groups.consumer.states import (
    ConsumerGroupEvent,
    ConsumerGroupState,
    ConsumerMemberState,
)
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.consumer.values import (
    ClassicSide,
    ConsumerGroup,
    ConsumerMember,
    Settings,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicJoin:
    """A JoinGroup of a consumer. `is_newcomer`: its id was generated for this join, so it may
    create a member. It never replaces an existing one."""

    member_id: str
    instance_id: str | None
    is_newcomer: bool
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    side: ClassicSide


def join(
    group: ConsumerGroup, request: ClassicJoin, topics: Topics, settings: Settings, *, is_news: bool
) -> tuple[ConsumerGroup, ConsumerMember]:
    """The group after the join, and the member. Raises KafkaError: INCONSISTENT_GROUP_PROTOCOL,
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, GROUP_MAX_SIZE_REACHED."""
    said = _said(group, request)
    before, after = _found(group, request, settings)
    member = replace(
        before,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=said.topics,
        regex=None,
        assignor=None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=request.side,
    )
    is_new = member.member_id not in after.members
    after = after.with_member(member)
    reads_else = is_new or (member.topics, member.regex) != (before.topics, before.regex)
    chooses_else = before.assignor is not None
    after = of_its_epoch(after, topics, reads_else or chooses_else, is_news or reads_else)
    member = joined_again(after, after.members[member.member_id], said.parts(topics))
    after = after.with_member(member)
    if after.state is ConsumerGroupState.STABLE:
        # A member that joined is not reconciled before it syncs, even if it gets what it had. The
        # log has its state, and a coordinator that replays it finds the group reconciling.
        after = after.moved(ConsumerGroupEvent.REJOINED)
    return after, member


def _said(group: ConsumerGroup, request: ClassicJoin) -> Subscription:
    """The subscription in the join. Raises KafkaError(inconsistent_group_protocol): without a
    common assignor no member could read the others' assignments after a downgrade."""
    said = read_subscription(request.side.protocols[0][1]) if request.side.protocols else None
    if said is None:
        raise _inconsistent("the member's subscription cannot be parsed")
    names = {name for name, _ in request.side.protocols}
    for member_id, each in group.members.items():
        if each.classic is not None and member_id != request.member_id:
            names &= {name for name, _ in each.classic.protocols}
    if not names:
        raise _inconsistent("the member has no assignor in common with the others")
    return said


def _inconsistent(message: str) -> KafkaError:
    """The error after which a classic client gives up: a retry would offer the same."""
    return KafkaError(ErrorCode.inconsistent_group_protocol, message)


def _found(
    group: ConsumerGroup, request: ClassicJoin, settings: Settings
) -> tuple[ConsumerMember, ConsumerGroup]:
    """The member that joins, and the group with its place taken. Raises KafkaError."""
    # A new member's join may arrive twice, and then its member exists. A blank one instead
    # would lose the partitions that the client still owns, and others would get them.
    if not request.is_newcomer or request.member_id in group.members:
        return member_of(group, request.member_id, request.instance_id), group
    if request.instance_id is not None:
        holder = group.static_member(request.instance_id)
        if holder is not None:
            return take_place(group, holder, request.member_id)
    if len(group.members) >= settings.size_max:
        message = f"the group has reached its maximum of {settings.size_max} members"
        raise KafkaError(ErrorCode.group_max_size_reached, message)
    return ConsumerMember(member_id=request.member_id, instance_id=request.instance_id), group


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """The classic member with this identity. Raises KafkaError(unknown_member_id |
    fenced_instance_id)."""
    if instance_id is not None:
        member = static_of(group, instance_id, member_id)
    elif member_id in group.members:
        member = group.members[member_id]
    else:
        raise unknown_member(member_id)
    if member.classic is None:
        raise unknown_member(member_id)
    return member


def must_join_again(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether the member must be called to join again.

    A classic client learns of a new assignment only by joining again, so it is called when it has
    something to gain or to give up.
    """
    if member.epoch != group.epoch or member.state is ConsumerMemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is ConsumerMemberState.STABLE:
        return False
    # Called as soon as something that it is to get is free; earlier it would join for nothing.
    wants = group.target_of(member.member_id) - member.assigned
    return not wants or bool(wants - group.held_by_others(member.member_id))


def heartbeat(
    group: ConsumerGroup, member: ConsumerMember, generation: int, topics: Topics, *, is_news: bool
) -> tuple[ConsumerGroup, ErrorCode]:
    """The group after a Heartbeat, and the answer: REBALANCE_IN_PROGRESS calls the member to join
    again. Raises KafkaError(illegal_generation)."""
    _check_generation(member, generation)
    after = of_its_epoch(group, topics, False, is_news)
    is_called = must_join_again(after, after.members[member.member_id])
    return after, ErrorCode.rebalance_in_progress if is_called else ErrorCode.none


def sync(
    group: ConsumerGroup, member: ConsumerMember, generation: int, names: Mapping[UUID, str]
) -> tuple[ConsumerGroup, bytes]:
    """The group after a SyncGroup, and the member's assignment, encoded for its client. Raises
    KafkaError(illegal_generation | rebalance_in_progress).

    A member that has partitions to revoke gets its smaller assignment also in an older epoch: its
    client revokes the rest, and joins again (cooperative rebalancing, KIP-429).
    """
    _check_generation(member, generation)
    gives_up = member.state is ConsumerMemberState.UNREVOKED_PARTITIONS
    if member.epoch != group.epoch and not gives_up:
        raise KafkaError(ErrorCode.rebalance_in_progress, "the group has a newer epoch")
    after = asked(group, member)
    if after is not member:
        group = group.with_member(after).settled()
    return group, write_assignment(member.assigned, names)


def leave(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroup:
    """The group without the member; a static one may be named by its instance id alone. Raises the
    KafkaErrors of `member_of`."""
    holder = None if instance_id is None or member_id else group.static_member(instance_id)
    if holder is not None:
        member_id = holder.member_id
    member = member_of(group, member_id, instance_id)
    return without(group, (member.member_id,))


def _check_generation(member: ConsumerMember, generation: int) -> None:
    """Raises KafkaError(illegal_generation): the client then joins again, and loses nothing by
    it."""
    if generation != member.epoch:
        message = f"member {member.member_id} is in epoch {member.epoch}, not in {generation}"
        raise KafkaError(ErrorCode.illegal_generation, message)
