"""The log of a coordinator: its partition in an internal topic, and appends to it.

Rules: the leader of a key's partition serves the key, once it has loaded the partition
(`engine/coordinators/loading.py`). A record counts when every in-sync replica has it (acks=all), as
in Kafka; clients get a refused write as an error of the coordinator.
"""

from collections.abc import Callable, Container, Sequence

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.replicas.batches import append_built_batch
from josefine_broker.engine.replicas.committing import Appended
from josefine_broker.records.batch import last_offset_delta
from josefine_broker.records.builder import build_entries

Entry = tuple[bytes, bytes | None]
"""Key and value of a record; a value of None deletes."""
Settle = Callable[[KafkaError | None], None]
"""Called once with the result of an append."""

_COORDINATOR_ERRORS = {
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.kafka_storage_error: ErrorCode.coordinator_not_available,
}
"""The error for a coordinator's client when its topic refuses (Kafka's mapping)."""
_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much


def partition_of(ctx: Context, topic: str, key: str) -> TopicPartition | None:
    """The partition of a coordinator topic for a key; None while the topic does not exist."""
    entry = ctx.image.topics.get(topic)
    if entry is None:
        return None
    return _new(TopicPartition, (topic, coordinator_partition(key, len(entry.partitions))))


def led_partition(
    ctx: Context, topic: str, key: str, loading: Container[tuple[str, int]]
) -> tuple[TopicPartition, HostedPartition]:
    """The partition of a key, led and loaded here. Raises KafkaError(not_coordinator |
    coordinator_load_in_progress).

    `loading` has the partitions that are being read: one that is not read to its end may lack
    records that clients were promised.
    """
    tp = partition_of(ctx, topic, key)
    if tp is None:
        raise KafkaError(ErrorCode.not_coordinator, "ask FindCoordinator first")
    hosted = ctx.hosted.partitions.get(tp)
    if hosted is None or not hosted.partition.is_leader:
        raise KafkaError(ErrorCode.not_coordinator, f"{tp} is led by another broker")
    if tp in loading:
        raise KafkaError(ErrorCode.coordinator_load_in_progress, f"{tp} is being loaded")
    return tp, hosted


def append_entries(
    ctx: Context,
    tp: TopicPartition,
    hosted: HostedPartition,
    entries: Sequence[Entry],
    now_ms: int,
    settle: Settle,
) -> Appended:
    """Append the entries as one batch. Raises KafkaError when nothing was written; `settle` is not
    called then.

    `settle` gets None when the batch is committed, or the error for a client of the coordinator.
    `now_ms` is wall clock time, which the records carry.
    """
    return append_built(ctx, tp, hosted, build_entries(entries, now_ms), now_ms, settle)


def append_built(
    ctx: Context,
    tp: TopicPartition,
    hosted: HostedPartition,
    batch: bytearray,
    now_ms: int,
    settle: Settle,
    *,
    in_transaction: bool = False,
) -> Appended:
    """Append a batch that is built already, as `append_entries` does."""
    view = memoryview(batch)
    try:
        base_offset, _ = append_built_batch(
            ctx, tp, hosted, view, ACKS_ALL, now_ms, in_transaction=in_transaction
        )
    except KafkaError as error:
        raise coordinators(error) from error

    def settle_as_coordinator(error: KafkaError | None) -> None:
        settle(error and coordinators(error))

    end_offset = base_offset + last_offset_delta(view) + 1
    return Appended(ctx, tp, hosted, end_offset, settle_as_coordinator)


def coordinators(error: KafkaError) -> KafkaError:
    """A partition's error as the error for a coordinator's client."""
    return KafkaError(_COORDINATOR_ERRORS.get(error.code, error.code), error.message)
