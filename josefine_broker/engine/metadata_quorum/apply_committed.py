"""Application of committed blocks: to the metadata image, and from the image to hosted partitions.

Rules:
- called for every committed block, in order, on every broker; image and hosted partitions follow
  before any request that waits for the change is answered;
- nothing is hosted before the image has this incarnation of the broker: an image that is still
  being replayed may have topics that a later block deletes, or a leader of the past;
- a payload that this broker does not understand is Fatal: skipping it would fork the image;
- a log that cannot be opened makes only its partition unavailable (KAFKA_STORAGE_ERROR). After a
  lack of space it is opened again, soon and at the next change; a damaged one waits for a restart,
  because every attempt may read all of it.
Unchanged parts are skipped by identity: successive images share what did not change.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple
from uuid import UUID

from josefine_broker.base.errors import CorruptData, Fatal, KafkaError
from josefine_broker.base.ids import LeaderEpoch, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.group_configs_host import group_configs_changed
from josefine_broker.engine.coordinators.loading_groups import (
    begin_loading,
    forget_missing_topics,
    groups_moved,
    unload_groups,
)
from josefine_broker.engine.coordinators.loading_share_states import (
    begin_loading_share_states,
    share_states_moved,
    unload_share_states,
)
from josefine_broker.engine.coordinators.loading_transactions import (
    begin_loading_transactions,
    transactions_moved,
    unload_transactions,
)
from josefine_broker.engine.hosted import HostedPartition, Unopened
from josefine_broker.engine.metadata.apply import apply
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import AllocateProducerIds, At
from josefine_broker.engine.metadata.image import (
    OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTIONS_TOPIC,
    MetadataImage,
    PartitionEntry,
    TopicEntry,
)
from josefine_broker.engine.metadata.mirror_configs import number_of
from josefine_broker.engine.metadata.topic_config import TopicSettings, resolve
from josefine_broker.engine.replicas.catching_up import forget_catch_up
from josefine_broker.engine.replicas.leading import brokers_changed, take_role, wake_all
from josefine_broker.records.batch import NO_LEADER_EPOCH


class _Coordinates(NamedTuple):
    """The load and unload actions for leadership of a coordinator topic's partition."""

    load: Callable[[Context, TopicPartition, HostedPartition], None]
    unload: Callable[[Context, TopicPartition], None]


class ToHost(NamedTuple):
    """A partition that the image assigns to this broker."""

    tp: TopicPartition
    topic_id: UUID
    settings: TopicSettings
    is_only_replica: bool
    """No other broker has a replica."""


COORDINATORS = {
    OFFSETS_TOPIC: _Coordinates(begin_loading, unload_groups),
    TRANSACTIONS_TOPIC: _Coordinates(begin_loading_transactions, unload_transactions),
    SHARE_STATE_TOPIC: _Coordinates(begin_loading_share_states, unload_share_states),
}


def apply_block(ctx: Context, payload: bytes | memoryview, at: At) -> None:
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
    # Also for a refused change: the height counts blocks, and the image after this one is known.
    ctx.metadata.applied_height = at.height
    if error is None:
        reconcile(ctx)
    proposal = ctx.metadata.proposals.close(origin)
    if proposal is None:
        return
    if error is None and isinstance(change, AllocateProducerIds):
        ctx.clients.producer_ids.add(change.first_id, change.count)
    # Last: the request that waits may read the image and the hosted partitions at once.
    proposal.settle(error)


def replace_image(ctx: Context, image: MetadataImage, height: int) -> None:
    """Replace the image by a snapshot, which covers all blocks up to its height, possibly some with
    proposals of this broker. A proposal that is repeated after a change of leader would be refused,
    because its effect is in the image; so the image settles it."""
    ctx.image = image
    ctx.metadata.applied_height = height
    reconcile(ctx)
    ctx.metadata.proposals.settle_by(image)


def name_cluster(ctx: Context, cluster_id: str) -> None:
    """Apply the block that names the cluster, which is not a metadata change."""
    if ctx.image.cluster_id != cluster_id:
        ctx.image = replace(ctx.image, cluster_id=cluster_id)


def reconcile(ctx: Context) -> None:
    """Open, configure and delete hosted partitions until they match the image, each in its role.
    Does nothing while the image lacks this incarnation."""
    image = ctx.image
    if ctx.broker_epoch < 0:
        return
    metadata = ctx.metadata
    previous, metadata.reconciled_image = metadata.reconciled_image, image
    before = {} if previous is None else previous.topics
    # Not opened for a reason that may pass, such as a full disk.
    retried = {tp[0] for tp, unopened in ctx.hosted.unopened.items() if not unopened.is_damaged}
    changed: list[TopicPartition] = []
    """Partitions whose delayed operations are checked again once everything matches the image."""
    is_replaced = False
    for name, topic in image.topics.items():
        known = before.get(name)
        if known is topic and name not in retried:
            continue
        if known is not None and known.topic_id != topic.topic_id:
            _close_topic(ctx, known, changed)  # deleted and created again within one step
            known, is_replaced = None, True
        _host_topic(ctx, topic, known, changed)
    gone = [name for name in before if name not in image.topics]
    for name in gone:
        _close_topic(ctx, before[name], changed)
    wake_all(ctx, changed)
    if previous is None or image.brokers is not previous.brokers:
        _note_fenced(ctx, previous)
        brokers_changed(ctx)
        ctx.parked.wake_for_brokers(ctx.clock.monotonic_ms())
    groups_moved(ctx)
    transactions_moved(ctx)
    if previous is None or image.group_configs is not previous.group_configs:
        group_configs_changed(ctx)
    share_states_moved(ctx, is_topic_gone=bool(gone) or is_replaced)
    if gone or previous is None:
        forget_missing_topics(ctx)
    if previous is None:
        # Folders of partitions that were deleted or moved while this broker was down. Before the
        # image had this process, a partition that it lacks could still come with a later block.
        ctx.ports.logs.remove_strays({*ctx.hosted.partitions, *ctx.hosted.unopened})


def _note_fenced(ctx: Context, previous: MetadataImage | None) -> None:
    """Note when brokers that were active in the previous image became fenced in this one."""
    if previous is None:
        return
    for broker_id, broker in ctx.image.brokers.items():
        before = previous.brokers.get(broker_id)
        if broker.fenced and before is not None and not before.fenced:
            ctx.metadata.fenced_ms[broker_id] = ctx.clock.monotonic_ms()


def retry_unopened(ctx: Context) -> None:
    """Periodic: try again to open partitions that could not be opened, without waiting for a change
    of the image."""
    unopened = ctx.hosted.unopened.values()
    if not ctx.storage.is_full and any(not each.is_damaged for each in unopened):
        reconcile(ctx)


def to_be_hosted(ctx: Context) -> list[ToHost]:
    """The partitions that `reconcile` would open for this image; their logs are recovered first."""
    wanted = []
    for topic in ctx.image.topics.values():
        settings = resolve(topic.config, ctx.settings.defaults_of(topic.name))
        for index, entry in enumerate(topic.partitions):
            if ctx.broker_id in entry.replicas:
                tp, is_only = TopicPartition(topic.name, index), len(entry.replicas) == 1
                wanted.append(ToHost(tp, topic.topic_id, settings, is_only))
    return wanted


def _host_topic(
    ctx: Context, topic: TopicEntry, known: TopicEntry | None, changed: list[TopicPartition]
) -> None:
    """Open, configure or close this broker's partitions of one topic. `known`: as in the image that
    was reconciled last; None: new."""
    # An entry that is the same object as before has not changed (images share structure), so a
    # change of one partition does not visit the settings and logs of the others.
    unopened = ctx.hosted.unopened
    settings: TopicSettings | None = None
    same_config = known is not None and known.config == topic.config
    old = () if known is None else known.partitions
    for index, entry in enumerate(topic.partitions):
        is_known = same_config and index < len(old) and old[index] is entry
        if is_known and not (unopened and (topic.name, index) in unopened):
            continue
        tp = TopicPartition(topic.name, index)
        if ctx.broker_id not in entry.replicas:
            _close_partition(ctx, tp, changed)
            continue
        if tp in unopened and unopened[tp].is_damaged:
            continue
        if settings is None:
            settings = resolve(topic.config, ctx.settings.defaults_of(topic.name))
        try:
            hosted = _open(ctx, tp, topic, settings, entry.leader_epoch)
        except (OSError, CorruptData) as error:
            # The other partitions of this broker must not suffer from one bad log.
            unopened[tp] = Unopened(str(error), isinstance(error, CorruptData))
            continue
        unopened.pop(tp, None)
        hosted.partition.min_insync_replicas = settings.min_insync_replicas
        _assign(ctx, tp, hosted, entry)
        changed.append(tp)


def resume(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """The log of this replica is repaired: it takes the role that the image has for it."""
    entry = ctx.image.partition(tp.topic, tp.partition)
    if entry is not None and ctx.broker_id in entry.replicas:
        _assign(ctx, tp, hosted, entry)
        wake_all(ctx, [tp])


def _assign(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, entry: PartitionEntry
) -> None:
    """Take the role, and coordinate the groups or transactions of a leader's partition."""
    # Before the role is taken: the coordinator needs to know whether it led in between.
    led_in = hosted.partition.leader_epoch if hosted.partition.is_leader else None
    is_new = take_role(ctx, tp, hosted, entry)
    if tp.topic in COORDINATORS and is_new:
        _coordinate(ctx, tp, hosted, led_in)


def _coordinate(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, led_in: int | None
) -> None:
    """Load or unload the groups or transactions of a coordinator topic's partition. `led_in`: the
    epoch in which this broker led it before. If epochs lie between, another broker may have been
    the coordinator, and what is in memory is stale."""
    coordinates = COORDINATORS[tp.topic]
    if not hosted.partition.is_leader:
        coordinates.unload(ctx, tp)
    elif led_in is None or hosted.partition.leader_epoch > led_in + 1:
        coordinates.load(ctx, tp, hosted)


def _open(
    ctx: Context,
    tp: TopicPartition,
    topic: TopicEntry,
    settings: TopicSettings,
    leader_epoch: int,
) -> HostedPartition:
    """The hosted partition with these settings; opened if it is not open yet."""
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None:
        hosted = ctx.ports.logs.open(tp, topic.topic_id, settings, leader_epoch)
        ctx.hosted.partitions[tp] = hosted
        if hosted.better_claim is not None:
            ctx.hosted.better_claims[topic.topic_id, tp.partition] = hosted.better_claim
        hosted.traffic = ctx.hosted.traffic.of(topic.name, topic.topic_id)
        # Batches that were refused here before the partition was known: what their producers sent
        # after them must not be stored first.
        for key in (topic.topic_id, topic.name) if ctx.hosted.early_refusals else ():
            hosted.partition.refusals.absorb(ctx.hosted.early_refusals.take(key, tp.partition))
    elif hosted.settings != settings:
        ctx.ports.logs.configure(tp, settings.log)
        hosted.settings = settings
    else:
        return hosted
    if settings.mirror_ends:
        # Producers of the source may have the ids of ours, which must not look like theirs.
        partition = hosted.partition
        partition.producers.forget_mirrored(
            number_of(settings.mirror_ends, tp.partition, 0),
            LeaderEpoch(number_of(settings.mirror_end_epochs, tp.partition, NO_LEADER_EPOCH)),
            partition.epochs,
        )
    return hosted


def _close_topic(ctx: Context, topic: TopicEntry, changed: list[TopicPartition]) -> None:
    """The topic is gone, or is another one of the same name by now."""
    for index in range(len(topic.partitions)):
        _close_partition(ctx, TopicPartition(topic.name, index), changed)
    ctx.hosted.traffic.forget(topic.name, topic.topic_id)


def _close_partition(ctx: Context, tp: TopicPartition, changed: list[TopicPartition]) -> None:
    """This broker is no longer a replica: delete the log, and wake what waits for it."""
    ctx.hosted.unopened.pop(tp, None)
    hosted = ctx.hosted.partitions.pop(tp, None)
    if hosted is None:
        return
    # First: an answer that is under way must find no log to append to.
    ctx.hosted.fetchers.forget((hosted.topic_id, tp.partition))
    ctx.hosted.better_claims.pop((hosted.topic_id, tp.partition), None)
    forget_catch_up(ctx, tp)
    ctx.ports.logs.delete(tp)
    if tp.topic in COORDINATORS:
        COORDINATORS[tp.topic].unload(ctx, tp)
    changed.append(tp)
