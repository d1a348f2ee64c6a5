"""What the group handlers share: which partition of the offsets topic keeps a group, and writing.

A group here has no members (simple consumers): any client may commit for it with generation -1.
"""

from collections.abc import Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.core.group_offsets import (
    CommittedOffset,
    coordinator_partition,
    encode_key,
    encode_value,
)
from josefine_broker.core.image import OFFSETS_TOPIC
from josefine_broker.core.partition import ACKS_ALL
from josefine_broker.handlers.batches import append_batch
from josefine_broker.handlers.context import Context, HostedPartition
from josefine_broker.records.builder import Record, build_batch

OFFSETS_BYTES_MAX = 16 * 1024 * 1024
"""A longer partition of the offsets topic is rewritten at a start: about 100,000 commits, read back
in a second."""

_COORDINATOR_ERRORS = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.kafka_storage_error: ErrorCode.coordinator_not_available,
}
"""What a client of the coordinator is told when the offsets topic refuses (as Kafka maps them)."""


def coordinator_of(ctx: Context, group_id: str) -> tuple[TopicPartition, HostedPartition]:
    """The hosted partition that keeps a group. Raises KafkaError(not_coordinator)."""
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.not_coordinator, "ask FindCoordinator first")
    tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, len(topic.partitions)))
    hosted = ctx.partitions.get(tp)
    if hosted is None:
        raise KafkaError(ErrorCode.not_coordinator, f"{tp} is led by another broker")
    return tp, hosted


def store_offsets(
    ctx: Context, group_id: str, offsets: Sequence[tuple[TopicPartition, CommittedOffset | None]]
) -> None:
    """Write offsets (None: a deletion) as one batch, then take them in. Raises KafkaError."""
    tp, hosted = coordinator_of(ctx, group_id)
    now_ms = ctx.clock.now_ms()
    records = [
        Record(
            key=encode_key(group_id, each),
            value=None if committed is None else encode_value(committed),
            timestamp_ms=now_ms,
        )
        for each, committed in offsets
    ]
    batch = memoryview(bytearray(build_batch(records)))
    try:
        append_batch(ctx, tp, hosted, batch, ACKS_ALL, now_ms)
    except KafkaError as error:
        raise KafkaError(_COORDINATOR_ERRORS.get(error.code, error.code), error.message) from error
    for each, committed in offsets:
        ctx.groups.store(group_id, each, committed)


def shorten_offsets_log(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, bytes_max: int = OFFSETS_BYTES_MAX
) -> None:
    """Keep a partition of the offsets topic short: write what is true now, drop what came before.

    Done at a start, where the whole partition was just read. A crash in between leaves both; a
    disk that takes no more leaves it long.
    """
    log = hosted.log
    if log.size_bytes <= bytes_max:
        return
    topic = ctx.image.topics[tp.topic]
    first_kept = log.log_end_offset
    try:
        for group_id in ctx.groups.group_ids:
            if coordinator_partition(group_id, len(topic.partitions)) == tp.partition:
                store_offsets(ctx, group_id, list(ctx.groups.committed(group_id).items()))
        log.delete_before(first_kept)
    except KafkaError:
        return


def forget_missing_topics(ctx: Context) -> None:
    """Delete the offsets of topics that are gone: one made anew begins without them, as in Kafka.

    A deletion that cannot be written holds until a restart, which tries again.
    """
    topics = ctx.image.topics
    for group_id in ctx.groups.group_ids:
        gone = [tp for tp in ctx.groups.committed(group_id) if tp.topic not in topics]
        if not gone:
            continue
        try:
            store_offsets(ctx, group_id, [(tp, None) for tp in gone])
        except KafkaError:
            for tp in gone:
                ctx.groups.store(group_id, tp, None)
