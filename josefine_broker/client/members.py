"""The members of a cluster: registered brokers, voters of the metadata, and sizes of their logs."""

from __future__ import annotations

from typing import Any

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.effects import ANY_BROKER, CONTROLLER, Call, Operation
from josefine_broker.client.operations import answered_error, ask_until, refresh
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

METADATA_TOPIC = "__cluster_metadata"
"""Kafka's name for the metadata quorum (KIP-595)."""


def fenced_brokers(session: Session, now_ms: int, deadline_ms: int) -> Operation[dict[int, bool]]:
    """Every registered broker, with whether it is fenced (KIP-1073). Raises KafkaError."""
    attempts = session.start(now_ms, deadline_ms, "describe cluster")
    request = e.describe_cluster.DescribeClusterRequest(include_fenced_brokers=True)
    call = Call(node=ANY_BROKER, api_key=apis.DESCRIBE_CLUSTER, request=request)
    response, _ = yield from ask_until(
        attempts, call, lambda r: answered_error(r.error_code, r.error_message)
    )
    return {each.broker_id: each.is_fenced for each in response.brokers}


def voters(session: Session, now_ms: int, deadline_ms: int) -> Operation[frozenset[int]]:
    """The voters of the metadata, as their leader sees them. Raises KafkaError."""
    entities = e.describe_quorum
    attempts = session.start(now_ms, deadline_ms, "describe quorum")
    request = entities.DescribeQuorumRequest(
        topics=(
            entities.TopicRequest(
                topic_name=METADATA_TOPIC,
                partitions=(entities.PartitionRequest(partition_index=0),),
            ),
        )
    )
    yield from refresh(session, attempts, ())
    call = Call(node=CONTROLLER, api_key=apis.DESCRIBE_QUORUM, request=request)
    response, _ = yield from ask_until(attempts, call, _quorum_error)
    (topic,) = response.topics
    return frozenset(each.replica_id for each in topic.partitions[0].current_voters)


def log_sizes(
    session: Session, broker_id: int, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, int]]:
    """The bytes of each replica that this broker stores (KIP-113). Raises KafkaError."""
    attempts = session.start(now_ms, deadline_ms, f"describe the logs of broker {broker_id}")
    yield from refresh(session, attempts, ())
    request = e.describe_log_dirs.DescribeLogDirsRequest(topics=None)
    call = Call(node=broker_id, api_key=apis.DESCRIBE_LOG_DIRS, request=request)
    response, _ = yield from ask_until(attempts, call, lambda r: answered_error(r.error_code, None))
    return {
        TopicPartition(topic.name, each.partition_index): each.partition_size
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    }


def _quorum_error(response: Any) -> KafkaError | None:
    parts = [each for topic in response.topics for each in topic.partitions]
    codes = [response.error_code, *(each.error_code for each in parts)]
    return next((KafkaError(code) for code in codes if code is not ErrorCode.none), None)
