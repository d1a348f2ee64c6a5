"""Committed blocks to metadata, and metadata to hosted partitions.

Rules: called for every committed block, in order, on every broker; the image and the hosted
partitions follow before anybody who waits for the change is answered. While the blocks of the past
are replayed at start nothing is opened: a topic may be deleted further on. `reconcile` comes after.
"""

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.core.changes import AllocateProducerIds, apply, decode_change
from josefine_broker.core.image import OFFSETS_TOPIC, MetadataImage, TopicEntry
from josefine_broker.core.topic_config import resolve
from josefine_broker.handlers.context import Context, HostedPartition
from josefine_broker.handlers.groups import forget_missing_topics
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records

REPLAY_BYTES = 1 << 20


def apply_block(ctx: Context, payload: bytes | memoryview, *, replaying: bool = False) -> None:
    """Apply one block's payload. Raises CorruptData for a payload nobody here understands."""
    if not payload:
        return  # a leader's no-op
    change, origin = decode_change(payload)
    error: KafkaError | None = None
    try:
        ctx.image = apply(ctx.image, change)
    except KafkaError as refused:
        error = refused
    if replaying:
        return
    if error is None:
        reconcile(ctx)
    proposal = ctx.proposals.settle(origin, error)
    if proposal is None:
        return
    if error is None and isinstance(change, AllocateProducerIds):
        ctx.producer_ids.add(change.first_id, change.count)
    ctx.parked.wake(origin, ctx.clock.monotonic_ms())


def reconcile(ctx: Context) -> None:
    """Open, configure and delete hosted partitions until they are those of the image."""
    image = ctx.image
    if image is ctx.reconciled_image:
        return
    previous, ctx.reconciled_image = ctx.reconciled_image, image
    for name, topic in image.topics.items():
        if previous is None or previous.topics.get(name) is not topic:
            _close_other_ids(ctx, topic, previous)
            _host_topic(ctx, topic)
    gone = [] if previous is None else [n for n in previous.topics if n not in image.topics]
    for name in gone:
        assert previous is not None
        _close_topic(ctx, previous.topics[name])
    if gone or previous is None:
        forget_missing_topics(ctx)


def _close_other_ids(ctx: Context, topic: TopicEntry, previous: MetadataImage | None) -> None:
    """Deleted and made anew within one step: another topic under the same name."""
    before = None if previous is None else previous.topics.get(topic.name)
    if before is not None and before.topic_id != topic.topic_id:
        _close_topic(ctx, before)


def _host_topic(ctx: Context, topic: TopicEntry) -> None:
    settings = resolve(topic.config, ctx.settings.topic_defaults)
    for index, entry in enumerate(topic.partitions):
        if ctx.broker_id not in entry.replicas:
            continue
        tp = TopicPartition(topic.name, index)
        hosted = ctx.partitions.get(tp)
        if hosted is None:
            hosted = ctx.logs.open(tp, topic.topic_id, settings)
            ctx.partitions[tp] = hosted
            if topic.name == OFFSETS_TOPIC:
                _replay_offsets(ctx, hosted)
        elif hosted.settings != settings:
            ctx.logs.configure(tp, settings.log)
        hosted.settings = settings
        hosted.partition.min_insync_replicas = settings.min_insync_replicas
        partition = hosted.partition
        if entry.leader == ctx.broker_id and partition.lead(entry, hosted.log.log_end_offset):
            hosted.log.state.store_leader_epochs(partition.epochs.to_bytes())


def _close_topic(ctx: Context, topic: TopicEntry) -> None:
    now_ms = ctx.clock.monotonic_ms()
    for index in range(len(topic.partitions)):
        tp = TopicPartition(topic.name, index)
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
