"""Cluster metadata of the client: brokers, topics, partition leaders. Immutable values.

A `ClusterMetadata` is made from one Metadata response; `merge` puts a newer answer about some
topics over an older one: a deleted topic stays, with the error that reports it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.wire import entities as e

NO_LEADER = -1


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a broker; shown as `host:port`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker in the metadata."""

    broker_id: int
    address: Address
    rack: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    """One partition: leader, leader epoch and replicas."""

    partition: int
    leader: int
    """Broker id, or NO_LEADER."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    """One requested topic, whether it exists or not."""

    name: str
    topic_id: UUID | None
    is_internal: bool
    partitions: dict[int, PartitionMetadata]
    """By partition number, ascending."""
    error_code: ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The metadata of a cluster at one time."""

    cluster_id: str | None = None
    controller_id: int = -1
    brokers: dict[int, Broker] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    """By name; a requested topic that does not exist is here with its error code."""
    names: dict[UUID, str] = field(default_factory=dict)
    """Topic id → name, for the versions of Fetch and Produce that carry ids only (KIP-516)."""

    def partitions_of(self, topic: str) -> tuple[TopicPartition, ...]:
        known = self.topics.get(topic)
        return tuple(TopicPartition(topic, p) for p in known.partitions) if known else ()

    def partition(self, tp: TopicPartition) -> PartitionMetadata | None:
        known = self.topics.get(tp.topic)
        return known.partitions.get(tp.partition) if known else None

    def topic_id(self, topic: str) -> UUID | None:
        known = self.topics.get(topic)
        return known.topic_id if known else None

    def routing_error(self, tp: TopicPartition) -> ErrorCode:
        """Why no request for `tp` can be sent now; `none` when its leader is known."""
        topic = self.topics.get(tp.topic)
        if topic is None:
            return ErrorCode.unknown_topic_or_partition
        if topic.error_code is not ErrorCode.none:
            return topic.error_code
        partition = topic.partitions.get(tp.partition)
        if partition is None:
            return ErrorCode.unknown_topic_or_partition
        if partition.leader not in self.brokers:
            return ErrorCode.leader_not_available
        return ErrorCode.none

    def merge(self, newer: ClusterMetadata) -> ClusterMetadata:
        topics = self.topics | newer.topics
        names = {t.topic_id: t.name for t in topics.values() if t.topic_id is not None}
        return replace(newer, topics=topics, names=names)


def from_response(response: e.metadata.MetadataResponse) -> ClusterMetadata:
    """The content of one Metadata response; topics without a name (requested by id) are left
    out."""
    topics = {t.name: _topic(t.name, t) for t in response.topics if t.name is not None}
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers={
            b.node_id: Broker(broker_id=b.node_id, address=Address(b.host, b.port), rack=b.rack)
            for b in response.brokers
        },
        topics=topics,
        names={t.topic_id: t.name for t in topics.values() if t.topic_id is not None},
    )


def _topic(name: str, topic: e.metadata.MetadataResponseTopic) -> TopicMetadata:
    partitions = {
        p.partition_index: PartitionMetadata(
            partition=p.partition_index,
            leader=p.leader_id,
            leader_epoch=p.leader_epoch,
            replicas=p.replica_nodes,
            isr=p.isr_nodes,
            error_code=p.error_code,
        )
        for p in sorted(topic.partitions, key=lambda p: p.partition_index)
    }
    return TopicMetadata(
        name=name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=partitions,
        error_code=topic.error_code,
    )


def parse_bootstrap(bootstrap: str) -> tuple[Address, ...]:
    """`host:port[,host:port …]`, IPv6 in brackets. Raises ValueError with one sentence."""
    addresses = []
    for part in bootstrap.split(","):
        text = part.strip()
        if not text:
            continue
        host, colon, port = text.rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"'{text}' is not a broker address: expected host:port")
        addresses.append(Address(host.strip("[]"), int(port)))
    if not addresses:
        raise ValueError(f"no broker address in '{bootstrap}': expected host:port")
    return tuple(addresses)


def topic_name(cluster: ClusterMetadata, name: str, topic_id: UUID | None) -> str:
    """The name of a topic in a response: its name field, or by its id; empty when unknown."""
    return name or (cluster.names.get(topic_id, "") if topic_id is not None else "")
