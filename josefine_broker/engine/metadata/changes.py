"""The metadata changes, as values. `apply.py` applies them, `change_codec.py` encodes them.

Rules: a change carries its effects, chosen by its proposer. Nothing is elected or placed when it is
applied, so brokers of two versions cannot disagree. A change names its preconditions (an id, an
epoch, a count), which are compared when it is applied.
"""

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.acls import Acl
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.quotas import QuotaEntity
from josefine_broker.base.scram import Credential
from josefine_broker.engine.metadata.image import Address, Endpoint, FeatureRange, PartitionEntry
from josefine_broker.engine.metadata.log_completeness import LogClaims

Replicas = tuple[tuple[int, ...], ...]
"""Broker ids per partition; the first is the preferred leader."""


class Origin(NamedTuple):
    """The proposer of a change, who recognizes it by this when the block is applied."""

    broker_id: int
    number: int


class At(NamedTuple):
    """The Raft block that carries a change."""

    term: int
    height: int
    """Of the block in the chain; broker epochs are heights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker has started: a new incarnation, fenced until the controller gets its heartbeats.

    `previous_epoch` is the epoch of the incarnation that left the data directory, if everything it
    wrote is there (-1: something is missing, or it is unknown).
    """

    broker_id: int
    incarnation: str
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    raft: Address | None = None
    admin: str | None = None
    features: tuple[FeatureRange, ...] = ()
    clean: bool = True
    """The only statement about its logs below COMPLETENESS_LEVEL: each one is complete."""
    logs: LogClaims | None = None
    """The completeness of each log; None below that level, or when proposed without an image."""
    previous_epoch: int = -1
    known_epoch: int | None = None
    """Epoch of this broker in the proposer's image, -1 if not registered. The change is refused if
    another process has registered since, because the proposer may be dead by then. None: proposed
    without an image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker has left for good; refused while it has replicas."""

    broker_id: int


class BrokerState(NamedTuple):
    """The controller's state of one broker incarnation."""

    broker_id: int
    epoch: int
    fenced: bool
    shutting_down: bool
    unclean: bool


class PartitionState(NamedTuple):
    """The controller's new state of one partition, if it is still at `partition_epoch`."""

    topic_id: UUID
    partition: int
    partition_epoch: int
    leader: int
    leader_epoch: LeaderEpoch
    """The current one, or one more for a new leader or the old one elected again."""
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, topic_id: UUID, partition: int, old: PartitionEntry, new: PartitionEntry
    ) -> "PartitionState":
        """The change from `old` to `new`, with the old partition epoch as precondition."""
        return cls(
            topic_id,
            partition,
            old.partition_epoch,
            new.leader,
            new.leader_epoch,
            new.isr,
            new.replicas,
            new.adding,
            new.removing,
            new.elr,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A decision of the controller of `controller_term`. Refused as a whole in a block of another
    term; entries that no longer fit are skipped, and the controller decides again."""

    controller_term: int
    reason: str
    """For people who read the chain."""
    brokers: tuple[BrokerState, ...] = ()
    partitions: tuple[PartitionState, ...] = ()


class IsrItem(NamedTuple):
    """The in-sync replicas that a partition's leader proposes."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    """The one that the proposer saw: any change since refuses the item."""
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    """Replicas that left the ISR and may still be elected (KIP-966)."""
    joined: tuple[tuple[int, int], ...] = ()
    """(broker, broker epoch) of each new member: the incarnation that had caught up. A later one
    may have lost what that one had (KIP-903)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsr:
    """A broker changes the ISRs of partitions that it leads (KIP-497). Items that no longer fit are
    skipped; the proposer reads the result of each from the image."""

    broker_id: int
    broker_epoch: int
    items: tuple[IsrItem, ...]


class ReassignItem(NamedTuple):
    """One partition's new replicas; None cancels the reassignment in progress."""

    topic_id: UUID
    partition: int
    target: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignPartitions:
    """Start reassignments (KIP-455). Items that are not possible are skipped."""

    items: tuple[ReassignItem, ...]


class FeatureLevel(NamedTuple):
    """A feature's new level, if it is still at `previous`; 0 means absent."""

    name: str
    previous: int
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatures:
    """Finalize levels that every broker supports (KIP-584), all of them or none."""

    levels: tuple[FeatureLevel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """Create a topic with all its partitions, in one change.

    Replicas in `offline` are not in the initial ISR; the first one that is in it leads. If all are
    offline, all are in the ISR (an empty log has every record), and there is no leader yet.
    """

    name: str
    topic_id: UUID
    replicas: Replicas
    config: tuple[tuple[str, str], ...] = ()
    offline: tuple[int, ...] = ()
    """Brokers that were not live when the proposer placed the replicas: `apply` decides nothing
    itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """Delete a topic by id: one that is created again with the same name is another topic."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """Add partitions. `first_partition` is the number that the proposer saw; `offline` is as in
    CreateTopic."""

    topic_id: UUID
    first_partition: int
    replicas: Replicas
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfig:
    """Set the pairs of `assign`, remove the names of `remove`."""

    topic_id: UUID
    assign: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """Allocate the block [first_id, first_id + count) to a broker, if it is still the next one."""

    broker_id: int
    first_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAcls:
    """Add and remove ACLs; one that is already there or already gone is no error."""

    add: tuple[Acl, ...] = ()
    remove: tuple[Acl, ...] = ()


class UserCredential(NamedTuple):
    """A user's credential for one mechanism."""

    user: str
    mechanism: str
    credential: Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCredentials:
    """Set credentials, in place of earlier ones, and remove those of the given (user, mechanism)
    pairs."""

    put: tuple[UserCredential, ...] = ()
    remove: tuple[tuple[str, str], ...] = ()


class QuotaChange(NamedTuple):
    """One quota of an entity; None removes it."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas:
    """Set and remove client quotas."""

    quotas: tuple[QuotaChange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterGroupConfig:
    """Set the pairs of `assign` on a group, remove the names of `remove`. It need not exist."""

    group_id: str
    assign: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


Change = (
    RegisterBroker
    | UnregisterBroker
    | Decision
    | AlterIsr
    | ReassignPartitions
    | SetFeatures
    | CreateTopic
    | DeleteTopic
    | CreatePartitions
    | AlterTopicConfig
    | AllocateProducerIds
    | AlterAcls
    | AlterCredentials
    | AlterQuotas
    | AlterGroupConfig
)
