"""Offsets of partitions: by time, earliest, latest; and DeleteRecords, which raises the
earliest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from josefine_broker.base.ids import TopicPartition, by_topic
from josefine_broker.client.cluster import ClusterMetadata
from josefine_broker.client.effects import Operation
from josefine_broker.client.operations import Answer, Spread, results, spread
from josefine_broker.client.session import Session
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e

LATEST = -1
"""The next offset to be read: the high watermark, or the last stable offset (isolation 1)."""
EARLIEST = -2
"""The log start offset."""
MAX_TIMESTAMP = -3
"""The record with the largest timestamp (KIP-734)."""

CONSUMER_REPLICA_ID = -1


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """`offset` -1: no record at or after the requested timestamp."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


def list_offsets(
    session: Session,
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[TopicPartition, ListedOffset]]:
    """One offset per partition: of EARLIEST, LATEST, MAX_TIMESTAMP or a time in ms."""
    attempts = session.start(now_ms, deadline_ms, "offsets")
    kind = Spread(
        api_key=apis.LIST_OFFSETS,
        build=partial(_list_request, wanted, isolation_level, deadline_ms - now_ms),
        parse=_list_answers,
    )
    return results((yield from spread(session, attempts, kind, wanted)))


def _list_request(
    wanted: Mapping[TopicPartition, int],
    isolation_level: int,
    timeout_ms: int,
    cluster: ClusterMetadata,
    partitions: Sequence[TopicPartition],
) -> e.list_offsets.ListOffsetsRequest:
    topics = tuple(
        e.list_offsets.ListOffsetsTopic(
            name=topic,
            partitions=tuple(
                e.list_offsets.ListOffsetsPartition(
                    partition_index=p, timestamp=wanted[TopicPartition(topic, p)]
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    return e.list_offsets.ListOffsetsRequest(
        replica_id=CONSUMER_REPLICA_ID,
        isolation_level=isolation_level,
        topics=topics,
        timeout_ms=timeout_ms,
    )


def _list_answers(
    cluster: ClusterMetadata, response: e.list_offsets.ListOffsetsResponse
) -> Iterable[Answer]:
    for topic in response.topics:
        for p in topic.partitions:
            listed = ListedOffset(p.offset, p.timestamp, p.leader_epoch)
            yield Answer(TopicPartition(topic.name, p.partition_index), p.error_code, listed)


def epoch_ends(
    session: Session, wanted: Mapping[TopicPartition, int], now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, tuple[int, int]]]:
    """The largest leader epoch up to the one asked for, and where it ended; (-1, -1): unknown."""
    attempts = session.start(now_ms, deadline_ms, "epochs")
    kind = Spread(
        api_key=apis.OFFSET_FOR_LEADER_EPOCH,
        build=partial(_epoch_request, wanted),
        parse=_epoch_answers,
    )
    return results((yield from spread(session, attempts, kind, wanted)))


def _epoch_request(
    wanted: Mapping[TopicPartition, int],
    cluster: ClusterMetadata,
    partitions: Sequence[TopicPartition],
) -> e.offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    topics = tuple(
        e.offset_for_leader_epoch.OffsetForLeaderTopic(
            topic=topic,
            partitions=tuple(
                e.offset_for_leader_epoch.OffsetForLeaderPartition(
                    partition=p, leader_epoch=wanted[TopicPartition(topic, p)]
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    return e.offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=CONSUMER_REPLICA_ID, topics=topics
    )


def _epoch_answers(
    cluster: ClusterMetadata, response: e.offset_for_leader_epoch.OffsetForLeaderEpochResponse
) -> Iterable[Answer]:
    for topic in response.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.topic, p.partition)
            yield Answer(tp, p.error_code, (p.leader_epoch, p.end_offset))


def delete_records(
    session: Session,
    before: Mapping[TopicPartition, int],
    now_ms: int,
    deadline_ms: int,
) -> Operation[dict[TopicPartition, int]]:
    """Delete records below an offset (-1: up to the high watermark). Returns new log start
    offsets."""
    attempts = session.start(now_ms, deadline_ms, "delete records")
    kind = Spread(
        api_key=apis.DELETE_RECORDS,
        build=partial(_delete_request, before, deadline_ms - now_ms),
        parse=_delete_answers,
    )
    return results((yield from spread(session, attempts, kind, before)))


def _delete_request(
    before: Mapping[TopicPartition, int],
    timeout_ms: int,
    cluster: ClusterMetadata,
    partitions: Sequence[TopicPartition],
) -> e.delete_records.DeleteRecordsRequest:
    topics = tuple(
        e.delete_records.DeleteRecordsTopic(
            name=topic,
            partitions=tuple(
                e.delete_records.DeleteRecordsPartition(
                    partition_index=p, offset=before[TopicPartition(topic, p)]
                )
                for p in numbers
            ),
        )
        for topic, numbers in by_topic(partitions).items()
    )
    return e.delete_records.DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def _delete_answers(
    cluster: ClusterMetadata, response: e.delete_records.DeleteRecordsResponse
) -> Iterable[Answer]:
    for topic in response.topics:
        for p in topic.partitions:
            tp = TopicPartition(topic.name, p.partition_index)
            yield Answer(tp, p.error_code, p.low_watermark)
