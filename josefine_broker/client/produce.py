"""Sends record batches to partition leaders; each partition has its own outcome.

A batch is sent as it is, one per partition and request. If the caller numbered it (idempotent
producer), a batch that the broker already has counts as written; its base offset may be unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import ClusterMetadata, topic_name
from josefine_broker.client.effects import Operation
from josefine_broker.client.operations import Answer, Outcome, Spread, spread
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import produce as wire

UNKNOWN_OFFSET = -1
"""Base offset of a batch sent with acks=0, or of a duplicate whose offset the broker forgot."""


@dataclass(frozen=True, slots=True)
class Written:
    """Offset of a written batch. `log_append_time_ms` -1: the records keep their own timestamps."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


Batch = bytes | bytearray | memoryview


def produce(
    session: Session,
    batches: Mapping[TopicPartition, Batch],
    acks: int,
    now_ms: int,
    deadline_ms: int,
    transactional_id: str | None = None,
) -> Operation[dict[TopicPartition, Outcome]]:
    """Write one batch per partition. Outcomes hold `Written`, or None with acks=0."""
    attempts = session.start(now_ms, deadline_ms, "produce")
    kind = Spread(
        api_key=apis.PRODUCE,
        build=partial(_request, batches, acks, deadline_ms - now_ms, transactional_id),
        parse=_answers,
        wants_response=acks != 0,
    )
    return (yield from spread(session, attempts, kind, batches))


def _request(
    batches: Mapping[TopicPartition, Batch],
    acks: int,
    timeout_ms: int,
    transactional_id: str | None,
    cluster: ClusterMetadata,
    partitions: Sequence[TopicPartition],
) -> wire.ProduceRequest:
    topics = tuple(
        wire.ProduceTopic(
            name=topic,
            topic_id=cluster.topic_id(topic),
            partitions=tuple(
                wire.ProducePartition(
                    index=p, records=memoryview(batches[TopicPartition(topic, p)])
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    return wire.ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topics=topics
    )


def _answers(cluster: ClusterMetadata, response: wire.ProduceResponse) -> Iterable[Answer]:
    for topic in response.topics:
        name = topic_name(cluster, topic.name, topic.topic_id)
        for p in topic.partitions:
            yield Answer(
                TopicPartition(name, p.index),
                ErrorCode(p.error_code),
                Written(p.base_offset, p.log_append_time_ms, p.log_start_offset),
                p.error_message,
            )
