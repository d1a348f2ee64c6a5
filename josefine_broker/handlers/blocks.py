"""Committed blocks to metadata, and metadata to hosted partitions.

Rules: called for every committed block, in order, on every broker; the image and the hosted
partitions follow before anybody who waits for the change is answered. While the blocks of the past
are replayed at start nothing is opened: a topic may be deleted further on. `reconcile` comes after.
A payload that this broker does not understand is Fatal: to skip it would be to fork the image. A
log that cannot be opened (a full disk) stops a start; later it only leaves its partition unserved,
KAFKA_STORAGE_ERROR, and the next change tries again.
"""

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.core.apply import apply
from josefine_broker.core.change_codec import decode_change
from josefine_broker.core.changes import AllocateProducerIds, At
from josefine_broker.core.image import OFFSETS_TOPIC, TopicEntry
from josefine_broker.core.topic_config import TopicSettings, resolve
from josefine_broker.handlers.context import Context, HostedPartition
from josefine_broker.handlers.groups import forget_missing_topics, shorten_offsets_log
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records

REPLAY_BYTES = 1 << 20


def apply_block(
    ctx: Context, payload: bytes | memoryview, at: At, *, replaying: bool = False
) -> None:
    """Apply the payload of the block at `at`. Raises Fatal."""
    try:
        change, origin = decode_change(payload)
    except CorruptData as unknown:
        raise Fatal(f"a committed block that this broker cannot apply: {unknown}") from unknown
    error: KafkaError | None = None
    try:
        ctx.image = apply(ctx.image, change, at)
    except KafkaError as refused:
        error = refused
    if replaying:
        return
    if error is None:
        reconcile(ctx, starting=False)
    proposal = ctx.proposals.settle(origin, error)
    if proposal is None:
        return
    if error is None and isinstance(change, AllocateProducerIds):
        ctx.producer_ids.add(change.first_id, change.count)
    ctx.parked.wake(origin, ctx.clock.monotonic_ms())


def reconcile(ctx: Context, *, starting: bool = True) -> None:
    """Open, configure and delete hosted partitions until they are those of the image.

    Raises OSError and CorruptData of a log only when `starting`.
    """
    image = ctx.image
    previous, ctx.reconciled_image = ctx.reconciled_image, image
    before = {} if previous is None else previous.topics
    retried = {topic for topic, _ in ctx.unopened}
    for name, topic in image.topics.items():
        known = before.get(name)
        if known is topic and name not in retried:
            continue
        if known is not None and known.topic_id != topic.topic_id:
            _close_topic(ctx, known)  # deleted and made anew within one step
        _host_topic(ctx, topic, starting)
    gone = [name for name in before if name not in image.topics]
    for name in gone:
        _close_topic(ctx, before[name])
    if gone or previous is None:
        forget_missing_topics(ctx)
    if starting:
        for tp in [tp for tp in ctx.partitions if tp[0] == OFFSETS_TOPIC]:
            shorten_offsets_log(ctx, TopicPartition(*tp), ctx.partitions[tp])


def _host_topic(ctx: Context, topic: TopicEntry, starting: bool) -> None:
    settings = resolve(topic.config, ctx.settings.topic_defaults)
    for index, entry in enumerate(topic.partitions):
        if ctx.broker_id not in entry.replicas:
            continue
        tp = TopicPartition(topic.name, index)
        try:
            hosted = _open(ctx, tp, topic, settings)
            partition = hosted.partition
            partition.min_insync_replicas = settings.min_insync_replicas
            if entry.leader == ctx.broker_id and partition.lead(entry, hosted.log.log_end_offset):
                hosted.log.state.store_leader_epochs(partition.epochs.to_bytes())
            ctx.unopened.pop(tp, None)
        except (OSError, CorruptData) as error:
            if starting:
                raise
            ctx.unopened[tp] = str(error)


def _open(
    ctx: Context, tp: TopicPartition, topic: TopicEntry, settings: TopicSettings
) -> HostedPartition:
    """The hosted partition with these settings, opened when it is not yet."""
    hosted = ctx.partitions.get(tp)
    if hosted is None:
        hosted = ctx.logs.open(tp, topic.topic_id, settings)
        if topic.name == OFFSETS_TOPIC:
            _replay_offsets(ctx, hosted)
        ctx.partitions[tp] = hosted
    elif hosted.settings != settings:
        ctx.logs.configure(tp, settings.log)
        hosted.settings = settings
    return hosted


def _close_topic(ctx: Context, topic: TopicEntry) -> None:
    now_ms = ctx.clock.monotonic_ms()
    for index in range(len(topic.partitions)):
        tp = TopicPartition(topic.name, index)
        ctx.unopened.pop(tp, None)
        if ctx.partitions.pop(tp, None) is not None:
            ctx.logs.delete(tp)
            ctx.parked.wake(tp, now_ms)


def _replay_offsets(ctx: Context, hosted: HostedPartition) -> None:
    """Read a partition of the offsets topic from its start into the groups' table."""
    log = hosted.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        buffers = log.read(offset, REPLAY_BYTES, end_offset=log.log_end_offset)
        if not buffers:
            return
        for buffer in buffers:
            data = memoryview(buffer)
            for pos, header in iter_batches(data):
                if not header.is_control:
                    for record in read_records(data[pos : pos + header.size_bytes]):
                        ctx.groups.replay(record.key, record.value)
                offset = header.end_offset
