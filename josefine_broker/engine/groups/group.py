"""One classic group: its members, generation and deadlines, and the elementary changes of these.

Rules: the states of group and members change only by the tables of `states.py`. A ticket is held by
at most one member and answered once: a second request of a member answers the first. Work for the
host is added to `effects`, in order. `joining.py`, `syncing.py` and `rebalancing.py` decide, and
change a group through these methods.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups import protocols
from josefine_broker.engine.groups.states import (
    GroupEvent,
    GroupState,
    MemberEvent,
    MemberState,
    next_group_state,
)
from josefine_broker.engine.groups.values import (
    NO_MEMBER,
    Answer,
    Effect,
    GroupRecord,
    Identity,
    JoinAnswer,
    JoinedMember,
    Member,
    Protocol,
    Store,
    SyncAnswer,
    Ticket,
)


class Written(NamedTuple):
    """The purpose of a record that is being stored; by default, a generation that ended empty."""

    generation: int
    """When the record is stored, it has no effect if the group is at a later generation."""
    assignments: dict[str, bytes] | None = None
    """The leader's assignment, by member id."""
    taken_over: JoinAnswer | None = None
    """A static member's new id: the answer to send when it is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRound:
    """The join phase of a group that was empty: it waits for others, longer with each new member.

    Otherwise a member that joins a moment later would cost all members a second rebalance.
    """

    delay_ms: int
    remaining_ms: int
    has_newcomer: bool = False


@dataclass(slots=True, kw_only=True)
class GroupCounts:
    """Counters of all groups of a coordinator, exported by the host on a scrape. Mutable."""

    rebalances: int = 0
    members_lost: int = 0
    """Members whose session expired."""
    offsets_committed: int = 0


class Group:
    """One group. Its coordinator takes `effects` after each input. Mutable."""

    __slots__ = (
        "counts",
        "deadline_ms",
        "effects",
        "empty_since_ms",
        "first_round",
        "generation",
        "group_id",
        "instances",
        "leader_id",
        "members",
        "protocol_name",
        "protocol_type",
        "reserved",
        "sessions",
        "state",
        "write_ids",
        "writes",
    )

    def __init__(
        self,
        group_id: str,
        write_ids: Iterator[int],
        counts: GroupCounts,
        state: GroupState = GroupState.EMPTY,
    ) -> None:
        """`write_ids` must never repeat, also for a later group with this id: the result of a write
        may arrive when the group is another one. `counts` are shared by all groups."""
        self.group_id = group_id
        self.counts = counts
        self.write_ids = write_ids
        self.state = state
        self.generation = 0
        """Grows by one whenever a join phase ends, also for a group that ends it empty. A request
        that names another generation is refused, so a member that missed a rebalance commits
        nothing."""
        self.protocol_type = ""
        """Such as "consumer", or "connect" for workers of Kafka Connect. The first member sets it;
        members of another type are refused."""
        self.protocol_name: str | None = None
        """The assignor that all members support, selected when a join phase ends."""
        self.leader_id: str | None = None
        """The member whose SyncGroup has the assignment: the broker computes none for it."""
        self.members: dict[str, Member] = {}
        """By member id, in the order of joining: when the leader leaves, the oldest one leads."""
        self.instances: dict[str, str] = {}
        """Instance id → member id of each static member."""
        self.reserved: dict[str, int] = {}
        """Ids that were sent to new members which have not joined with them yet → deadline."""
        self.sessions: dict[str, int] = {}
        """Member id → when its session expires, unless a request of it waits for us."""
        self.deadline_ms: int | None = None
        """The end of the join phase; after it, the deadline for missing syncs, if any."""
        self.first_round: FirstRound | None = None
        # Writes in flight. During one, the group neither expires nor changes its protocol.
        self.writes: dict[int, Written] = {}
        self.effects: list[Effect] = []
        self.empty_since_ms: int | None = None
        """Wall clock time as in the record; None: it is not empty, or has always been."""

    # Queries.

    @property
    def in_rebalance(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE

    @property
    def has_generation(self) -> bool:
        """Whether its members form a generation: no rebalance calls them."""
        return self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest timeout of any member, so that none is removed while it has time."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Whether no member that may still join is missing.

        An id that was sent to a client counts as a missing member (KIP-394): its client is about to
        join with it, and would otherwise cause a second rebalance at once.
        """
        return not self.reserved and all(
            each.state is MemberState.JOINING for each in self.members.values()
        )

    def in_state(self, state: MemberState) -> list[Member]:
        return [each for each in self.members.values() if each.state is state]

    def check(self, identity: Identity) -> ErrorCode:
        """Whether that is a member: no error, or the reason (fenced by its successor, unknown)."""
        # The instance id comes first (KIP-345): the previous process of a static member must get
        # FENCED_INSTANCE_ID, which ends its client. After UNKNOWN_MEMBER_ID it would join again,
        # and the two processes would take the place from each other for ever.
        member_id, instance_id = identity
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.fenced_instance_id
            if known is None:
                return ErrorCode.unknown_member_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def understands(self, protocol_type: str, offered: Sequence[Protocol]) -> bool:
        """Whether these protocols fit the group: one of them must be supported by all members."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and protocols.has_common(
            self.members.values(), offered
        )

    def current(self, member_id: str, leader_id: str | None = None) -> JoinAnswer:
        """The answer to a join of a member of this generation.

        Only the leader gets the members with their subscriptions: it alone needs them, and the list
        grows with the group.
        """
        leader_id = self.leader_id if leader_id is None else leader_id
        assert leader_id is not None
        return JoinAnswer(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=leader_id,
            member_id=member_id,
            members=self._told_to_leader() if leader_id == member_id else (),
        )

    def _told_to_leader(self) -> tuple[JoinedMember, ...]:
        """The members as the leader's assignor needs them, each with its metadata for the selected
        protocol."""
        name = self.protocol_name
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(name))
            for each in self.members.values()
        )

    def record(self) -> GroupRecord:
        """The record to store."""
        return GroupRecord(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            members=tuple(self.members.values()),
        )

    def wake_at_ms(self) -> int | None:
        """The next time when a deadline here is due.

        Monotonic milliseconds; None: nothing here waits for the time. Members whose request waits
        for us have no deadline of their own, see `is_heard`.
        """
        times = list(self.reserved.values())
        times += [self.sessions[key] for key, each in self.members.items() if not is_heard(each)]
        if self.deadline_ms is not None:
            times.append(self.deadline_ms)
        return min(times, default=None)

    # Changes.

    def on(self, event: GroupEvent) -> None:
        if event is GroupEvent.REBALANCE:
            self.counts.rebalances += 1
        self.state = next_group_state(self.state, event)

    def put(self, member: Member) -> None:
        """Add a member, or replace its previous state."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def heard(self, member: Member, now_ms: int) -> None:
        """Renew its session."""
        self.sessions[member.member_id] = now_ms + member.session_timeout_ms

    def remove(self, member_id: str, error: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """Remove a member; its waiting request is answered with `error`."""
        member = self.members.pop(member_id)
        del self.sessions[member_id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.answer_error(member, error)
        member.moved(MemberEvent.REMOVE)

    def answer(self, ticket: Ticket | None, answer: JoinAnswer | SyncAnswer) -> None:
        """Answer a ticket; None: nobody waits."""
        if ticket is not None:
            self.effects.append(Answer(ticket, answer))

    def answer_error(self, member: Member, error: ErrorCode) -> None:
        """Answer its waiting request, if any, with an error. The caller clears the ticket."""
        if member.state is MemberState.SYNCING:
            self.answer(member.ticket, SyncAnswer(error=error))
            return
        # A client that gets UNKNOWN_MEMBER_ID must drop its id and join as a new member.
        known = NO_MEMBER if error is ErrorCode.unknown_member_id else member.member_id
        self.answer(member.ticket, JoinAnswer(error=error, member_id=known))

    def store(self, record: GroupRecord, written: Written) -> None:
        """Request the write of a record. Its number pairs the result with it: several may be in
        flight, and results of an earlier generation are ignored (`rebalancing.stored`)."""
        write_id = next(self.write_ids)
        self.writes[write_id] = written
        self.effects.append(Store(self.group_id, write_id, record))

    def wait_to_join(self, member: Member, ticket: Ticket, **changes: object) -> Member:
        """Let its join wait; an earlier request of it is answered to be retried."""
        self.answer_error(member, ErrorCode.rebalance_in_progress)
        joining = member.moved(MemberEvent.JOIN, ticket=ticket, **changes)
        self.put(joining)
        return joining

    def told(self, member: Member, event: MemberEvent, **changes: object) -> Member:
        """Note that its ticket was answered (by the caller): it no longer waits."""
        after = member.moved(event, ticket=None, **changes)
        self.members[member.member_id] = after
        return after

    def saw_newcomer(self) -> None:
        if self.first_round is not None:
            self.first_round = replace(self.first_round, has_newcomer=True)


def is_heard(member: Member) -> bool:
    """Whether it needs no heartbeat: its request waits for our answer. A new member can still time
    out: it has no id to return with, so each retry of its client would leave one more member."""
    return member.ticket is not None and not member.is_new
