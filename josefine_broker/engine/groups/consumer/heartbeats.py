"""The effect of a ConsumerGroupHeartbeat on its group, and its answer (KIP-848).

Rules: a heartbeat is checked before it changes anything, and refused by raising. The group's epoch
grows when a member joins, or when subscriptions or subscribed topics change; a new epoch gets its
target assignment at once; only the member that sent the heartbeat is reconciled. A member with
another epoch than its own is fenced, except with the previous one if it owns nothing outside its
assignment: its last answer was lost. A member that joins (epoch 0) has given up everything, and
gets its whole assignment.
"""

from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.assignors import ASSIGNORS, Wish, in_order, preferred
from josefine_broker.engine.groups.consumer.leaving import leave, static_of, unknown_member
from josefine_broker.engine.groups.consumer.patterns import compiled
from josefine_broker.engine.groups.consumer.reconciling import begun_anew, reconciled
from josefine_broker.engine.groups.consumer.states import ConsumerGroupEvent, ConsumerMemberState
from josefine_broker.engine.groups.consumer.subscriptions import Topics, metadata_hash, reads
from josefine_broker.engine.groups.consumer.values import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    Beat,
    BeatAnswer,
    ConsumerGroup,
    ConsumerMember,
    Settings,
)


def heartbeat(
    group: ConsumerGroup, beat: Beat, topics: Topics, settings: Settings, *, is_news: bool
) -> tuple[ConsumerGroup, BeatAnswer]:
    """The group after it, the same object if nothing changed, and the answer.

    `beat` has passed `check`. `is_news`: the topics may have changed since the group's last
    heartbeat. Raises KafkaError for the client: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID,
    FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID, INVALID_REQUEST.
    """
    if beat.epoch < JOINING_EPOCH:
        return leave(group, beat)
    before, after = _found(group, beat, settings)
    member = _renewed(before, beat)
    is_new = member.member_id not in after.members
    if member is not after.members.get(member.member_id):
        after = after.with_member(member)
    # A new epoch costs an assignment for all members, so a heartbeat brings one only by a change of
    # what is read, or of the assignor.
    reads_else = is_new or (member.topics, member.regex) != (before.topics, before.regex)
    chooses_else = member.assignor != before.assignor
    after = of_its_epoch(after, topics, reads_else or chooses_else, is_news or reads_else)
    member = after.members[member.member_id]
    # The sender alone moves: every member comes to its target by heartbeats of its own (KIP-848).
    if beat.epoch == JOINING_EPOCH:
        member = begun_anew(after, member)
    else:
        member = reconciled(after, member, beat.owned)
    if member is not after.members[member.member_id]:
        after = after.with_member(member)
    return after.settled(), _answer(before, member, beat, len(after.members))


def _answer(before: ConsumerMember, member: ConsumerMember, beat: Beat, size: int) -> BeatAnswer:
    """The answer, with the assignment if it changed or may be unknown. `size`: of the group."""
    # A full heartbeat is the first one after a lost answer or a new connection: the client then
    # does not know its assignment.
    is_unsure = beat.is_full or beat.epoch != before.epoch
    is_told = is_unsure or member.assigned != before.assigned
    return BeatAnswer(
        member_id=member.member_id,
        epoch=member.epoch,
        parts=member.assigned if is_told else None,
        waits_among=size if member.state is ConsumerMemberState.UNRELEASED_PARTITIONS else 0,
    )


def check(beat: Beat) -> None:
    """Check the fields of a heartbeat without its group. Raises KafkaError: INVALID_REQUEST,
    UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION."""
    for name, said in (
        ("MemberId", beat.member_id),
        ("InstanceId", beat.instance_id),
        ("RackId", beat.rack_id),
    ):
        if said is not None and not said.strip():
            raise _invalid(f"{name} can't be empty.")
    if beat.epoch < AWAY_EPOCH:
        raise _invalid(f"{beat.epoch} is no member epoch.")
    if beat.epoch == AWAY_EPOCH and beat.instance_id is None:
        raise _invalid("Only a static member goes away with epoch -2: InstanceId can't be null.")
    if beat.epoch == JOINING_EPOCH:
        if beat.rebalance_timeout_ms < 0:
            raise _invalid("RebalanceTimeoutMs must be provided in the first request.")
        # A member that joins has to start from nothing: its old partitions may belong to others by
        # now.
        if beat.owned is None or beat.owned:
            raise _invalid("TopicPartitions must be empty when (re-)joining.")
        if beat.topics is None and beat.regex is None:
            raise _invalid("SubscribedTopicNames or SubscribedTopicRegex must be set when joining.")
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        message = f"the assignors are {known}, not '{beat.assignor}'"
        raise KafkaError(ErrorCode.unsupported_assignor, message)
    if beat.regex:
        compiled(beat.regex)


def _found(
    group: ConsumerGroup, beat: Beat, settings: Settings
) -> tuple[ConsumerMember, ConsumerGroup]:
    """The member of the heartbeat, and the group with its place taken. Raises KafkaError."""
    if beat.epoch == JOINING_EPOCH:
        return _joining(group, beat, settings)
    if beat.instance_id is not None:
        member = static_of(group, beat.instance_id, beat.member_id)
    elif beat.member_id in group.members:
        member = group.members[beat.member_id]
    else:
        raise unknown_member(beat.member_id)
    _check_epoch(member, beat)
    return member, group


def _joining(
    group: ConsumerGroup, beat: Beat, settings: Settings
) -> tuple[ConsumerMember, ConsumerGroup]:
    """The member that joins at epoch 0, as it was or new, and the group. Raises KafkaError."""
    known = group.members.get(beat.member_id)
    if beat.instance_id is not None:
        holder = group.static_member(beat.instance_id)
        if holder is not None and holder.member_id != beat.member_id:
            # KIP-848 does not fence the first process as KIP-345 does: the second one has to wait
            # for it.
            if not holder.is_away and holder.classic is None:
                message = f"member {holder.member_id} has the instance id {beat.instance_id}"
                raise KafkaError(ErrorCode.unreleased_instance_id, message)
            return take_place(group, holder, beat.member_id)
        if known is not None and known.instance_id != beat.instance_id:
            raise _invalid(f"member {beat.member_id} is there with another instance id.")
    if known is not None:
        # A static member that was away has returned: it owns what it had, without an epoch.
        return (replace(known, epoch=JOINING_EPOCH) if known.is_away else known), group
    if len(group.members) >= settings.size_max:
        message = f"the group has reached its maximum of {settings.size_max} members"
        raise KafkaError(ErrorCode.group_max_size_reached, message)
    return ConsumerMember(member_id=beat.member_id, instance_id=beat.instance_id), group


def take_place(
    group: ConsumerGroup, holder: ConsumerMember, member_id: str
) -> tuple[ConsumerMember, ConsumerGroup]:
    """Give the place of a static member that is away to its next process, under a new id.

    The target assignment moves with the place, so that a restart of a static member moves no
    partition.
    """
    successor = replace(
        holder, member_id=member_id, epoch=JOINING_EPOCH, previous_epoch=JOINING_EPOCH
    )
    members = {key: each for key, each in group.members.items() if key != holder.member_id}
    target = {key: each for key, each in group.target.items() if key != holder.member_id}
    members[member_id] = successor
    target[member_id] = group.target_of(holder.member_id)
    return successor, replace(group, members=members, target=target)


def _check_epoch(member: ConsumerMember, beat: Beat) -> None:
    """Raises KafkaError(fenced_member_epoch), unless the epoch is the current one, or the previous
    one of a member whose answer was lost: it then owns nothing beyond what it was assigned
    (KIP-848)."""
    if beat.epoch == member.epoch:
        return
    has_only_its_own = beat.owned is not None and beat.owned <= member.assigned
    if beat.epoch == member.previous_epoch and beat.epoch < member.epoch and has_only_its_own:
        return
    raise KafkaError(
        ErrorCode.fenced_member_epoch,
        f"member {member.member_id} is in epoch {member.epoch}, not in {beat.epoch}",
    )


def _renewed(member: ConsumerMember, beat: Beat) -> ConsumerMember:
    """The member with the changes in the heartbeat; the same object if there are none."""
    is_joining = beat.epoch == JOINING_EPOCH
    timeout_ms = beat.rebalance_timeout_ms
    # KIP-848: a field that is null has not changed since the last heartbeat; an empty regular
    # expression ends its use.
    renewed = replace(
        member,
        topics=member.topics if beat.topics is None else beat.topics,
        regex=member.regex if beat.regex is None else beat.regex or None,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms < 0 else timeout_ms,
        client_id=beat.client_id if is_joining else member.client_id,
        client_host=beat.client_host if is_joining else member.client_host,
        # A heartbeat of the new protocol ends the classic side of a member (online upgrade).
        classic=None,
    )
    return member if renewed == member else renewed


def of_its_epoch(
    group: ConsumerGroup, topics: Topics, has_changed: bool, may_read_else: bool
) -> ConsumerGroup:
    """The group in its next epoch if something requires one, with the target assignment of its
    epoch. A member that left has raised the epoch already.

    `has_changed`: this request changed a subscription or an assignor. `may_read_else`: the topics
    that are read, or their partitions, may be others than at the last heartbeat.
    """
    # The hash over all subscribed topics is the costly part: it is skipped while neither the
    # topics nor this member's subscription changed since the last heartbeat.
    is_due = group.target_epoch != group.epoch
    if is_due or may_read_else:
        read_hash = metadata_hash(group.members, topics)
    else:
        read_hash = group.metadata_hash
    if has_changed or (read_hash != group.metadata_hash and not is_due):
        group = group.moved(ConsumerGroupEvent.CHANGED, epoch=group.epoch + 1)
    elif not is_due:
        return group
    read = reads(group.members, topics)
    # Only topics that some member reads: an assignor must not see the others.
    every = frozenset().union(*read.values())
    wish = Wish(
        members=in_order(group.members),
        reads=read,
        counts={
            entry.topic_id: len(entry.partitions)
            for entry in topics.values()
            if entry.topic_id in every
        },
        before=group.target,
    )
    target = ASSIGNORS[preferred(group.members)](wish)
    return group.moved(
        ConsumerGroupEvent.ASSIGNED,
        target=target,
        target_epoch=group.epoch,
        metadata_hash=read_hash,
    )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
