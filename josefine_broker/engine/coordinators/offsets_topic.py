"""Reads and writes of `__consumer_offsets` that all group handlers share.

Only the leader of a group's partition serves the group, once it has loaded the partition
(`engine/coordinators/loading_groups.py`). A record counts when every in-sync replica has it
(acks=all), as in Kafka, also if the client no longer waits for it or has got a timeout: the
coordinator's state must equal the topic's.
"""

from collections import deque
from collections.abc import Callable, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId, TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.coordinators.log import (
    Entry,
    Settle,
    append_built,
    append_entries,
    led_partition,
)
from josefine_broker.engine.groups.consumer.records import changes
from josefine_broker.engine.groups.consumer.states import ConsumerGroupEvent
from josefine_broker.engine.groups.offsets import CommittedOffset, encode_key, encode_value
from josefine_broker.engine.groups.records import encode_key as encode_group_key
from josefine_broker.engine.groups.share.records import changes as share_changes
from josefine_broker.engine.groups.share.states import ShareGroupEvent
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.purgatory.purgatory import Parked, PartitionKey
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.records.builder import Record, build_batch

DELETIONS_PER_BATCH = 5_000
"""Keeps the deletion of the largest group well below `max.message.bytes`."""


Place = tuple[TopicPartition, HostedPartition]
"""A group's partition, led by this broker."""


def coordinator_of(ctx: Context, group_id: str) -> Place:
    """The group's partition, led by this broker. Raises KafkaError(not_coordinator |
    coordinator_load_in_progress)."""
    return led_partition(ctx, OFFSETS_TOPIC, group_id, ctx.clients.groups.loading)


def check_group_id(group_id: str) -> None:
    """Raises KafkaError(invalid_group_id): only simple consumers may have an empty group id."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a group with members needs a group id")


def append_records(
    ctx: Context, group_id: str, entries: Sequence[Entry], now_ms: int, settle: Settle
) -> Appended:
    """Append the entries to the group's partition as one batch. Raises KafkaError when nothing was
    written; `settle` is not called then."""
    return _append_at(ctx, coordinator_of(ctx, group_id), entries, now_ms, settle)


def _append_at(
    ctx: Context, place: Place, entries: Sequence[Entry], now_ms: int, settle: Settle
) -> Appended:
    """Raises KafkaError with a code of the group protocol: its clients do not know those of
    Produce."""
    try:
        return append_entries(ctx, *place, entries, now_ms, settle)
    except KafkaError as error:
        raise _of_groups(error) from error


LOOK_AGAIN_MS = 60_000
"""Events of the partition wake the operation; this is only the deadline that it must have."""


class _TakeIn(Parked):
    """A delayed operation that applies the writes of a partition in their order, each when it is
    committed, however late that is. A write is dropped when the leadership is lost: the next leader
    reads the record, if it survived."""

    __slots__ = ("_ctx", "_tp", "_writes")

    outlives_client = True

    def __init__(self, ctx: Context, tp: PartitionKey) -> None:
        super().__init__(0)
        self._ctx = ctx
        self._tp = tp
        self._writes: deque[tuple[Appended, Callable[[], None]]] = deque()

    def add(self, appended: Appended, take_in: Callable[[], None]) -> bool:
        """Add the newest write; returns whether all are finished already."""
        self._writes.append((appended, take_in))
        return self._look()

    def _look(self) -> bool:
        """Apply what is committed; returns whether all writes are finished."""
        ctx, tp, writes = self._ctx, self._tp, self._writes
        # Led again after another leader: loading reads the record.
        hosted = None if tp in ctx.clients.groups.loading else ctx.hosted.partitions.get(tp)
        while writes:
            appended, take_in = writes[0]
            if appended.hosted is hosted and hosted.partition.is_leader:
                if hosted.partition.high_watermark < appended.end_offset:
                    return False
                take_in()
            writes.popleft()
        return True

    def wait(self) -> None:
        """Look again at the next event of the partition, or after a while."""
        self.deadline_ms = self._ctx.clock.monotonic_ms() + LOOK_AGAIN_MS
        self._ctx.parked.park(self, partitions=(self._tp,))

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if not self._look():
            return False
        del self._ctx.clients.groups.taking_in[self._tp]
        self.complete(None)
        return True

    def expire(self, now_ms: int) -> None:
        if not self.try_complete(None, now_ms):
            self.wait()


def take_in_when_committed(appended: Appended, take_in: Callable[[], None]) -> None:
    """Apply a write when it is committed. Must be called before the write's answer is scheduled, so
    that a client with an answer finds it applied."""
    ctx, tp = appended.ctx, appended.tp
    taking_in = ctx.clients.groups.taking_in
    waiting = taking_in.get(tp)
    if waiting is not None:
        waiting.add(appended, take_in)
        return
    waiting = _TakeIn(ctx, tp)
    if not waiting.add(appended, take_in):
        taking_in[tp] = waiting
        waiting.wait()


def store_offsets(
    ctx: Context,
    group_id: str,
    offsets: Sequence[tuple[TopicPartition, CommittedOffset]],
    build: Callable[[KafkaError | None], object] = lambda error: None,
    place: Place | None = None,
) -> object:
    """Write offsets as one batch, and apply them when it is committed.

    `place` is the group's partition, if the caller has looked it up. `build` makes the answer: now,
    or later for the parked token that is returned. Raises KafkaError when nothing was
    """
    entries: list[Entry] = [(encode_key(group_id, tp), encode_value(each)) for tp, each in offsets]
    outcome: list[KafkaError | None] = []
    # Two waits for one commit: `take_in` applies the offsets however late they are committed, and
    # `build` answers after that or at the timeout. A late commit counts without an answer.

    def take_in() -> None:
        coordinator = ctx.clients.groups.coordinator
        coordinator.counts.offsets_committed += len(offsets)
        for tp, committed in offsets:
            coordinator.offsets.store(group_id, tp, committed)

    place = place or coordinator_of(ctx, group_id)
    appended = _append_at(ctx, place, entries, ctx.clock.now_ms(), outcome.append)
    # A sole replica: no need to wait, and to park and wake would be most of the cost of a commit.
    if appended.is_committed_at_once:
        take_in()
        return build(None)
    take_in_when_committed(appended, take_in)
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, [appended], timeout_ms, lambda: build(outcome[0]))


def _gone(ctx: Context, group_id: str) -> list[Entry]:
    """The records that delete a group without members, of either protocol."""
    consumer = ctx.clients.groups.coordinator.consumers.get(group_id)
    if consumer is not None:
        return changes(consumer.moved(ConsumerGroupEvent.REMOVED), None)
    share = ctx.clients.groups.coordinator.shares.get(group_id)
    if share is not None:
        return share_changes(share.moved(ShareGroupEvent.REMOVED), None)
    return [(encode_group_key(group_id), None)]


def append_deletion(
    ctx: Context,
    group_id: str,
    offsets: Sequence[TopicPartition],
    *,
    and_group: bool = False,
    settle: Settle = lambda error: None,
) -> list[Appended]:
    """Write the deletion of these offsets, and optionally of the group; both take effect when the
    records are committed.

    `settle` is called for each batch, and for one that could not be written. Raises KafkaError when
    nothing was written.
    """
    coordinator = ctx.clients.groups.coordinator
    now_ms = ctx.clock.now_ms()
    batches = [
        offsets[at : at + DELETIONS_PER_BATCH] for at in range(0, len(offsets), DELETIONS_PER_BATCH)
    ]
    if and_group and not batches:
        batches = [()]
    found: list[Appended] = []
    for batch in batches:
        entries: list[Entry] = [(encode_key(group_id, tp), None) for tp in batch]
        if and_group and batch is batches[-1]:
            # In the last batch: if an earlier one fails, the group remains and the deletion can be
            # repeated.
            entries += _gone(ctx, group_id)

        def take_in(batch: Sequence[TopicPartition] = tuple(batch)) -> None:
            for tp in batch:
                coordinator.offsets.store(group_id, tp, None)

        try:
            appended = append_records(ctx, group_id, entries, now_ms, settle)
        except KafkaError as error:
            if not found:
                raise
            settle(error)
            return found
        take_in_when_committed(appended, take_in)
        found.append(appended)
    if and_group and coordinator.may_delete(group_id) is ErrorCode.none:
        coordinator.delete(group_id)
    return found


def store_pending_offsets(
    ctx: Context,
    group_id: str,
    producer: tuple[ProducerId, ProducerEpoch],
    offsets: Sequence[tuple[TopicPartition, CommittedOffset]],
    build: Callable[[KafkaError | None], object],
) -> object:
    """Write offsets as a batch of the producer's transaction; they are pending once it is
    committed. `build` and errors are as in `store_offsets`.

    This broker assigns the sequence numbers: producers have none for the offsets topic.
    """
    tp, hosted = coordinator_of(ctx, group_id)
    producer_id, epoch = producer
    entry = hosted.partition.producers.entry(producer_id)
    is_known = entry is not None and entry.epoch == epoch
    # The partition checks this batch like any other, so its sequence number must continue the last
    # one that is stored here.
    now_ms = ctx.clock.now_ms()
    batch = build_batch(
        [Record(encode_key(group_id, of), encode_value(each), (), now_ms) for of, each in offsets],
        producer_id=producer_id,
        producer_epoch=epoch,
        # The coordinator writes for the producer, and is the only one that does in this topic.
        base_sequence=entry.next_sequence if entry is not None and is_known else 0,
        transactional=True,
    )
    outcome: list[KafkaError | None] = []
    try:
        appended = append_built(ctx, tp, hosted, batch, now_ms, outcome.append, in_transaction=True)
    except KafkaError as error:
        raise _of_groups(error) from error

    def take_in() -> None:
        for of, committed in offsets:
            pending = ctx.clients.groups.coordinator.offsets
            pending.store_pending(producer_id, group_id, of, committed)

    take_in_when_committed(appended, take_in)
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, [appended], timeout_ms, lambda: build(outcome[0]))


def _of_groups(error: KafkaError) -> KafkaError:
    """Map the error of a too large record to the code of the group protocol."""
    if error.code is ErrorCode.message_too_large:
        return KafkaError(ErrorCode.invalid_commit_offset_size, error.message)
    return error
