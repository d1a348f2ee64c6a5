"""Loading and unloading of groups with the leadership of a `__consumer_offsets` partition.

Rules: while a new leader loads the partition (`engine/coordinators/loading.py`), requests for its
groups get COORDINATOR_LOAD_IN_PROGRESS. Offsets of a transaction are pending until its marker. Keys
of other kinds are skipped, as in Kafka. Requests that wait when the leadership is lost get
NOT_COORDINATOR.
"""

from collections.abc import Collection

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import ProducerId, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.groups_host import do_groups_work
from josefine_broker.engine.coordinators.loading import Loading, read_anew
from josefine_broker.engine.coordinators.log import Entry
from josefine_broker.engine.coordinators.offsets_topic import append_deletion, append_records
from josefine_broker.engine.groups.consumer.records import changes, is_consumer_key
from josefine_broker.engine.groups.consumer.replay import ConsumerReplay
from josefine_broker.engine.groups.offsets import (
    GroupOffsets,
    coordinator_partition,
    encode_key,
    encode_value,
)
from josefine_broker.engine.groups.records import (
    StoredGroup,
    decode_key,
    decode_value,
    is_group_key,
)
from josefine_broker.engine.groups.records import encode_key as encode_group_key
from josefine_broker.engine.groups.records import encode_value as encode_group_value
from josefine_broker.engine.groups.share.records import changes as share_changes
from josefine_broker.engine.groups.share.records import is_share_key
from josefine_broker.engine.groups.share.replay import ShareReplay
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.replicas.committing import answer_when_committed
from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.control import read_marker
from josefine_broker.records.reader import read_records

OFFSETS_BYTES_MAX = 16 * 1024 * 1024
"""A new leader rewrites a partition of the offsets topic that is longer: about 100,000 commits,
which take a second to read."""


class _GroupReader:
    """The reader of a `__consumer_offsets` partition."""

    def __init__(self, ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
        self._ctx = ctx
        self._tp = tp
        self._hosted = hosted
        self.begin()

    def begin(self) -> None:
        self._offsets = GroupOffsets()
        self._stored: dict[str, StoredGroup] = {}
        self._consumers = ConsumerReplay()
        self._shares = ShareReplay()

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        """Replay one batch. Offsets of a transaction are pending until its marker settles them."""
        if header.is_control:
            marker = read_marker(batch)
            if marker is not None:
                self._offsets.settle(
                    header.producer_id, lambda group_id: True, is_commit=marker.is_commit
                )
            return
        # None: valid at once. Offsets of a transaction wait for the marker of its producer.
        producer_id = header.producer_id if header.is_transactional else None
        for record in read_records(batch, bytes_max=OFFSETS_BYTES_MAX):
            self._replay(record.key, record.value, producer_id)

    def _replay(
        self, key: bytes | None, value: bytes | None, producer_id: ProducerId | None
    ) -> None:
        if key is not None and is_consumer_key(key):
            self._consumers.take(key, value)
        elif key is not None and is_share_key(key):
            self._shares.take(key, value)
        elif key is None or not is_group_key(key):
            self._offsets.replay(key, value, producer_id)
        elif value is None:
            self._stored.pop(decode_key(key), None)
        else:
            self._stored[decode_key(key)] = decode_value(value)

    def finish(self) -> None:
        groups = self._ctx.clients.groups
        # From here on requests are served: this happens in one step, so that none finds half of it.
        del groups.loading[self._tp]
        groups.coordinator.offsets.adopt(self._offsets)
        now_ms = self._ctx.clock.monotonic_ms()
        groups.coordinator.load(
            self._stored, now_ms, self._consumers.groups(), self._shares.groups()
        )
        _loaded(self._ctx, self._tp, self._hosted, self._offsets)


def begin_loading(ctx: Context, tp: TopicPartition, hosted: HostedPartition) -> None:
    """Start to load the partition, which this broker leads now."""
    unload_groups(ctx, tp)
    ctx.clients.groups.loading[tp] = Loading(ctx, tp, hosted, _GroupReader(ctx, tp, hosted))


def unload_groups(ctx: Context, tp: TopicPartition) -> None:
    """Drop the partition's groups, which another broker coordinates now. `groups_moved` answers the
    requests that wait."""
    groups = ctx.clients.groups
    loading = groups.loading.pop(tp, None)
    if loading is not None:
        ctx.parked.forget(loading)
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    count = 0 if topic is None else len(topic.partitions)

    def is_gone(group_id: str) -> bool:
        """Whether the group belongs to that partition; without the topic, every group does."""
        return not count or coordinator_partition(group_id, count) == tp.partition

    groups.coordinator.unload(is_gone)


def groups_moved(ctx: Context) -> None:
    """To be called when the image is applied: start the reads that are new, and answer requests for
    groups that moved away."""
    read_anew(ctx, ctx.clients.groups.loading)
    do_groups_work(ctx)


def _loaded(
    ctx: Context,
    tp: TopicPartition,
    hosted: HostedPartition,
    offsets: GroupOffsets,
) -> None:
    """Start to serve the groups of a partition that has been read."""
    shorten_offsets_log(ctx, tp, hosted, OFFSETS_BYTES_MAX)
    forget_missing_topics(ctx, offsets.group_ids)
    do_groups_work(ctx)


def shorten_offsets_log(
    ctx: Context, tp: TopicPartition, hosted: HostedPartition, bytes_max: int
) -> None:
    """Compact a partition of the offsets topic: write the current state, delete the log before it.

    Done by a new leader, which has just read the whole partition. The old part is deleted when the
    last of the new records is committed. A crash before that leaves both; a disk without space
    leaves the log long.
    """
    log = hosted.log
    if log.size_bytes <= bytes_max or not hosted.partition.producers.transactions.are_settled:
        return  # pending offsets of open transactions are only in the old part
    first_kept = log.log_end_offset
    # One for this function itself: writes that are committed at once must not reach 0 before all
    # are appended.
    open_writes = 1

    def written(error: KafkaError | None) -> None:
        """Count a committed write; with the last one, the old part of the log is not needed any
        more."""
        nonlocal open_writes
        open_writes -= error is None  # after a failure it never reaches 0, and nothing is deleted
        if not open_writes:
            log.delete_before(first_kept)

    now_ms, timeout_ms = ctx.clock.now_ms(), ctx.settings.offsets.timeout_ms
    try:
        for group_id, entries in _truth(ctx, tp).items():
            open_writes += 1
            appended = append_records(ctx, group_id, entries, now_ms, written)
            answer_when_committed(ctx, [appended], timeout_ms, lambda: None)
        written(None)
    except KafkaError:
        return


def _truth(ctx: Context, tp: TopicPartition) -> dict[str, list[Entry]]:
    """The current state of the partition, by group.

    What a replay must find again: records of both protocols first, then the committed offsets.
    """
    coordinator, count = ctx.clients.groups.coordinator, len(ctx.image.topics[tp.topic].partitions)
    found: dict[str, list[Entry]] = {}
    for group_id, record, stamped_ms in coordinator.records():
        if coordinator_partition(group_id, count) == tp.partition:
            value = encode_group_value(record, stamped_ms)
            found[group_id] = [(encode_group_key(group_id), value)]
    for group_id in coordinator.consumers.group_ids:
        if coordinator_partition(group_id, count) == tp.partition:
            found[group_id] = changes(None, coordinator.consumers.get(group_id))
    for group_id in coordinator.shares.group_ids:
        if coordinator_partition(group_id, count) == tp.partition:
            found[group_id] = share_changes(None, coordinator.shares.get(group_id))
    for group_id in coordinator.offsets.group_ids:
        if coordinator_partition(group_id, count) == tp.partition:
            found.setdefault(group_id, []).extend(
                (encode_key(group_id, each), encode_value(committed))
                for each, committed in coordinator.offsets.committed(group_id).items()
            )
    return found


def forget_missing_topics(ctx: Context, group_ids: Collection[str] | None = None) -> None:
    """Delete the offsets of topics that no longer exist, as in Kafka: a topic created again starts
    without them. For these groups; None: all groups.

    If a deletion cannot be written, the offsets are dropped from memory only; the next leader
    repeats the deletion.
    """
    topics, offsets = ctx.image.topics, ctx.clients.groups.coordinator.offsets
    for group_id in offsets.group_ids if group_ids is None else group_ids:
        gone = [tp for tp in offsets.committed(group_id) if tp.topic not in topics]
        if not gone:
            continue
        for tp in gone:
            offsets.store(group_id, tp, None)
        try:
            appended = append_deletion(ctx, group_id, gone)
        except KafkaError:
            continue
        answer_when_committed(ctx, appended, ctx.settings.offsets.timeout_ms, lambda: None)
