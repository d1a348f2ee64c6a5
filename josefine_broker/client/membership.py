"""Membership of a consumer in a group, by the classic protocol: join, heartbeat, commit, leave.

Rules: an operation that finds its generation over reports that and forgets it; only `join` starts
another. A member that the coordinator does not know joins again under a new id. The group's leader
assigns for all. Offsets must be committed before `join` is called again: between two generations
another member may get the partitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.consumer_protocol import (
    ASSIGNORS,
    CONSUMER,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from josefine_broker.client.effects import Operation
from josefine_broker.client.groups import NO_GENERATION, NO_MEMBER, Committer, ask_coordinator
from josefine_broker.client.operations import refresh
from josefine_broker.client.session import Attempts, Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

ENDED = frozenset(
    {
        ErrorCode.rebalance_in_progress,
        ErrorCode.illegal_generation,
        ErrorCode.unknown_member_id,
    }
)
"""Codes for a member whose generation is over: it must rejoin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSettings:
    """Settings of one member, in milliseconds; the defaults are those of Kafka's consumers."""

    session_timeout_ms: int = 45_000
    """Without a heartbeat for this long, the member is removed."""
    rebalance_timeout_ms: int = 300_000
    """The time the others wait for it to rejoin."""
    heartbeat_ms: int = 3_000


class Membership:
    """Mutable: the member's current generation."""

    __slots__ = ("generation", "group", "member_id", "settings", "topics")

    def __init__(
        self, group: str, topics: tuple[str, ...], settings: MemberSettings | None = None
    ) -> None:
        self.group = group
        self.topics = topics
        self.settings = settings or MemberSettings()
        self.member_id = NO_MEMBER
        self.generation = NO_GENERATION

    @property
    def is_of_a_generation(self) -> bool:
        return self.generation != NO_GENERATION

    def ended(self, code: ErrorCode) -> None:
        """Its generation ended with this code; an unknown member loses its id too."""
        self.generation = NO_GENERATION
        if code is ErrorCode.unknown_member_id:
            self.member_id = NO_MEMBER

    def error(self, code: ErrorCode) -> KafkaError | None:
        """None for the codes that `ended` handles."""
        if code is ErrorCode.none or code in ENDED:
            return None
        return KafkaError(code, f"group '{self.group}': {code.name.replace('_', ' ')}")


def join(
    session: Session, member: Membership, now_ms: int, deadline_ms: int
) -> Operation[tuple[TopicPartition, ...]]:
    """Join the next generation; returns this member's assignment."""
    attempts = session.start(now_ms, deadline_ms, f"join group '{member.group}'")
    while True:
        joined = yield from _join(session, attempts, member)
        if joined is None:
            continue
        assignments = yield from _assignments(session, attempts, member, joined)
        request = e.sync_group.SyncGroupRequest(
            group_id=member.group,
            generation_id=joined.generation_id,
            member_id=joined.member_id,
            protocol_type=CONSUMER,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        synced = yield from ask_coordinator(
            session,
            attempts,
            member.group,
            apis.SYNC_GROUP,
            request,
            lambda r: member.error(r.error_code),
        )
        # Another rebalance may have started since the join: then join again.
        if synced.error_code is ErrorCode.none:
            member.generation = joined.generation_id
            return decode_assignment(synced.assignment)
        member.ended(synced.error_code)


def _join(
    session: Session, attempts: Attempts, member: Membership
) -> Operation[e.join_group.JoinGroupResponse | None]:
    """One JoinGroup. None: send another, with the new state of `member`."""
    metadata = encode_subscription(member.topics)
    request = e.join_group.JoinGroupRequest(
        group_id=member.group,
        session_timeout_ms=member.settings.session_timeout_ms,
        rebalance_timeout_ms=member.settings.rebalance_timeout_ms,
        member_id=member.member_id,
        protocol_type=CONSUMER,
        protocols=tuple(
            e.join_group.JoinGroupRequestProtocol(name=name, metadata=metadata)
            for name in ASSIGNORS
        ),
    )
    response = yield from ask_coordinator(
        session,
        attempts,
        member.group,
        apis.JOIN_GROUP,
        request,
        lambda r: _join_error(member, r.error_code),
    )
    if response.error_code is ErrorCode.none:
        member.member_id = response.member_id
        return response  # type: ignore[no-any-return]
    if response.error_code is ErrorCode.member_id_required:  # join again with this id (KIP-394)
        member.member_id = response.member_id
    else:
        member.ended(response.error_code)
    return None


def _join_error(member: Membership, code: ErrorCode) -> KafkaError | None:
    return None if code is ErrorCode.member_id_required else member.error(code)


def _assignments(
    session: Session,
    attempts: Attempts,
    member: Membership,
    joined: e.join_group.JoinGroupResponse,
) -> Operation[tuple[e.sync_group.SyncGroupRequestAssignment, ...]]:
    """The assignments of all members, from the leader; from others none."""
    if joined.leader != joined.member_id or joined.skip_assignment:
        return ()
    assignor = ASSIGNORS.get(joined.protocol_name or "")
    if assignor is None:
        raise KafkaError(
            ErrorCode.inconsistent_group_protocol,
            f"group '{member.group}' assigns by '{joined.protocol_name}', unknown here",
        )
    wanted = {each.member_id: _subscription(each.metadata) for each in joined.members}
    topics = {topic for each in wanted.values() for topic in each}
    cluster, _ = yield from refresh(session, attempts, topics)
    counts = {name: len(topic.partitions) for name, topic in cluster.topics.items()}
    return tuple(
        e.sync_group.SyncGroupRequestAssignment(
            member_id=member_id, assignment=encode_assignment(partitions)
        )
        for member_id, partitions in assignor(wanted, counts).items()
    )


def _subscription(metadata: bytes) -> tuple[str, ...]:
    """Unreadable metadata count as no topics: one member's bytes must not stop its group."""
    try:
        return decode_subscription(metadata)
    except CorruptData:
        return ()


def heartbeat(
    session: Session, member: Membership, now_ms: int, deadline_ms: int
) -> Operation[bool]:
    """Send a heartbeat; returns whether the generation continues."""
    attempts = session.start(now_ms, deadline_ms, f"heartbeat to group '{member.group}'")
    response = yield from ask_coordinator(
        session,
        attempts,
        member.group,
        apis.HEARTBEAT,
        e.heartbeat.HeartbeatRequest(
            group_id=member.group, generation_id=member.generation, member_id=member.member_id
        ),
        lambda r: member.error(r.error_code),
    )
    if response.error_code is ErrorCode.none:
        return True
    # The group rebalances: the generation is still valid for a commit.
    if response.error_code is not ErrorCode.rebalance_in_progress:
        member.ended(response.error_code)
    return False


def commit(
    session: Session,
    member: Membership,
    offsets: Mapping[TopicPartition, int],
    now_ms: int,
    deadline_ms: int,
) -> Operation[bool]:
    """Store the next offset to read per partition. False: the generation is over, nothing is
    stored, and another member may already read from the last commit."""
    committer = Committer(member.member_id, member.generation)
    try:
        yield from groups.commit_offsets(
            session, member.group, offsets, now_ms, deadline_ms, committer
        )
    except KafkaError as error:
        if error.code not in ENDED:
            raise
        member.ended(error.code)
        return False
    return True


def leave(session: Session, member: Membership, now_ms: int, deadline_ms: int) -> Operation[None]:
    """Leave the group: the others get its partitions at once."""
    if member.member_id == NO_MEMBER:
        return
    attempts = session.start(now_ms, deadline_ms, f"leave group '{member.group}'")
    identity = e.leave_group.MemberIdentity(member_id=member.member_id)
    yield from ask_coordinator(
        session,
        attempts,
        member.group,
        apis.LEAVE_GROUP,
        e.leave_group.LeaveGroupRequest(group_id=member.group, members=(identity,)),
        lambda r: member.error(r.error_code),
    )
    member.ended(ErrorCode.unknown_member_id)
