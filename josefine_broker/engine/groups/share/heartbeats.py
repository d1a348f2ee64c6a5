"""The effect of a ShareGroupHeartbeat on its group, and its answer (KIP-932).

Rules: a heartbeat is checked before it changes anything, and refused by raising. The group's epoch
grows when a member joins or leaves, or when subscriptions or subscribed topics change; a new epoch
gets its target assignment at once, and the sender gets its part of it. A member with another epoch
than its own is fenced, except with the previous one: its last answer was lost.
"""

from dataclasses import replace

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.share.assignor import assign
from josefine_broker.engine.groups.share.group import (
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ShareBeat,
    ShareBeatAnswer,
    ShareGroup,
    ShareMember,
    metadata_hash,
    read_names,
)
from josefine_broker.engine.groups.share.states import ShareGroupEvent


def check(beat: ShareBeat) -> None:
    """Refuse a heartbeat that is wrong in every group, before a group is looked up or made. Raises
    KafkaError(invalid_request)."""
    if not beat.member_id:
        raise _invalid("MemberId can't be empty.")
    if beat.epoch < LEAVING_EPOCH:
        raise _invalid(f"MemberEpoch is {beat.epoch}: it must be -1 or more.")
    if beat.epoch == JOINING_EPOCH and not beat.topics:
        raise _invalid("SubscribedTopicNames must be set in first request.")


def heartbeat(
    group: ShareGroup, beat: ShareBeat, topics: Topics, size_max: int, *, is_news: bool
) -> tuple[ShareGroup, ShareBeatAnswer]:
    """The group after it, the same object if nothing changed, and the answer.

    `beat` has passed `check`. `is_news`: the topics may have changed since the group's last
    heartbeat; the hash of the topics is computed only then, since heartbeats come every few
    seconds. Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, GROUP_MAX_SIZE_REACHED.
    """
    known = group.members.get(beat.member_id)
    # A member may leave in any epoch. The next heartbeat of another member computes the target, so
    # a group whose members all stop does not compute one for each of them.
    if beat.epoch == LEAVING_EPOCH:
        if known is None:
            raise _unknown(beat.member_id)
        answer = ShareBeatAnswer(member_id=beat.member_id, epoch=LEAVING_EPOCH)
        return group.without((beat.member_id,)), answer
    before = _checked(group, known, beat, size_max)
    member = replace(
        before,
        topics=before.topics if beat.topics is None else beat.topics,
        rack_id=before.rack_id if beat.rack_id is None else beat.rack_id,
        client_id=beat.client_id if known is None else before.client_id,
        client_host=beat.client_host if known is None else before.client_host,
    )
    has_changed = known is None or member.topics != before.topics
    after = group if member == known else group.with_member(member)
    after = _of_its_epoch(after, topics, has_changed=has_changed, is_news=is_news)
    # The sender alone gets its assignment: the others hear of theirs when they ask.
    assigned = after.target_of(member.member_id)
    if member.epoch != after.target_epoch or member.assigned != assigned:
        previous = max(member.epoch, JOINING_EPOCH)
        member = replace(
            member, epoch=after.target_epoch, previous_epoch=previous, assigned=assigned
        )
        after = after.with_member(member)
    # The partitions are sent when they differ, and to a member that may not know them: it joined,
    # sent its subscription, or did not get the answer with its epoch.
    is_unsure = beat.topics is not None or beat.epoch != before.epoch or known is None
    is_told = is_unsure or assigned != before.assigned
    answer = ShareBeatAnswer(
        member_id=member.member_id, epoch=member.epoch, parts=assigned if is_told else None
    )
    return after, answer


def _checked(
    group: ShareGroup, known: ShareMember | None, beat: ShareBeat, size_max: int
) -> ShareMember:
    """The member as it was, or a new one. A known member may join again: its answer was lost, or it
    was fenced, and its id is its own choice (KIP-932). Raises KafkaError."""
    if beat.epoch == JOINING_EPOCH:
        if known is None and len(group.members) >= size_max:
            message = f"the group has reached its maximum of {size_max} members"
            raise KafkaError(ErrorCode.group_max_size_reached, message)
        return known or ShareMember(member_id=beat.member_id)
    if known is None:
        raise _unknown(beat.member_id)
    # Accepted, or a member whose answer was lost would have to give up its partitions and join
    # again.
    is_late = beat.epoch == known.previous_epoch and beat.epoch < known.epoch
    if beat.epoch != known.epoch and not is_late:
        message = f"member {beat.member_id} is in epoch {known.epoch}, not in {beat.epoch}"
        raise KafkaError(ErrorCode.fenced_member_epoch, message)
    return known


def _of_its_epoch(
    group: ShareGroup, topics: Topics, *, has_changed: bool, is_news: bool
) -> ShareGroup:
    """The group in its next epoch if something requires one, with the target assignment of its
    epoch."""
    # A member that left has raised the epoch, and left the assignment to this heartbeat.
    is_due = group.target_epoch != group.epoch
    read_hash = group.metadata_hash
    if has_changed or is_due or is_news:
        read_hash = metadata_hash(group.members, topics)
    # An epoch that has no target yet takes in the changed topics, too.
    if has_changed or (read_hash != group.metadata_hash and not is_due):
        group = group.moved(ShareGroupEvent.CHANGED, epoch=group.epoch + 1)
    elif not is_due:
        return group
    names = read_names(group.members.values(), topics)
    counts = {topics[name].topic_id: len(topics[name].partitions) for name in names}
    reads = {
        member_id: frozenset(topics[name].topic_id for name in member.topics if name in topics)
        for member_id, member in group.members.items()
    }
    # Topics that were deleted are forgotten; others stay, also without a reader: they have state.
    there = {entry.topic_id for entry in topics.values()}
    kept = {topic_id: count for topic_id, count in group.topics.items() if topic_id in there}
    return group.moved(
        ShareGroupEvent.CHANGED,
        target=assign(reads, counts, group.target),
        target_epoch=group.epoch,
        metadata_hash=read_hash,
        topics={**kept, **counts},
    )


def _unknown(member_id: str) -> KafkaError:
    """The client joins again, with the same member id."""
    return KafkaError(ErrorCode.unknown_member_id, f"member {member_id} is not in the group")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
