"""The metadata image: all metadata of the cluster at one committed block, as an immutable value.

Rules: an image is never changed, `metadata/apply.py` makes the next one; equal histories give equal
bytes (`to_bytes`), so two brokers can compare digests. The data path only reads the current image.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.acls import Acl, Operation, PatternType, Permission, ResourceType
from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.base.quotas import QuotaEntity, Quotas
from josefine_broker.base.scram import Credential
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.records.batch import NO_LEADER_EPOCH

IMAGE_VERSIONS = (1, 2, 3, 4, 5)
"""Version 2 adds doubts about single logs, 3 access control, 4 quotas, 5 configurations of groups;
each is written from its feature level on."""

JOSEFINE_VERSION = "josefine.version"
"""One number for the formats of blocks, snapshots and messages between brokers; see `features.py`.
"""
COMPLETENESS_LEVEL = 2
"""From this level on a registration reports each log; below, only the broker as a whole."""
CLEANING_LEVEL = 3
"""From this level on brokers clean compacted topics, and read offset records that hold their own
expiration time."""
TRANSACTIONS_LEVEL = 4
"""From this level on every broker reads transaction markers."""
VERIFYING_LEVEL = 5
"""From this level on leaders ask the transaction coordinator before they append the first batch of
a transaction."""
ACCESS_LEVEL, QUOTAS_LEVEL, GROUP_CONFIGS_LEVEL = 6, 7, 8
"""From these levels on the metadata contain ACLs and credentials; client quotas; configurations of
groups."""

TRANSACTION_VERSION = "transaction.version"
"""Kafka's feature that clients negotiate (KIP-890). 1: transaction records have tagged fields. 2:
the end of each transaction raises its producer's epoch, and leaders add partitions."""

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
SHARE_STATE_TOPIC = "__share_group_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATE_TOPIC})
METADATA_TOPIC = "__cluster_metadata"
"""Kafka's name for the log of its controllers; no topic can have that name."""

CLEANUP_POLICY = "cleanup.policy"
WAS_COMPACTED = "was.compacted"
"""Set by `apply` on a topic that is no longer compacted, forever: its offsets have holes."""

MIRROR_SESSION = "josefine.mirror.session"
"""The config of a topic that only this session of a mirror writes, while it is set."""

GROUP_VERSION = "group.version"
"""Kafka's feature (KIP-848): from level 1 on every broker serves groups of the consumer protocol.
"""

NO_LEADER = -1
"""Kafka's number for a partition that has none now."""


class Endpoint(NamedTuple):
    """The address of a broker for clients that connected through `listener`."""

    listener: str
    host: str
    port: int


class Address(NamedTuple):
    """The address of a broker's Raft for other brokers."""

    host: str
    port: int


class FeatureRange(NamedTuple):
    """The levels of one feature that a broker's code supports, both inclusive."""

    name: str
    min_level: int
    max_level: int


class Doubt(NamedTuple):
    """A replica that may lack committed records until it has fetched again."""

    broker_id: int
    completeness: Completeness


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A registered broker: one incarnation (one process) of it."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    epoch: int = 0
    """Height of the block that registered this incarnation: a later one has a larger epoch."""
    incarnation: str = ""
    """A unique name of the process; a broker that reads another name here has been replaced."""
    fenced: bool = True
    """The controller receives no heartbeats: it leads nothing and joins no ISR."""
    shutting_down: bool = False
    """It has asked to stop: its leaderships move away, and it joins no ISR."""
    unclean: bool = False
    """Its data directory was not closed, so it may lack records it acknowledged (KIP-966), until
    the controller has removed it from every ISR that has another member. Used below
    COMPLETENESS_LEVEL; from that level on each partition has its `doubts`."""
    raft: Address | None = None
    admin: str | None = None
    """URL of its health and metrics endpoints."""
    features: tuple[FeatureRange, ...] = ()

    @property
    def is_live(self) -> bool:
        return not self.fenced and not self.shutting_down

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEntry:
    """One partition. `leader_epoch` grows with each leader, `partition_epoch` with each change."""

    leader: int
    leader_epoch: LeaderEpoch
    partition_epoch: int
    replicas: tuple[int, ...]
    """The first is the preferred leader; `adding` and `removing` are included."""
    isr: tuple[int, ...]
    """Empty only after an unclean shutdown with `elr`; unchanged while there is no leader."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    """Replicas that the reassignment in progress adds and removes (KIP-455)."""
    elr: tuple[int, ...] = ()
    """Eligible leader replicas (KIP-966): they left an ISR that was below `min.insync.replicas`.
    From then on nothing was committed, so they have every committed record."""
    doubts: tuple[Doubt, ...] = ()
    """Replicas that lost records, or may have, since they were last in sync."""
    unclean_epoch: LeaderEpoch = NO_LEADER_EPOCH
    """The last leader epoch whose leader may have lacked committed records: in that epoch followers
    may have to truncate committed records. -1: none."""

    def completeness_of(self, broker_id: int) -> Completeness:
        """The completeness of that replica's log, provided that it is in sync."""
        for doubt in self.doubts:
            if doubt.broker_id == broker_id:
                return doubt.completeness
        return Completeness.COMPLETE

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment in progress."""
        return tuple(each for each in self.replicas if each not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicEntry:
    """One topic; `config` holds only what was set on it, by Kafka's names, as sorted pairs."""

    name: str
    topic_id: UUID
    partitions: tuple[PartitionEntry, ...]
    config: tuple[tuple[str, str], ...] = ()

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


def _nothing() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """All metadata. `topic_names` maps topic ids to names (KIP-516), derived from `topics`."""

    cluster_id: str
    brokers: Mapping[int, BrokerEntry] = field(default_factory=_nothing)
    topics: Mapping[str, TopicEntry] = field(default_factory=_nothing)
    topic_names: Mapping[UUID, str] = field(default_factory=_nothing)
    next_producer_id: int = 0
    """The first id that no broker has: they take them in blocks (KIP-730)."""
    features: Mapping[str, int] = field(default_factory=_nothing)
    """Finalized levels (KIP-584), which every registered broker supports."""
    features_epoch: int = -1
    """Height of the block that last changed them: clients compare it (KIP-584)."""
    unregistered: frozenset[int] = frozenset()
    """Brokers removed by command: they leave Raft as well, and may register again."""

    acls: frozenset[Acl] = frozenset()
    credentials: Mapping[tuple[str, str], Credential] = field(default_factory=_nothing)
    """(user, SCRAM mechanism) → the credential that passwords are verified with (KIP-554)."""

    quotas: Quotas = field(default_factory=_nothing)
    group_configs: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=_nothing)
    """Group id → what was set on the group, as sorted pairs; never empty ones."""

    @property
    def keeps_doubts(self) -> bool:
        """Whether registrations report each log, not only the broker as a whole."""
        return self.features.get(JOSEFINE_VERSION, 0) >= COMPLETENESS_LEVEL

    @property
    def cleans_logs(self) -> bool:
        """Whether every broker can read a log that the cleaner has processed."""
        return self.features.get(JOSEFINE_VERSION, 0) >= CLEANING_LEVEL

    @property
    def offsets_may_expire(self) -> bool:
        """Whether every broker reads an offset record that holds its own expiration time; an older
        one would fail to load the partition."""
        return self.features.get(JOSEFINE_VERSION, 0) >= CLEANING_LEVEL

    @property
    def serves_transactions(self) -> bool:
        """Whether every broker reads markers, and enforces what read_committed may see."""
        return self.features.get(JOSEFINE_VERSION, 0) >= TRANSACTIONS_LEVEL

    @property
    def verifies_transactions(self) -> bool:
        """Whether every broker answers a leader that verifies whether a partition is part of a
        transaction (KIP-890)."""
        return self.features.get(JOSEFINE_VERSION, 0) >= VERIFYING_LEVEL

    @property
    def keeps_access(self) -> bool:
        """Whether every broker enforces ACLs; an older one would allow everything."""
        return self.features.get(JOSEFINE_VERSION, 0) >= ACCESS_LEVEL

    @property
    def keeps_quotas(self) -> bool:
        """Whether every broker enforces client quotas; an older one would not limit clients."""
        return self.features.get(JOSEFINE_VERSION, 0) >= QUOTAS_LEVEL

    @property
    def keeps_group_configs(self) -> bool:
        """Whether every broker reads the configurations of groups; an older one would stop."""
        return self.features.get(JOSEFINE_VERSION, 0) >= GROUP_CONFIGS_LEVEL

    @property
    def serves_consumer_groups(self) -> bool:
        """Whether every broker reads the records of such groups: an older one would ignore them,
        and drop them when it compacts its offsets log."""
        return self.features.get(GROUP_VERSION, 0) >= 1

    @property
    def tags_transactions(self) -> bool:
        """Whether every broker reads transaction records with tagged fields."""
        return self.features.get(TRANSACTION_VERSION, 0) >= 1

    def is_live(self, broker_id: int) -> bool:
        """Whether the broker is registered, not fenced and not about to stop."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_live

    def live_brokers(self) -> frozenset[int]:
        """The brokers that may lead partitions."""
        return frozenset(key for key, broker in self.brokers.items() if broker.is_live)

    def topic_by_id(self, topic_id: UUID) -> TopicEntry | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionEntry | None:
        """The partition; None: there is no such topic, or it has fewer."""
        entry = self.topics.get(topic)
        if entry is None or not 0 <= index < len(entry.partitions):
            return None
        return entry.partitions[index]

    @property
    def _formats(self) -> int:
        return self.keeps_doubts + self.keeps_access + self.keeps_quotas + self.keeps_group_configs

    def to_bytes(self) -> bytes:
        """Canonical bytes: the data of a Raft snapshot, and the input of `digest`."""
        plain = {
            # The oldest version that can hold it, so that an older broker reads it as long as
            # possible.
            "version": IMAGE_VERSIONS[self._formats],
            "cluster_id": self.cluster_id,
            "brokers": [broker_to_plain(self.brokers[key]) for key in sorted(self.brokers)],
            "topics": [topic_to_plain(self.topics[name]) for name in sorted(self.topics)],
            "next_producer_id": self.next_producer_id,
            "features": dict(self.features),
            "features_epoch": self.features_epoch,
            "unregistered": sorted(self.unregistered),
        }
        # Missing when empty, as in version 1.
        if self.acls:
            plain["acls"] = sorted(self.acls)
        if self.credentials:
            plain["credentials"] = [
                credential_to_plain(key, self.credentials[key]) for key in sorted(self.credentials)
            ]
        if self.quotas:
            plain["quotas"] = [
                [list(entity), dict(bounds)]
                for entity, bounds in sorted(self.quotas.items(), key=lambda each: each[0].parts)
            ]
        if self.group_configs:
            plain["group_configs"] = dict(self.group_configs)
        return canonical_json(plain)

    def digest(self) -> str:
        """Equal on all brokers at the same height: simulations and operators compare it."""
        return sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "MetadataImage":
        """The image in a snapshot. Raises CorruptData, also for one of a newer broker."""
        plain = read_json(data, "metadata image")
        if plain.get("version") not in IMAGE_VERSIONS:
            raise CorruptData(
                f"metadata image of version {plain.get('version')}, known are {IMAGE_VERSIONS}"
            )
        try:
            topics = {each["name"]: topic_from_plain(each) for each in plain["topics"]}
            return cls(
                cluster_id=plain["cluster_id"],
                brokers={each["id"]: broker_from_plain(each) for each in plain["brokers"]},
                topics=topics,
                topic_names={topic.topic_id: name for name, topic in topics.items()},
                next_producer_id=plain["next_producer_id"],
                features={str(name): int(level) for name, level in plain["features"].items()},
                features_epoch=plain["features_epoch"],
                unregistered=frozenset(plain["unregistered"]),
                acls=frozenset(map(acl_from_plain, plain.get("acls", ()))),
                credentials=dict(map(credential_from_plain, plain.get("credentials", ()))),
                quotas={QuotaEntity(*each): bounds for each, bounds in plain.get("quotas", ())},
                group_configs={
                    str(group_id): tuple((name, value) for name, value in config)
                    for group_id, config in plain.get("group_configs", {}).items()
                },
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CorruptData(f"metadata image: {error!r}") from error


def canonical_json(plain: dict[str, Any]) -> bytes:
    """Canonical JSON, one byte string per value: sorted keys, no spaces, ASCII."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def read_json(data: bytes | memoryview, what: str) -> dict[str, Any]:
    """The JSON object in `data`. Raises CorruptData, whose message starts with `what`."""
    try:
        plain = json.loads(bytes(data))
    except (ValueError, RecursionError) as error:
        raise CorruptData(f"{what} is not JSON: {error}") from error
    if not isinstance(plain, dict):
        raise CorruptData(f"{what} is not a JSON object")
    return plain


def acl_from_plain(plain: list[Any]) -> Acl:
    """The ACL in its list form. Raises TypeError, ValueError."""
    kind, name, pattern, principal, host, operation, permission = plain
    return Acl(
        ResourceType(kind),
        name,
        PatternType(pattern),
        principal,
        host,
        Operation(operation),
        Permission(permission),
    )


def credential_to_plain(key: tuple[str, str], credential: Credential) -> list[Any]:
    """A user's credential as a list; bytes are hexadecimal digits."""
    return [
        *key,
        credential.iterations,
        credential.salt.hex(),
        credential.stored_key.hex(),
        credential.server_key.hex(),
    ]


def credential_from_plain(plain: list[Any]) -> tuple[tuple[str, str], Credential]:
    """The inverse of `credential_to_plain`. Raises TypeError, ValueError."""
    user, mechanism, iterations, *texts = plain
    salt, stored_key, server_key = map(bytes.fromhex, texts)
    return (user, mechanism), Credential(
        salt=salt, iterations=iterations, stored_key=stored_key, server_key=server_key
    )


def broker_to_plain(broker: BrokerEntry) -> dict[str, Any]:
    """A broker as JSON values."""
    return {
        "id": broker.broker_id,
        "endpoints": [list(each) for each in broker.endpoints],
        "rack": broker.rack,
        "epoch": broker.epoch,
        "incarnation": broker.incarnation,
        "fenced": broker.fenced,
        "shutting_down": broker.shutting_down,
        "unclean": broker.unclean,
        "raft": broker.raft,
        "admin": broker.admin,
        "features": [list(each) for each in broker.features],
    }


def broker_from_plain(plain: dict[str, Any]) -> BrokerEntry:
    """The inverse of `broker_to_plain`. Raises KeyError, TypeError, ValueError."""
    return BrokerEntry(
        broker_id=plain["id"],
        endpoints=tuple(Endpoint(*each) for each in plain["endpoints"]),
        rack=plain["rack"],
        epoch=plain["epoch"],
        incarnation=plain["incarnation"],
        fenced=plain["fenced"],
        shutting_down=plain["shutting_down"],
        unclean=plain["unclean"],
        raft=None if plain["raft"] is None else Address(*plain["raft"]),
        admin=plain["admin"],
        features=tuple(FeatureRange(*each) for each in plain["features"]),
    )


def topic_to_plain(topic: TopicEntry) -> dict[str, Any]:
    """A topic as JSON values."""
    return {
        "name": topic.name,
        "id": topic.topic_id.hex,
        "config": [list(pair) for pair in topic.config],
        "partitions": [partition_to_plain(each) for each in topic.partitions],
    }


def topic_from_plain(plain: dict[str, Any]) -> TopicEntry:
    """The inverse of `topic_to_plain`. Raises KeyError, TypeError, ValueError."""
    return TopicEntry(
        name=plain["name"],
        topic_id=UUID(plain["id"]),
        partitions=tuple(partition_from_plain(each) for each in plain["partitions"]),
        config=tuple((name, value) for name, value in plain["config"]),
    )


def partition_to_plain(entry: PartitionEntry) -> list[Any]:
    """A partition as a list of its fields in order; rarely used ones only if they are set."""
    plain: list[Any] = [
        entry.leader,
        entry.leader_epoch,
        entry.partition_epoch,
        entry.replicas,
        entry.isr,
    ]
    judged = bool(entry.doubts) or entry.unclean_epoch >= 0
    if entry.adding or entry.removing or entry.elr or judged:
        plain += [entry.adding, entry.removing, entry.elr]
    if judged:
        doubts = [[each.broker_id, each.completeness.value] for each in entry.doubts]
        plain += [doubts, entry.unclean_epoch]
    return plain


def partition_from_plain(plain: list[Any]) -> PartitionEntry:
    """The inverse of `partition_to_plain`. Raises TypeError, ValueError."""
    # 5, 8 or 10 fields: with those of a reassignment or an ELR, and those about completeness.
    leader, leader_epoch, partition_epoch, *more = plain
    lists, judged = more[:5], more[5:]
    replicas, isr, adding, removing, elr = map(tuple, lists if len(lists) > 2 else [*lists, *_NONE])
    doubts, unclean_epoch = judged or ((), NO_LEADER_EPOCH)
    return PartitionEntry(
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        replicas=replicas,
        isr=isr,
        adding=adding,
        removing=removing,
        elr=elr,
        doubts=tuple(Doubt(broker_id, Completeness(value)) for broker_id, value in doubts),
        unclean_epoch=unclean_epoch,
    )


_NONE: tuple[tuple[int, ...], ...] = ((), (), ())
