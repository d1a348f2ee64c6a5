"""What goes into the groups and what comes out: requests, answers, effects, settings, a member.

All of them are values. Times are milliseconds of the host's monotonic clock unless a name says
otherwise; a ticket is whatever the host wants back with the answer to a request that may wait.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.states import MemberEvent, MemberState, next_member_state

Ticket = object
"""Who waits for an answer: opaque here, and given back with it."""

NO_GENERATION = -1
NO_MEMBER = ""
NO_SIZE_LIMIT = 2**31 - 1
CONSUMER_PROTOCOL_TYPE = "consumer"
"""Groups of consumers, whose protocol metadata are subscriptions; others' are not looked into."""


class Protocol(NamedTuple):
    """One way to assign that a member understands, with what it tells the leader for it."""

    name: str
    metadata: bytes


class Identity(NamedTuple):
    """Who a request says it comes from."""

    member_id: str
    instance_id: str | None = None
    """The name of a static member (KIP-345)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The broker's configuration of groups; the defaults are Kafka's."""

    initial_rebalance_delay_ms: int = 3_000
    """How long the first join of an empty group waits for others, each of whom lengthens it."""
    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    size_max: int = NO_SIZE_LIMIT
    """Members of a group."""
    consumer_session_timeout_ms: int = 45_000
    """Of members of the consumer protocol, who are told both (KIP-848)."""
    consumer_heartbeat_interval_ms: int = 5_000
    upgrades_classic: bool = False
    """A member of the consumer protocol may join a classic group of consumers
    (`group.consumer_migration_policy`)."""
    downgrades_consumer: bool = False
    """A group that only classic members are left in becomes a classic one."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """How long committed offsets stay when their group has become empty, or reads them no more."""

    @property
    def admits_classic(self) -> bool:
        """A classic consumer may join a group that has members of the consumer protocol."""
        return self.upgrades_classic or self.downgrades_consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup, without its versions: what they changed in meaning are the last two fields."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    takes_id_first: bool
    """A newcomer is told its id and joins with it (KIP-394): one that never hears the answer leaves
    no member behind."""
    may_skip_assignment: bool
    """A leader that took its place over can be told to leave the assignment as it is (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """What a join is told. `members` for the leader only."""

    error: ErrorCode = ErrorCode.none
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = NO_MEMBER
    member_id: str = NO_MEMBER
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sync:
    """A SyncGroup; `assignments` counts when the leader says it."""

    identity: Identity
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """What a sync is told."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member as it is now."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""
    state: MemberState = MemberState.JOINING
    ticket: Ticket | None = field(default=None, compare=False)
    """Its join or sync that waits."""
    is_new: bool = False
    """It was never told a generation, so it cannot heartbeat yet."""

    def moved(self, event: MemberEvent, **changes: object) -> "Member":
        """This member after `event`. Raises Fatal where its table does not list it."""
        return replace(self, state=next_member_state(self.state, event), **changes)  # type: ignore[arg-type]

    def metadata(self, protocol_name: str | None) -> bytes:
        """What it says for a protocol; empty where it does not know it."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """What is stored of a group: the last generation that has an assignment, or has nobody."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    leader_id: str | None
    members: tuple[Member, ...] = ()


class Lost(NamedTuple):
    """Effect: write that these members of a group of the consumer protocol are gone."""

    group_id: str
    member_ids: tuple[str, ...]


class Answer(NamedTuple):
    """Effect: a request that waited, or might have, is answered."""

    ticket: Ticket
    answer: JoinAnswer | SyncAnswer


class Store(NamedTuple):
    """Effect: make this record durable on every in-sync replica, and say so to `stored`, always."""

    group_id: str
    write_id: int
    record: GroupRecord


Effect = Answer | Store | Lost
