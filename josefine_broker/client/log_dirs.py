"""The contents of all brokers' data directories (DescribeLogDirs, KIP-113)."""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.effects import Operation
from josefine_broker.client.operations import ask_each_broker
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredReplica:
    """One replica in a directory of a broker."""

    broker_id: int
    directory: str
    tp: TopicPartition
    size_bytes: int


def describe_log_dirs(
    session: Session, now_ms: int, deadline_ms: int
) -> Operation[list[StoredReplica]]:
    """Every replica of every broker, by broker and partition. Raises KafkaError."""
    attempts = session.start(now_ms, deadline_ms, "describe log directories")
    request = e.describe_log_dirs.DescribeLogDirsRequest(topics=None)
    responses = yield from ask_each_broker(
        session, attempts, apis.DESCRIBE_LOG_DIRS, request, _error
    )
    found = [
        StoredReplica(
            broker_id=node,
            directory=result.log_dir,
            tp=TopicPartition(topic.name, each.partition_index),
            size_bytes=each.partition_size,
        )
        for node, response in responses
        for result in response.results
        for topic in result.topics
        for each in topic.partitions
    ]
    return sorted(found, key=lambda each: (each.broker_id, each.directory, each.tp))


def _error(response: e.describe_log_dirs.DescribeLogDirsResponse) -> KafkaError | None:
    codes = [response.error_code, *(each.error_code for each in response.results)]
    return next((KafkaError(code) for code in codes if code is not ErrorCode.none), None)
