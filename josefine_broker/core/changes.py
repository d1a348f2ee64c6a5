"""The changes of the cluster's metadata: values, their bytes (the Raft payloads), and `apply`.

Rules: `apply` is pure: equal images and changes give equal images on every broker. A change that
no longer fits (two creations of one name raced) raises KafkaError, on every broker alike, and the
image stays. Bytes are JSON with a version: a block is read by people, and rarely written. A change
this broker does not know is CorruptData, and its host must stop: skipping it would fork the image.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.core.image import (
    BrokerEntry,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
    broker_from_plain,
    broker_to_plain,
    canonical_json,
    read_json,
)

CHANGE_VERSION = 1

Replicas = tuple[tuple[int, ...], ...]
"""Broker ids per partition; the first is the preferred leader."""


class Origin(NamedTuple):
    """Who proposed a change: the proposer recognizes its own when the block is applied."""

    broker_id: int
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBroker:
    """A broker started: add it, or replace what is known of it."""

    broker: BrokerEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateTopic:
    """A topic with all its partitions, in one change."""

    name: str
    topic_id: UUID
    replicas: Replicas
    config: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopic:
    """By id: a topic made anew under the same name is another topic."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitions:
    """More partitions; `first_partition` is how many its proposer saw."""

    topic_id: UUID
    first_partition: int
    replicas: Replicas


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


Change = (
    RegisterBroker
    | CreateTopic
    | DeleteTopic
    | CreatePartitions
    | AlterTopicConfig
    | AllocateProducerIds
)

C = TypeVar("C")


def apply(image: MetadataImage, change: Change) -> MetadataImage:
    """The image after `change`. Raises KafkaError when the change no longer fits."""
    match change:
        case RegisterBroker(broker=broker):
            return replace(image, brokers={**image.brokers, broker.broker_id: broker})
        case CreateTopic():
            return _create_topic(image, change)
        case DeleteTopic(topic_id=topic_id):
            topic = _topic(image, topic_id)
            topics = {name: each for name, each in image.topics.items() if name != topic.name}
            names = {key: name for key, name in image.topic_names.items() if key != topic_id}
            return replace(image, topics=topics, topic_names=names)
        case CreatePartitions():
            return _create_partitions(image, change)
        case AlterTopicConfig(topic_id=topic_id, assign=assign, remove=remove):
            topic = _topic(image, topic_id)
            config = {name: value for name, value in topic.config if name not in remove}
            config.update(assign)
            return _with_topic(image, replace(topic, config=tuple(sorted(config.items()))))
        case AllocateProducerIds(first_id=first_id, count=count):
            if first_id != image.next_producer_id:
                raise KafkaError(
                    ErrorCode.coordinator_load_in_progress,
                    f"producer ids from {first_id} are taken, next is {image.next_producer_id}",
                )
            return replace(image, next_producer_id=first_id + count)


def _topic(image: MetadataImage, topic_id: UUID) -> TopicEntry:
    topic = image.topic_by_id(topic_id)
    if topic is None:
        raise KafkaError(ErrorCode.unknown_topic_or_partition, f"no topic with id {topic_id}")
    return topic


def _with_topic(image: MetadataImage, topic: TopicEntry) -> MetadataImage:
    return replace(image, topics={**image.topics, topic.name: topic})


def _create_topic(image: MetadataImage, change: CreateTopic) -> MetadataImage:
    if change.name in image.topics or change.topic_id in image.topic_names:
        raise KafkaError(ErrorCode.topic_already_exists, f"topic '{change.name}' already exists")
    topic = TopicEntry(
        name=change.name,
        topic_id=change.topic_id,
        partitions=_new_partitions(change.replicas),
        config=tuple(sorted(change.config)),
    )
    names = {**image.topic_names, topic.topic_id: topic.name}
    return replace(_with_topic(image, topic), topic_names=names)


def _create_partitions(image: MetadataImage, change: CreatePartitions) -> MetadataImage:
    topic = _topic(image, change.topic_id)
    if len(topic.partitions) != change.first_partition:
        raise KafkaError(
            ErrorCode.invalid_partitions,
            f"topic '{topic.name}' has {len(topic.partitions)} partitions by now, "
            f"not {change.first_partition}",
        )
    partitions = topic.partitions + _new_partitions(change.replicas)
    return _with_topic(image, replace(topic, partitions=partitions))


def _new_partitions(replicas: Replicas) -> tuple[PartitionEntry, ...]:
    return tuple(
        PartitionEntry(leader=ids[0], leader_epoch=0, partition_epoch=0, replicas=ids, isr=ids)
        for ids in replicas
    )


def encode_change(change: Change, origin: Origin) -> bytes:
    """The Raft payload of a change."""
    kind = _KIND_OF[type(change)]
    plain = {
        "version": CHANGE_VERSION,
        "kind": kind.name,
        "origin": list(origin),
        "change": kind.to_plain(change),
    }
    return canonical_json(plain)


def decode_change(payload: bytes | memoryview) -> tuple[Change, Origin]:
    """Raises CorruptData for bytes that are no change, or one of a newer broker's."""
    plain = read_json(payload, "metadata change")
    version, name = plain.get("version"), plain.get("kind")
    if version != CHANGE_VERSION:
        raise CorruptData(f"metadata change of version {version}, known is {CHANGE_VERSION}")
    kind = _KINDS.get(str(name))
    if kind is None:
        raise CorruptData(f"metadata change of unknown kind {name!r}")
    try:
        broker_id, number = plain["origin"]
        return kind.from_plain(plain["change"]), Origin(broker_id, number)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptData(f"metadata change {name!r}: {error!r}") from error


class _Kind(NamedTuple):
    name: str
    change_type: type[Change]
    to_plain: Callable[[Any], dict[str, Any]]
    from_plain: Callable[[dict[str, Any]], Change]


def _replicas(plain: list[list[int]]) -> Replicas:
    return tuple(tuple(ids) for ids in plain)


def _pairs(plain: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in plain)


def _create_topic_plain(c: CreateTopic) -> dict[str, Any]:
    config = [list(pair) for pair in c.config]
    return {"name": c.name, "id": c.topic_id.hex, "replicas": c.replicas, "config": config}


def _create_topic_change(p: dict[str, Any]) -> CreateTopic:
    return CreateTopic(
        name=p["name"],
        topic_id=UUID(p["id"]),
        replicas=_replicas(p["replicas"]),
        config=_pairs(p["config"]),
    )


def _create_partitions_plain(c: CreatePartitions) -> dict[str, Any]:
    return {"id": c.topic_id.hex, "first": c.first_partition, "replicas": c.replicas}


def _create_partitions_change(p: dict[str, Any]) -> CreatePartitions:
    return CreatePartitions(
        topic_id=UUID(p["id"]),
        first_partition=p["first"],
        replicas=_replicas(p["replicas"]),
    )


def _alter_config_plain(c: AlterTopicConfig) -> dict[str, Any]:
    return {"id": c.topic_id.hex, "assign": c.assign, "remove": c.remove}


def _alter_config_change(p: dict[str, Any]) -> AlterTopicConfig:
    return AlterTopicConfig(
        topic_id=UUID(p["id"]), assign=_pairs(p["assign"]), remove=tuple(p["remove"])
    )


_TABLE = (
    _Kind(
        "register_broker",
        RegisterBroker,
        lambda c: broker_to_plain(c.broker),
        lambda p: RegisterBroker(broker=broker_from_plain(p)),
    ),
    _Kind("create_topic", CreateTopic, _create_topic_plain, _create_topic_change),
    _Kind(
        "delete_topic",
        DeleteTopic,
        lambda c: {"id": c.topic_id.hex},
        lambda p: DeleteTopic(topic_id=UUID(p["id"])),
    ),
    _Kind(
        "create_partitions", CreatePartitions, _create_partitions_plain, _create_partitions_change
    ),
    _Kind("alter_topic_config", AlterTopicConfig, _alter_config_plain, _alter_config_change),
    _Kind(
        "allocate_producer_ids",
        AllocateProducerIds,
        lambda c: {"broker": c.broker_id, "first": c.first_id, "count": c.count},
        lambda p: AllocateProducerIds(broker_id=p["broker"], first_id=p["first"], count=p["count"]),
    ),
)
_KINDS = {kind.name: kind for kind in _TABLE}
_KIND_OF = {kind.change_type: kind for kind in _TABLE}
