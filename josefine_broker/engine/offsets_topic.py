"""What the group handlers share: which partition of the offsets topic keeps a group, and writing.

Only the leader of a group's partition serves it, once it has read the partition
(`engine/loading_groups.py`). What is written counts once every in-sync replica has it (acks=all),
as in Kafka: whether anybody still waits for that or not, so that the coordinator knows what the
topic says, also of a commit whose client has given up, or was told that it was too late.
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
from josefine_broker.engine.groups.records import encode_key as encode_group_key
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.parked import Parked, PartitionKey
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.replicas.batches import append_batch
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.records.builder import Record, build_batch

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; None deletes."""
Settle = Callable[[KafkaError | None], None]
"""Told, once, what became of what was appended."""

DELETIONS_PER_BATCH = 5_000
"""Of the largest group a batch stays well below `max.message.bytes`."""

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
    """The partition, led here, that keeps a group. Raises KafkaError(not_coordinator |
    coordinator_load_in_progress)."""
    topic = ctx.image.topics.get(OFFSETS_TOPIC)
    if topic is None:
        raise KafkaError(ErrorCode.not_coordinator, "ask FindCoordinator first")
    tp = TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, len(topic.partitions)))
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None or not hosted.partition.is_leader:
        raise KafkaError(ErrorCode.not_coordinator, f"{tp} is led by another broker")
    if tp in ctx.clients.groups.loading:
        raise KafkaError(ErrorCode.coordinator_load_in_progress, f"{tp} is being read")
    return tp, hosted


def check_group_id(group_id: str) -> None:
    """Raises KafkaError(invalid_group_id): simple consumers alone may have an empty one."""
    if not group_id:
        raise KafkaError(ErrorCode.invalid_group_id, "a group with members has a name")


def append_records(
    ctx: Context, group_id: str, entries: Sequence[Entry], now_ms: int, settle: Settle
) -> Appended:
    """Append them to the group's partition as one batch. Raises KafkaError when nothing was
    written; `settle` is not told then."""
    tp, hosted = coordinator_of(ctx, group_id)
    records = [Record(key=key, value=value, timestamp_ms=now_ms) for key, value in entries]
    batch = memoryview(bytearray(build_batch(records)))
    try:
        base_offset, _ = append_batch(ctx, tp, hosted, batch, ACKS_ALL, now_ms)
    except KafkaError as error:
        raise _coordinators(error) from error

    def settle_as_coordinator(error: KafkaError | None) -> None:
        settle(error and _coordinators(error))

    return Appended(ctx, tp, hosted, base_offset + len(records), settle_as_coordinator)


LOOK_AGAIN_MS = 60_000
"""News of the partition wake who waits for it; this is only the deadline that it must have."""


class _TakeIn(Parked):
    """What was written counts when it is committed, however late that is. It ends without that when
    the leadership goes: the next leader reads it, if it is there."""

    __slots__ = ("_appended", "_take_in")

    outlives_client = True

    def __init__(self, appended: Appended, take_in: Callable[[], None]) -> None:
        super().__init__(0)
        self._appended = appended
        self._take_in = take_in

    def look(self) -> bool:
        """Whether it is decided; what is committed is taken in."""
        ctx, tp, hosted, end_offset, _ = self._appended
        if ctx.hosted.partitions.get(tp) is not hosted or not hosted.partition.is_leader:
            return True
        if tp in ctx.clients.groups.loading:
            return True  # it led, did not, and leads again: it reads what is there
        if hosted.partition.high_watermark < end_offset:
            return False
        self._take_in()
        return True

    def wait(self) -> None:
        ctx = self._appended.ctx
        self.deadline_ms = ctx.clock.monotonic_ms() + LOOK_AGAIN_MS
        ctx.parked.park(self, partitions=(self._appended.tp,))

    def try_complete(self, partition: PartitionKey | None, now_ms: int) -> bool:
        if not self.look():
            return False
        self.complete(None)
        return True

    def expire(self, now_ms: int) -> None:
        if not self.try_complete(None, now_ms):
            self.wait()


def take_in_when_committed(appended: Appended, take_in: Callable[[], None]) -> None:
    """To be called before anybody is answered for it: who is answered finds it taken in."""
    waiting = _TakeIn(appended, take_in)
    if not waiting.look():
        waiting.wait()


def store_offsets(
    ctx: Context,
    group_id: str,
    offsets: Sequence[tuple[TopicPartition, CommittedOffset]],
    build: Callable[[KafkaError | None], object] = lambda error: None,
) -> object:
    """Write offsets as one batch, and take them in when it is committed.

    `build` makes the answer, now or, through the parked token that is returned, later. Raises
    KafkaError when nothing was written.
    """
    entries = [(encode_key(group_id, tp), encode_value(committed)) for tp, committed in offsets]
    outcome: list[KafkaError | None] = []

    def take_in() -> None:
        coordinator = ctx.clients.groups.coordinator
        coordinator.counts.offsets_committed += len(offsets)
        for tp, committed in offsets:
            coordinator.offsets.store(group_id, tp, committed)

    appended = append_records(ctx, group_id, entries, ctx.clock.now_ms(), outcome.append)
    take_in_when_committed(appended, take_in)
    timeout_ms = ctx.settings.offsets.timeout_ms
    return answer_when_committed(ctx, [appended], timeout_ms, lambda: build(outcome[0]))


def append_deletion(
    ctx: Context,
    group_id: str,
    offsets: Sequence[TopicPartition],
    *,
    and_group: bool = False,
    settle: Settle = lambda error: None,
) -> list[Appended]:
    """Write that these offsets are gone, and perhaps the group; they go when that is committed.

    `settle` is told of each batch, and of one that could not be written. Raises KafkaError when
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
            entries.append((encode_group_key(group_id), None))

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


def _coordinators(error: KafkaError) -> KafkaError:
    return KafkaError(_COORDINATOR_ERRORS.get(error.code, error.code), error.message)
