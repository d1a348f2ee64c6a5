"""The cluster's metadata at one committed block: an immutable value.

Rules: an image is never changed, `core/changes.py` makes the next one; equal histories give equal
bytes (`to_bytes`), so two brokers can compare digests. The data path only reads the current image.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

from josefine_broker.base.errors import CorruptData

IMAGE_VERSION = 1

OFFSETS_TOPIC = "__consumer_offsets"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})

NO_LEADER = -1


class Endpoint(NamedTuple):
    """Where clients that came through `listener` dial a broker."""

    listener: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerEntry:
    """A registered broker."""

    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((each for each in self.endpoints if each.listener == listener), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionEntry:
    """One partition. `leader_epoch` grows with each leader, `partition_epoch` with each change."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


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
    """All metadata. `topic_names` finds a topic by id (KIP-516); it follows from `topics`."""

    cluster_id: str
    brokers: Mapping[int, BrokerEntry] = field(default_factory=_nothing)
    topics: Mapping[str, TopicEntry] = field(default_factory=_nothing)
    topic_names: Mapping[UUID, str] = field(default_factory=_nothing)
    next_producer_id: int = 0

    def topic_by_id(self, topic_id: UUID) -> TopicEntry | None:
        name = self.topic_names.get(topic_id)
        return None if name is None else self.topics[name]

    def partition(self, topic: str, index: int) -> PartitionEntry | None:
        entry = self.topics.get(topic)
        if entry is None or not 0 <= index < len(entry.partitions):
            return None
        return entry.partitions[index]

    def to_bytes(self) -> bytes:
        """Canonical bytes: the Raft snapshot, and what `digest` is taken of."""
        plain = {
            "version": IMAGE_VERSION,
            "cluster_id": self.cluster_id,
            "brokers": [broker_to_plain(self.brokers[key]) for key in sorted(self.brokers)],
            "topics": [topic_to_plain(self.topics[name]) for name in sorted(self.topics)],
            "next_producer_id": self.next_producer_id,
        }
        return canonical_json(plain)

    def digest(self) -> str:
        return sha256(self.to_bytes()).hexdigest()

    @classmethod
    def from_bytes(cls, data: bytes) -> "MetadataImage":
        plain = read_json(data, "metadata image")
        if plain.get("version") != IMAGE_VERSION:
            raise CorruptData(
                f"metadata image of version {plain.get('version')}, known is {IMAGE_VERSION}"
            )
        try:
            topics = {each["name"]: topic_from_plain(each) for each in plain["topics"]}
            return cls(
                cluster_id=plain["cluster_id"],
                brokers={each["id"]: broker_from_plain(each) for each in plain["brokers"]},
                topics=topics,
                topic_names={topic.topic_id: name for name, topic in topics.items()},
                next_producer_id=plain["next_producer_id"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CorruptData(f"metadata image: {error!r}") from error


def canonical_json(plain: dict[str, Any]) -> bytes:
    """One value, one byte string: sorted keys, no spaces, ASCII."""
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def read_json(data: bytes | memoryview, what: str) -> dict[str, Any]:
    """The JSON object in `data`. Raises CorruptData that names `what`."""
    try:
        plain = json.loads(bytes(data))
    except ValueError as error:
        raise CorruptData(f"{what} is not JSON: {error}") from error
    if not isinstance(plain, dict):
        raise CorruptData(f"{what} is not a JSON object")
    return plain


def broker_to_plain(broker: BrokerEntry) -> dict[str, Any]:
    """A broker as JSON values."""
    return {
        "id": broker.broker_id,
        "endpoints": [list(each) for each in broker.endpoints],
        "rack": broker.rack,
    }


def broker_from_plain(plain: dict[str, Any]) -> BrokerEntry:
    """The broker of `broker_to_plain`. Raises KeyError, TypeError, ValueError."""
    endpoints = tuple(Endpoint(*each) for each in plain["endpoints"])
    return BrokerEntry(broker_id=plain["id"], endpoints=endpoints, rack=plain["rack"])


def topic_to_plain(topic: TopicEntry) -> dict[str, Any]:
    """A topic as JSON values; a partition is a list, its fields in order."""
    return {
        "name": topic.name,
        "id": topic.topic_id.hex,
        "config": [list(pair) for pair in topic.config],
        "partitions": [
            [each.leader, each.leader_epoch, each.partition_epoch, [*each.replicas], [*each.isr]]
            for each in topic.partitions
        ],
    }


def topic_from_plain(plain: dict[str, Any]) -> TopicEntry:
    """The topic of `topic_to_plain`. Raises KeyError, TypeError, ValueError."""
    partitions = tuple(
        PartitionEntry(
            leader=leader,
            leader_epoch=leader_epoch,
            partition_epoch=partition_epoch,
            replicas=tuple(replicas),
            isr=tuple(isr),
        )
        for leader, leader_epoch, partition_epoch, replicas, isr in plain["partitions"]
    )
    return TopicEntry(
        name=plain["name"],
        topic_id=UUID(plain["id"]),
        partitions=partitions,
        config=tuple((name, value) for name, value in plain["config"]),
    )
