"""Membership in a share group (KIP-932): heartbeats, fetches of acquired records, acceptance.

Rules: a member fetches each of its partitions from the leader, in one share session a leader. What
it has accepted goes with the next fetch to that leader, or with `leave`. An acceptance that is lost
costs a second delivery of its records, never a record: their lock ends, and another member gets
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.effects import Call, Exchange, Operation, Unanswered
from josefine_broker.client.fetch import records_between
from josefine_broker.client.groups import ask_coordinator
from josefine_broker.client.operations import partition_error, refresh
from josefine_broker.client.retry import Action, action_for
from josefine_broker.client.session import Session
from josefine_broker.records.builder import Record
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

JOINING_EPOCH, LEAVING_EPOCH = 0, -1
OPENING_EPOCH, FINAL_EPOCH = 0, -1
ACCEPT = 1
RECORD_LIMIT = 1
"""The acquire mode that gives not one record more than was asked for (KIP-1206)."""
REJOIN = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})
REOPEN = frozenset(
    {
        ErrorCode.share_session_not_found,
        ErrorCode.invalid_share_session_epoch,
        ErrorCode.share_session_limit_reached,
    }
)
Part = tuple[UUID, int]
"""Topic id and partition."""
Range = tuple[int, int]
"""First and last offset, inclusive."""


class AcquiredRecords(NamedTuple):
    """What a fetch acquired of one partition: whole batches, and which of their offsets."""

    part: Part
    tp: TopicPartition
    records: memoryview
    ranges: tuple[Range, ...]

    def each(self) -> Iterator[Record]:
        """The member's records, in order. Raises CorruptData."""
        for first, last in self.ranges:
            yield from records_between(self.records, first, last + 1)


class ShareMember:
    """One member. Mutable."""

    __slots__ = ("accepted", "assigned", "epoch", "group", "heartbeat_ms", "member_id", "opened",
                 "sessions", "topics")  # fmt: skip

    def __init__(self, group: str, topics: tuple[str, ...], member_id: str) -> None:
        self.group = group
        self.topics = topics
        self.member_id = member_id
        self.epoch = JOINING_EPOCH
        self.heartbeat_ms = 0
        self.assigned: tuple[Part, ...] = ()
        self.sessions: dict[int, int] = {}
        """Leader → the epoch of the next request of its share session."""
        self.opened: dict[int, frozenset[Part]] = {}
        """Leader → the partitions of that session."""
        self.accepted: dict[Part, list[Range]] = {}
        """Not sent yet."""

    def accept(self, part: Part, ranges: Iterable[Range]) -> None:
        """The records of these ranges are processed."""
        self.accepted.setdefault(part, []).extend(ranges)


def heartbeat(
    session: Session, member: ShareMember, now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Join, or renew the session with the coordinator; the assignment may change."""
    attempts = session.start(now_ms, deadline_ms, f"heartbeat to share group '{member.group}'")
    # Twice at most, unless it is fenced again: a member that is not known any more joins again.
    while True:
        is_joining = member.epoch == JOINING_EPOCH
        request = e.share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.member_id,
            member_epoch=member.epoch,
            subscribed_topic_names=member.topics if is_joining else None,
        )
        answer = yield from ask_coordinator(
            session,
            attempts,
            member.group,
            apis.SHARE_GROUP_HEARTBEAT,
            request,
            lambda r: _heartbeat_error(member, r),
        )
        if answer.error_code is not ErrorCode.none:
            member.epoch = JOINING_EPOCH
            continue
        member.epoch, member.heartbeat_ms = answer.member_epoch, answer.heartbeat_interval_ms
        if answer.assignment is not None:
            member.assigned = tuple(
                (topic.topic_id, index)
                for topic in answer.assignment.topic_partitions
                for index in topic.partitions
            )
        return


def _heartbeat_error(member: ShareMember, response: Any) -> KafkaError | None:
    """Why it is to be repeated or given up; a member that is not known any more joins again."""
    code: ErrorCode = response.error_code
    if code is ErrorCode.none or code in REJOIN:
        return None
    said = response.error_message or code.name.replace("_", " ")
    return KafkaError(code, f"share group '{member.group}': {said}")


def fetch(
    session: Session,
    member: ShareMember,
    records_max: int,
    wait_ms: int,
    now_ms: int,
    deadline_ms: int,
) -> Operation[list[AcquiredRecords]]:
    """Send what is accepted, and acquire up to `records_max` records of each leader. Empty: nothing
    was there within the wait, or a leader could not be asked this time."""
    attempts = session.start(now_ms, deadline_ms, "share fetch")
    leaders = _by_leader(session, member)
    if leaders is None:
        yield from refresh(session, attempts, member.topics)
        leaders = _by_leader(session, member) or {}
    # A session whose partitions have all moved ends with this: 0 opens another one later.
    for node in [each for each in member.sessions if each not in leaders]:
        _close(member, node)
    calls = tuple(
        Call(
            node=node,
            api_key=apis.SHARE_FETCH,
            request=_request(member, node, parts, records_max, wait_ms),
        )
        for node, parts in leaders.items()
    )
    if not calls:
        yield attempts.after(KafkaError(ErrorCode.leader_not_available, "no leader"), now_ms)
        return []
    resumed = yield Exchange(calls=calls, deadline_ms=deadline_ms)
    found: list[AcquiredRecords] = []
    for node, reply in zip(leaders, resumed.replies, strict=True):
        if isinstance(reply, Unanswered):
            _close(member, node)
            session.forget(member.topics)
            attempts.judge(reply.error, resumed.now_ms)
        elif reply.error_code is ErrorCode.none:
            _take(session, reply, found)
        else:
            _close(member, node)
            if reply.error_code not in REOPEN:
                raise KafkaError(reply.error_code, reply.error_message or "")
    return found


def _by_leader(session: Session, member: ShareMember) -> dict[int, list[Part]] | None:
    """The assigned partitions by their leader; None: one of them is unknown."""
    found: dict[int, list[Part]] = {}
    for part in member.assigned:
        name = session.cluster.names.get(part[0])
        known = None if name is None else session.cluster.partition(TopicPartition(name, part[1]))
        if known is None or known.leader < 0:
            return None
        found.setdefault(known.leader, []).append(part)
    return found


def _close(member: ShareMember, node: int) -> None:
    member.sessions.pop(node, None)
    member.opened.pop(node, None)


def _request(
    member: ShareMember, node: int, parts: list[Part], records_max: int, wait_ms: int
) -> Any:
    """A ShareFetch of this leader's session, which the first one opens."""
    f = e.share_fetch
    epoch = member.sessions.get(node, OPENING_EPOCH)
    known, wanted = member.opened.get(node, frozenset()), frozenset(parts)
    accepted: dict[Part, list[Range]] = {}
    # What opens a session has nothing to acknowledge: what the session before it got is lost.
    for part in parts:
        ranges = member.accepted.pop(part, [])
        if epoch != OPENING_EPOCH:
            accepted[part] = ranges
    sent = [each for each in parts if each not in known or accepted.get(each)]
    member.sessions[node], member.opened[node] = epoch + 1, wanted
    return f.ShareFetchRequest(
        group_id=member.group,
        member_id=member.member_id,
        share_session_epoch=epoch,
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_records=records_max,
        batch_size=records_max,
        share_acquire_mode=RECORD_LIMIT,
        topics=tuple(
            f.FetchTopic(
                topic_id=part[0],
                partitions=(
                    f.FetchPartition(
                        partition_index=part[1],
                        acknowledgement_batches=_batches(f, accepted.get(part, ())),
                    ),
                ),
            )
            for part in sent
        ),
        forgotten_topics_data=tuple(
            f.ForgottenTopic(topic_id=topic_id, partitions=(index,))
            for topic_id, index in sorted(known - wanted)
        ),
    )


def _batches(entity: Any, ranges: Iterable[Range]) -> tuple[Any, ...]:
    return tuple(
        entity.AcknowledgementBatch(
            first_offset=first, last_offset=last, acknowledge_types=(ACCEPT,)
        )
        for first, last in sorted(ranges)
    )


def _take(session: Session, response: Any, found: list[AcquiredRecords]) -> None:
    """The acquired records of one leader's answer. Raises KafkaError for a partition that may not
    be read; another leader of it is looked for with the next fetch."""
    for topic in response.responses:
        name = session.cluster.names.get(topic.topic_id, "")
        for each in topic.partitions:
            tp = TopicPartition(name, each.partition_index)
            if each.error_code is not ErrorCode.none:
                session.forget([name])
                if action_for(each.error_code) is Action.FAIL:
                    raise partition_error(tp, each.error_code, each.error_message)
                continue
            if each.acquired_records:
                ranges = tuple((a.first_offset, a.last_offset) for a in each.acquired_records)
                part = topic.topic_id, each.partition_index
                found.append(AcquiredRecords(part, tp, memoryview(each.records), ranges))


def leave(session: Session, member: ShareMember, now_ms: int, deadline_ms: int) -> Operation[None]:
    """Send what is accepted, give back the rest, and leave the group."""
    attempts = session.start(now_ms, deadline_ms, f"leave share group '{member.group}'")
    # The end of each session gives the records that are not accepted to others at once; without it
    # they would wait for the end of their lock.
    a = e.share_acknowledge
    calls = tuple(
        Call(
            node=node,
            api_key=apis.SHARE_ACKNOWLEDGE,
            request=a.ShareAcknowledgeRequest(
                group_id=member.group,
                member_id=member.member_id,
                share_session_epoch=FINAL_EPOCH,
                topics=tuple(
                    a.AcknowledgeTopic(
                        topic_id=part[0],
                        partitions=(
                            a.AcknowledgePartition(
                                partition_index=part[1],
                                acknowledgement_batches=_batches(a, member.accepted.pop(part)),
                            ),
                        ),
                    )
                    for part in sorted(member.opened.get(node, ()))
                    if member.accepted.get(part)
                ),
            ),
        )
        for node in member.sessions
    )
    if calls:
        yield Exchange(calls=calls, deadline_ms=deadline_ms)
    request = e.share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=member.group, member_id=member.member_id, member_epoch=LEAVING_EPOCH
    )
    yield from ask_coordinator(
        session,
        attempts,
        member.group,
        apis.SHARE_GROUP_HEARTBEAT,
        request,
        lambda r: _heartbeat_error(member, r),
    )
