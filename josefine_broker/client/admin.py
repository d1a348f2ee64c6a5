"""Administration of topics, their configuration, and the cluster, through the controller.

An operation over several topics raises the first final error; its earlier changes remain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address, Broker
from josefine_broker.client.effects import ANY_BROKER, CONTROLLER, Call, Operation
from josefine_broker.client.operations import ask_until
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

BROKER_DEFAULT = -1
"""Partitions or replication factor: use the broker's default (KIP-464)."""

RESOURCE_TOPIC = 2
OPERATION_SET = 0
OPERATION_DELETE = 1
SOURCE_TOPIC = 1
"""`config_source` of a value set on the topic itself; all others are defaults."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to create; a field of BROKER_DEFAULT uses the broker's configuration."""

    name: str
    partitions: int = BROKER_DEFAULT
    replication_factor: int = BROKER_DEFAULT
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """`partitions` and `replication_factor` are -1 if an old broker does not report them."""

    name: str
    topic_id: UUID | None
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One configuration of a topic; `is_default`: not set on the topic itself."""

    name: str
    value: str | None
    is_default: bool
    read_only: bool
    sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    """The answer of DescribeCluster; `controller_id` -1: none is known."""

    cluster_id: str
    controller_id: int
    brokers: tuple[Broker, ...]


def _first_error(results: Iterable[Any]) -> KafkaError | None:
    """The first error of per-topic results that carry `error_code` and `error_message`."""
    for result in results:
        if result.error_code is not ErrorCode.none:
            name = getattr(result, "name", None) or getattr(result, "resource_name", None)
            return topic_error(name or "", result.error_code, result.error_message)
    return None


def topic_error(name: str, code: ErrorCode, message: str | None) -> KafkaError:
    """The error of one topic, with a message that names it."""
    if code is ErrorCode.unknown_topic_or_partition:
        return KafkaError(code, f"topic '{name}' does not exist")
    if code is ErrorCode.topic_already_exists:
        return KafkaError(code, f"topic '{name}' exists already")
    reason = message or code.name.replace("_", " ")
    return KafkaError(code, f"topic '{name}': {reason}")


def create_topics(
    session: Session,
    topics: Sequence[NewTopic],
    validate_only: bool,
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[str, CreatedTopic]]:
    """Create topics, or only validate the request."""
    request = e.create_topics.CreateTopicsRequest(
        topics=tuple(
            e.create_topics.CreatableTopic(
                name=topic.name,
                num_partitions=topic.partitions,
                replication_factor=topic.replication_factor,
                assignments=(),
                configs=tuple(
                    e.create_topics.CreatableTopicConfig(name=name, value=value)
                    for name, value in topic.configs.items()
                ),
            )
            for topic in topics
        ),
        timeout_ms=deadline_ms - now_ms,
        validate_only=validate_only,
    )
    # Cached metadata may still have these names as unknown topics.
    session.forget(topic.name for topic in topics)
    attempts = session.start(now_ms, deadline_ms, "create topics")
    call = Call(node=CONTROLLER, api_key=apis.CREATE_TOPICS, request=request)
    response, _ = yield from ask_until(attempts, call, lambda r: _first_error(r.topics))
    return {
        t.name: CreatedTopic(
            name=t.name,
            topic_id=t.topic_id,
            partitions=t.num_partitions,
            replication_factor=t.replication_factor,
        )
        for t in response.topics
    }


def delete_topics(
    session: Session, names: Sequence[str], now_ms: int, deadline_ms: int
) -> Operation[None]:
    """Delete topics by name, and forget their metadata."""
    request = e.delete_topics.DeleteTopicsRequest(
        topics=tuple(e.delete_topics.DeleteTopicState(name=name) for name in names),
        timeout_ms=deadline_ms - now_ms,
    )
    attempts = session.start(now_ms, deadline_ms, "delete topics", unknown_is_final=True)
    call = Call(node=CONTROLLER, api_key=apis.DELETE_TOPICS, request=request)
    yield from ask_until(attempts, call, lambda r: _first_error(r.responses))
    session.forget(names)


def create_partitions(
    session: Session,
    counts: Mapping[str, int],
    validate_only: bool,
    now_ms: int,
    deadline_ms: int,
) -> Operation[None]:
    """Grow topics to a total number of partitions."""
    request = e.create_partitions.CreatePartitionsRequest(
        topics=tuple(
            e.create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=None)
            for name, count in counts.items()
        ),
        timeout_ms=deadline_ms - now_ms,
        validate_only=validate_only,
    )
    attempts = session.start(now_ms, deadline_ms, "create partitions", unknown_is_final=True)
    call = Call(node=CONTROLLER, api_key=apis.CREATE_PARTITIONS, request=request)
    yield from ask_until(attempts, call, lambda r: _first_error(r.results))
    session.forget(counts)


def describe_configs(
    session: Session, topics: Sequence[str], now_ms: int, deadline_ms: int
) -> Operation[dict[str, dict[str, ConfigEntry]]]:
    """Topic → configuration name → entry, set or default."""
    request = e.describe_configs.DescribeConfigsRequest(
        resources=tuple(
            e.describe_configs.DescribeConfigsResource(
                resource_type=RESOURCE_TOPIC, resource_name=topic, configuration_keys=None
            )
            for topic in topics
        ),
        include_documentation=True,
    )
    attempts = session.start(now_ms, deadline_ms, "describe configs", unknown_is_final=True)
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_CONFIGS, request=request)
    response, _ = yield from ask_until(attempts, call, lambda r: _first_error(r.results))
    return {
        result.resource_name: {entry.name: _entry(entry) for entry in result.configs}
        for result in response.results
    }


def _entry(config: e.describe_configs.DescribeConfigsResourceResult) -> ConfigEntry:
    return ConfigEntry(
        name=config.name,
        value=config.value,
        is_default=config.config_source != SOURCE_TOPIC,
        read_only=config.read_only,
        sensitive=config.is_sensitive,
        documentation=config.documentation,
    )


def altered(
    resource_type: int, name: str, changes: Mapping[str, str | None]
) -> e.incremental_alter_configs.AlterConfigsResource:
    """Entries of one resource: name → new value, or None to return to the default."""
    return e.incremental_alter_configs.AlterConfigsResource(
        resource_type=resource_type,
        resource_name=name,
        configs=tuple(
            e.incremental_alter_configs.AlterableConfig(
                name=key,
                config_operation=OPERATION_DELETE if value is None else OPERATION_SET,
                value=value,
            )
            for key, value in changes.items()
        ),
    )


def alter_configs(
    session: Session,
    changes: Mapping[str, Mapping[str, str | None]],
    validate_only: bool,
    now_ms: int,
    deadline_ms: int,
) -> Operation[None]:
    """Topic → name → new value, or None to return to the default; other names stay as they are."""
    entities = e.incremental_alter_configs
    request = entities.IncrementalAlterConfigsRequest(
        resources=tuple(
            altered(RESOURCE_TOPIC, topic, configs) for topic, configs in changes.items()
        ),
        validate_only=validate_only,
    )
    attempts = session.start(now_ms, deadline_ms, "alter configs", unknown_is_final=True)
    call = Call(node=CONTROLLER, api_key=apis.INCREMENTAL_ALTER_CONFIGS, request=request)
    yield from ask_until(attempts, call, lambda r: _first_error(r.responses))


def describe_cluster(
    session: Session, now_ms: int, deadline_ms: int
) -> Operation[ClusterDescription]:
    """Ask any broker for the brokers of the cluster."""
    attempts = session.start(now_ms, deadline_ms, "describe cluster")
    request = e.describe_cluster.DescribeClusterRequest()
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_CLUSTER, request=request)
    response, _ = yield from ask_until(attempts, call, _cluster_error)
    return ClusterDescription(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=tuple(
            Broker(broker_id=b.broker_id, address=Address(b.host, b.port), rack=b.rack)
            for b in response.brokers
        ),
    )


def _cluster_error(response: e.describe_cluster.DescribeClusterResponse) -> KafkaError | None:
    if response.error_code is ErrorCode.none:
        return None
    return KafkaError(response.error_code, response.error_message or "describe cluster failed")
