"""One consumer group: its members, its generation, its deadlines, and the small moves of all that.

Rules: the group's state and each member's move by the tables of `states.py` only. A ticket is held
by one member at most, and answered once: a second request of a member answers the first. What the
host has to do is put into `effects`, in order. What decides is in `joining.py`, `syncing.py` and
`rebalancing.py`; they change a group through these moves.
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
    """What a record on its way to the log is for; of a generation that ended empty, if nothing."""

    generation: int
    """It changes nothing, once it is stored, in a group that has come further."""
    assignments: dict[str, bytes] | None = None
    """The leader's, by member id."""
    taken_over: JoinAnswer | None = None
    """A static member's new id, and what it is told when that is stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRound:
    """The join phase of a group that was empty: it waits for others, and longer for each newcomer.

    A member that comes a moment later would else cost everybody a second rebalance.
    """

    delay_ms: int
    remaining_ms: int
    has_newcomer: bool = False


@dataclass(slots=True, kw_only=True)
class GroupCounts:
    """Mutable: what happened to all groups of a coordinator; the host exports it on a scrape."""

    rebalances: int = 0
    members_lost: int = 0
    """Whose session ran out."""
    offsets_committed: int = 0


class Group:
    """Mutable: one group. `effects` is taken by its coordinator after each input."""

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
        """`write_ids` are never the same twice, also for a later group of this id: what becomes of
        a record may be heard when its group is another. `counts` are of all groups together."""
        self.group_id = group_id
        self.counts = counts
        self.write_ids = write_ids
        self.state = state
        self.generation = 0
        self.protocol_type = ""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        self.instances: dict[str, str] = {}
        """Instance id → member id of each static member."""
        self.reserved: dict[str, int] = {}
        """Ids told to newcomers that have not joined with them yet → until when they may."""
        self.sessions: dict[str, int] = {}
        """Member id → when it is lost unless it was heard or waits for us."""
        self.deadline_ms: int | None = None
        """Of the join phase; then of the syncs that are missing, if any are."""
        self.first_round: FirstRound | None = None
        self.writes: dict[int, Written] = {}
        self.effects: list[Effect] = []
        self.empty_since_ms: int | None = None
        """By the wall clock, as the record says; None: it is not empty, or was never."""

    # What is asked of it.

    @property
    def in_rebalance(self) -> bool:
        return self.state is GroupState.PREPARING_REBALANCE

    @property
    def has_generation(self) -> bool:
        """Members of a generation: nobody is called to join."""
        return self.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of any member, so that none is left behind while it has time."""
        return max((each.rebalance_timeout_ms for each in self.members.values()), default=0)

    @property
    def all_joined(self) -> bool:
        """Nobody who may still join is missing."""
        return not self.reserved and all(
            each.state is MemberState.JOINING for each in self.members.values()
        )

    def in_state(self, state: MemberState) -> list[Member]:
        return [each for each in self.members.values() if each.state is state]

    def check(self, identity: Identity) -> ErrorCode:
        """Whether that is a member: none, or why it is not (fenced by its successor, unknown)."""
        member_id, instance_id = identity
        if instance_id is not None:
            known = self.instances.get(instance_id)
            if known is not None and known != member_id:
                return ErrorCode.fenced_instance_id
            if known is None:
                return ErrorCode.unknown_member_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def understands(self, protocol_type: str, offered: Sequence[Protocol]) -> bool:
        """Whether whoever offers this could be a member: one protocol that all have at least."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(offered)
        return protocol_type == self.protocol_type and protocols.has_common(
            self.members.values(), offered
        )

    def current(self, member_id: str, leader_id: str | None = None) -> JoinAnswer:
        """What a member of this generation is told of it."""
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
        name = self.protocol_name
        return tuple(
            JoinedMember(each.member_id, each.instance_id, each.metadata(name))
            for each in self.members.values()
        )

    def record(self) -> GroupRecord:
        """What is to be stored of it."""
        return GroupRecord(
            generation=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            members=tuple(self.members.values()),
        )

    def wake_at_ms(self) -> int | None:
        """When time changes something here."""
        times = list(self.reserved.values())
        times += [self.sessions[key] for key, each in self.members.items() if not is_heard(each)]
        if self.deadline_ms is not None:
            times.append(self.deadline_ms)
        return min(times, default=None)

    # The moves.

    def on(self, event: GroupEvent) -> None:
        if event is GroupEvent.REBALANCE:
            self.counts.rebalances += 1
        self.state = next_group_state(self.state, event)

    def put(self, member: Member) -> None:
        """A new member, or a member as it is now."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.instances[member.instance_id] = member.member_id

    def heard(self, member: Member, now_ms: int) -> None:
        """Its session begins anew."""
        self.sessions[member.member_id] = now_ms + member.session_timeout_ms

    def remove(self, member_id: str, told: ErrorCode = ErrorCode.unknown_member_id) -> None:
        """It is no member any more; `told` to its request that waits."""
        member = self.members.pop(member_id)
        del self.sessions[member_id]
        if member.instance_id is not None:
            del self.instances[member.instance_id]
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.answer_error(member, told)
        member.moved(MemberEvent.REMOVE)

    def answer(self, ticket: Ticket | None, answer: JoinAnswer | SyncAnswer) -> None:
        """None: nobody waits."""
        if ticket is not None:
            self.effects.append(Answer(ticket, answer))

    def answer_error(self, member: Member, error: ErrorCode) -> None:
        """Tell its request that waits, if there is one, an error. The caller forgets the ticket."""
        if member.state is MemberState.SYNCING:
            self.answer(member.ticket, SyncAnswer(error=error))
            return
        known = NO_MEMBER if error is ErrorCode.unknown_member_id else member.member_id
        self.answer(member.ticket, JoinAnswer(error=error, member_id=known))

    def store(self, record: GroupRecord, written: Written) -> None:
        write_id = next(self.write_ids)
        self.writes[write_id] = written
        self.effects.append(Store(self.group_id, write_id, record))

    def wait_to_join(self, member: Member, ticket: Ticket, **changes: object) -> Member:
        """Its join waits; an earlier request of it is told to try again."""
        self.answer_error(member, ErrorCode.rebalance_in_progress)
        joining = member.moved(MemberEvent.JOIN, ticket=ticket, **changes)
        self.put(joining)
        return joining

    def told(self, member: Member, event: MemberEvent, **changes: object) -> Member:
        """Its ticket is answered (by the caller): it waits no more."""
        after = member.moved(event, ticket=None, **changes)
        self.members[member.member_id] = after
        return after

    def saw_newcomer(self) -> None:
        if self.first_round is not None:
            self.first_round = replace(self.first_round, has_newcomer=True)


def is_heard(member: Member) -> bool:
    """Whether it needs no heartbeat: it waits for us, and will hear. A newcomer is lost in time all
    the same: it has no id to come back with, so each try of its client would leave one behind."""
    return member.ticket is not None and not member.is_new
