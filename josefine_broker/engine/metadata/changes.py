"""The changes of the cluster's metadata, as values. `apply.py` applies them, `change_codec.py`
turns them into Raft payloads.

Rules: a change carries its effects, chosen by its proposer; nothing is elected or placed when it is
applied, so brokers of two versions cannot disagree. Whatever a change depends on is named in it
(an id, an epoch, a count) and is compared when it is applied.
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
    """Who proposed a change: the proposer recognizes its own when the block is applied."""

    broker_id: int
    number: int


class At(NamedTuple):
    """The Raft block that carries a change."""

    term: int
    height: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker started: a new incarnation, fenced until the controller hears it.

    `previous_epoch` is that of the incarnation that left the data directory, if all that it wrote
    is there (-1: that is not so, or not known).
    """

    broker_id: int
    incarnation: str
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    raft: Address | None = None
    admin: str | None = None
    features: tuple[FeatureRange, ...] = ()
    clean: bool = True
    """All that may be said of its logs below COMPLETENESS_LEVEL: each is complete."""
    logs: LogClaims | None = None
    """What may be believed of each log; None below that level, or proposed without an image."""
    previous_epoch: int = -1
    known_epoch: int | None = None
    """Epoch of this broker, -1 for none, where it was proposed: refused when another process has
    registered since, for the proposer may be dead by then. None: it was proposed without an image.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBroker:
    """A broker left for good; refused while it holds replicas."""

    broker_id: int


class BrokerState(NamedTuple):
    """What the controller says of one incarnation of a broker."""

    broker_id: int
    epoch: int
    fenced: bool
    shutting_down: bool
    unclean: bool


class PartitionState(NamedTuple):
    """What the controller makes of one partition, if it still is at `partition_epoch`."""

    topic_id: UUID
    partition: int
    partition_epoch: int
    leader: int
    leader_epoch: LeaderEpoch
    """That of the partition now, or one more: a new leader, or the old one elected again."""
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, topic_id: UUID, partition: int, old: PartitionEntry, new: PartitionEntry
    ) -> "PartitionState":
        """From `old` to `new`; the partition epoch is the old one's."""
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
    """What the controller of `controller_term` decided. Refused as a whole in a block of another
    term; entries that no longer fit are skipped, the controller looks again."""

    controller_term: int
    reason: str
    """For people who read the chain."""
    brokers: tuple[BrokerState, ...] = ()
    partitions: tuple[PartitionState, ...] = ()


class IsrItem(NamedTuple):
    """The in-sync replicas of one partition as its leader wants them."""

    topic_id: UUID
    partition: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    isr: tuple[int, ...]
    elr: tuple[int, ...] = ()
    joined: tuple[tuple[int, int], ...] = ()
    """(broker, broker epoch) of each new member: the incarnation that was seen to have caught up.
    A later one may have lost what that one had (KIP-903)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterIsr:
    """A partition leader changes its ISRs (KIP-497). Items that no longer fit are skipped: the
    proposer reads in the image what came of each."""

    broker_id: int
    broker_epoch: int
    items: tuple[IsrItem, ...]


class ReassignItem(NamedTuple):
    """One partition's new replicas; None: as before the reassignment under way."""

    topic_id: UUID
    partition: int
    target: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignPartitions:
    """Partitions shall move (KIP-455). Items that cannot be are skipped."""

    items: tuple[ReassignItem, ...]


class FeatureLevel(NamedTuple):
    """A feature's new level, if it still is at `previous`; 0 is the absence of one."""

    name: str
    previous: int
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetFeatures:
    """Finalize levels that every broker understands (KIP-584), all of them or none."""

    levels: tuple[FeatureLevel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic with all its partitions, in one change.

    Replicas in `offline` are not in sync at birth; the first that is leads. Where all are offline,
    all are in sync (an empty log has every record) and nobody leads yet.
    """

    name: str
    topic_id: UUID
    replicas: Replicas
    config: tuple[tuple[str, str], ...] = ()
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """By id: a topic made anew under the same name is another topic."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """More partitions; `first_partition` is how many its proposer saw. `offline` as CreateTopic."""

    topic_id: UUID
    first_partition: int
    replicas: Replicas
    offline: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterTopicConfig:
    """Set the pairs of `assign`, drop the names of `remove`."""

    topic_id: UUID
    assign: tuple[tuple[str, str], ...] = ()
    remove: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateProducerIds:
    """The block [first_id, first_id + count) goes to a broker, if it still is the next one."""

    broker_id: int
    first_id: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterAcls:
    """These ACLs are there afterwards, those are not; what is so already stays."""

    add: tuple[Acl, ...] = ()
    remove: tuple[Acl, ...] = ()


class UserCredential(NamedTuple):
    """How a user proves a password by one mechanism."""

    user: str
    mechanism: str
    credential: Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterCredentials:
    """Credentials that are there afterwards in place of any before, and (user, mechanism) of those
    that are not."""

    put: tuple[UserCredential, ...] = ()
    remove: tuple[tuple[str, str], ...] = ()


class QuotaChange(NamedTuple):
    """One bound of an entity; None: there is none any more."""

    entity: QuotaEntity
    key: str
    value: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterQuotas:
    """Bounds of clients that count afterwards, each in place of any before."""

    quotas: tuple[QuotaChange, ...]


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
)
