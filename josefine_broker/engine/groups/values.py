"""The values of the group coordinator: requests, answers, effects, settings, members.

Times are milliseconds of the host's monotonic clock unless a name differs; a ticket is whatever the
host wants back with the answer to a request that may wait.
"""

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.groups.states import MemberEvent, MemberState, next_member_state

Ticket = object
"""The waiting request: opaque here, and returned with its answer."""

NO_GENERATION = -1
NO_MEMBER = ""
NO_SIZE_LIMIT = 2**31 - 1
CONSUMER_PROTOCOL_TYPE = "consumer"
"""Groups of consumers, whose protocol metadata are subscriptions; other types are not parsed."""


class Protocol(NamedTuple):
    """An assignment strategy that a member supports, with its metadata for the leader."""

    name: str
    metadata: bytes


class Identity(NamedTuple):
    """The identity that a request claims."""

    member_id: str
    instance_id: str | None = None
    """The name of a static member (KIP-345)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The broker's group settings; the defaults are Kafka's."""

    initial_rebalance_delay_ms: int = 3_000
    """How long the first join of an empty group waits for others; each new member extends it."""
    session_timeout_min_ms: int = 6_000
    session_timeout_max_ms: int = 1_800_000
    size_max: int = NO_SIZE_LIMIT
    """The largest number of members."""
    consumer_session_timeout_ms: int = 45_000
    """For members of the consumer protocol; the broker sends them both values (KIP-848)."""
    consumer_heartbeat_interval_ms: int = 5_000
    upgrades_classic: bool = False
    """Whether a member of the consumer protocol may join a classic group of consumers
    (`group.consumer_migration_policy`)."""
    downgrades_consumer: bool = False
    """Whether a group with only classic members left becomes a classic group."""
    share: ShareConfig = field(default_factory=ShareConfig)
    """What share groups do that have no configuration of their own."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    """How long committed offsets stay after their group became empty or unsubscribed."""

    def __hash__(self) -> int:
        # Of one field: each request of a member looks up what its group does by these settings.
        return self.offsets_retention_ms

    @property
    def admits_classic(self) -> bool:
        """Whether a classic consumer may join a group with members of the consumer protocol."""
        return self.upgrades_classic or self.downgrades_consumer


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A JoinGroup; the last two fields have what its versions changed in meaning."""

    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    takes_id_first: bool
    """Whether a new member first gets its id and joins with it (KIP-394): one that never gets the
    answer leaves no member in the group."""
    may_skip_assignment: bool
    """Whether a leader that took over can be asked to keep the assignment (KIP-814)."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAnswer:
    """The answer to a join. `members` is for the leader only."""

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
    """A SyncGroup; `assignments` counts if it comes from the leader."""

    identity: Identity
    generation: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncAnswer:
    """The answer to a sync."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member."""

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
    """It has never got a generation, so it cannot send heartbeats yet."""

    def moved(self, event: MemberEvent, **changes: object) -> "Member":
        """The member after `event`. Raises Fatal where its table does not list it."""
        return replace(self, state=next_member_state(self.state, event), **changes)  # type: ignore[arg-type]

    def metadata(self, protocol_name: str | None) -> bytes:
        """Its metadata for a protocol; empty if it does not support that."""
        return next((each.metadata for each in self.protocols if each.name == protocol_name), b"")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """The stored state of a group: the last generation that has an assignment or no members."""

    generation: int
    protocol_type: str
    protocol_name: str | None
    leader_id: str | None
    members: tuple[Member, ...] = ()


class Lost(NamedTuple):
    """Effect: write that these members of a consumer-protocol group are lost."""

    group_id: str
    member_ids: tuple[str, ...]


class Answer(NamedTuple):
    """Effect: answer a request, one that waited or not."""

    ticket: Ticket
    answer: JoinAnswer | SyncAnswer


class Store(NamedTuple):
    """Effect: make this record durable on every in-sync replica, and report the result to `stored`
    in any case."""

    group_id: str
    write_id: int
    record: GroupRecord


Effect = Answer | Store | Lost
