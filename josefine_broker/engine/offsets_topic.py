"""What the group handlers share: which partition of the offsets topic keeps a group, and writing.

A group here has no members (simple consumers): any client may commit for it with generation -1.
Only the leader of a group's partition serves it; it has read the partition when it began to lead.
An offset counts once every in-sync replica has it (acks=all), as in Kafka.
"""

from collections.abc import Callable, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.offsets import (
    CommittedOffset,
    coordinator_partition,
    encode_key,
    encode_value,
)
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.replicas.batches import append_batch
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records

OFFSETS_BYTES_MAX = 16 * 1024 * 1024
"""A longer partition of the offsets topic is rewritten by a new leader: about 100,000 commits, read
back in a second."""

REPLAY_BYTES = 1 << 20

_COORDINATOR_ERRORS = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size,
    ErrorCode.kafka_storage_error: ErrorCode.coordinator_not_available,
}
"""What a client of the coordinator is told when the offsets topic refuses (as Kafka maps them)."""


def coordinator_of(ctx: Context, group_id: str) -> tuple[TopicPartition, HostedPartition]:
    """The partition, led here, that keeps a group. Raises KafkaError(not_coordinator)."""
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.not_coordinator, "ask FindCoordinator first")
    tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, len(topic.partitions)))
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None or not hosted.partition.is_leader:
        raise KafkaError(ErrorCode.not_coordinator, f"{tp} is led by another broker")
    return tp, hosted


def store_offsets(
    ctx: Context,
    group_id: str,
    offsets: Sequence[tuple[TopicPartition, CommittedOffset | None]],
    build: Callable[[KafkaError | None], object] = lambda error: None,
) -> object:
    """Write offsets (None: a deletion) as one batch, and take them in when it is committed.

    `build` makes the answer, now or, through the parked token that is returned, later. Raises
    KafkaError when nothing was written.
    """
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
        base_offset, _ = append_batch(ctx, tp, hosted, batch, ACKS_ALL, now_ms)
    except KafkaError as error:
        raise _coordinators(error) from error
    outcome: list[KafkaError | None] = []

    def settle(error: KafkaError | None) -> None:
        outcome.append(error and _coordinators(error))
        if error is None:
            for each, committed in offsets:
                ctx.clients.groups.store(group_id, each, committed)

    appended = Appended(ctx, tp, hosted, base_offset + len(records), settle)
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, [appended], timeout_ms, lambda: build(outcome[0]))


def _coordinators(error: KafkaError) -> KafkaError:
    return KafkaError(_COORDINATOR_ERRORS.get(error.code, error.code), error.message)


def load_groups(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """This broker leads the partition now: read its groups, all of its log."""
    unload_groups(ctx, tp)
    log = hosted.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        buffers = log.read(offset, REPLAY_BYTES, end_offset=log.log_end_offset)
        if not buffers:
            break
        for buffer in buffers:
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                if not header.is_control:
                    batch = data[pos : pos + header.size_bytes]
                    for record in read_records(batch, bytes_max=OFFSETS_BYTES_MAX):
                        ctx.clients.groups.replay(record.key, record.value)
                offset = header.end_offset
    shorten_offsets_log(ctx, tp, hosted)


def unload_groups(ctx: Context, tp: TopicPartition) -> None:
    """Another broker coordinates this partition's groups."""
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        ctx.clients.groups.forget(lambda group_id: True)
        return
    groups, count = ctx.clients.groups, len(topic.partitions)
    groups.forget(lambda group_id: coordinator_partition(group_id, count) == tp.partition)


def shorten_offsets_log(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, bytes_max: int = OFFSETS_BYTES_MAX
) -> None:
    """Keep a partition of the offsets topic short: write what is true now, drop what came before.

    Done by a new leader, which has just read the whole partition. What came before goes when the
    last of the new records is committed; a crash in between leaves both, a disk that takes no more
    leaves it long.
    """
    log = hosted.log
    if log.size_bytes <= bytes_max:
        return
    count = len(ctx.image.topics[tp.topic].partitions)
    first_kept = log.log_end_offset
    open_writes = 1

    def written(error: KafkaError | None) -> None:
        nonlocal open_writes
        open_writes -= error is None  # after a failure it never comes to 0, and nothing goes
        if not open_writes:
            log.delete_before(first_kept)

    try:
        for group_id in ctx.clients.groups.group_ids:
            if coordinator_partition(group_id, count) == tp.partition:
                open_writes += 1
                offsets = list(ctx.clients.groups.committed(group_id).items())
                store_offsets(ctx, group_id, offsets, written)
        written(None)
    except KafkaError:
        return


def forget_missing_topics(ctx: Context) -> None:
    """Delete the offsets of topics that are gone: one made anew begins without them, as in Kafka.

    A deletion that cannot be written holds until the next leader, which tries again.
    """
    topics = ctx.image.topics
    for group_id in ctx.clients.groups.group_ids:
        gone = [tp for tp in ctx.clients.groups.committed(group_id) if tp.topic not in topics]
        if not gone:
            continue
        for tp in gone:
            ctx.clients.groups.store(group_id, tp, None)
        try:
            store_offsets(ctx, group_id, [(tp, None) for tp in gone])
        except KafkaError:
            continue
