"""The append of one record batch to a hosted partition: the path of every produce, offset commit
and transaction marker.

Rules: a batch is validated (`engine/validation/produced_batch.py`), checked by the partition,
stamped in place and written, in that order. After a refusal nothing has changed, also when the log
itself refuses (a full disk). A refusal is noted, because the later batches that the producer has in
flight must not be stored before that one. Base offset and leader epoch come before the bytes that
the checksum covers (record batches of format 2, KIP-98), so to stamp them reads no record.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.log_config import TimestampType
from josefine_broker.engine.replicas.leading import appended_to_many
from josefine_broker.engine.replicas.limited import note_limit
from josefine_broker.engine.validation.produced_batch import Validated
from josefine_broker.engine.validation.stored_codec import validate_for_storage
from josefine_broker.records.batch import (
    TRANSACTIONAL_BIT,
    parse_header,
    stamp,
    stamp_log_append_time,
)
from josefine_broker.records.control import Marker, build_marker

NO_APPEND_TIME = -1
MIRROR_IS_READ_ONLY = (
    "the topic is a mirror of another cluster, and read-only: produce to its source, or end the "
    "mirror with `josefine mirror cutover`"
)
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def append_built_batch(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    batch: memoryview,
    acks: int,
    now_ms: int,
    *,
    in_transaction: bool = False,
) -> tuple[int, int]:
    """Store a batch that this broker has built, as `append_batch` does, without validating its
    records. Raises KafkaError and CorruptData; then nothing was stored."""
    validated = validate_for_storage(hosted.settings, batch, now_ms, is_built=True)
    assert validated is not None
    return append_batch(ctx, tp, hosted, validated, acks, now_ms, in_transaction=in_transaction)


def append_batch(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    validated: Validated,
    acks: int,
    now_ms: int,
    *,
    in_transaction: bool = False,
) -> tuple[int, int]:
    """Store one validated batch: (base offset, log append time or -1). `in_transaction`: the batch
    may be transactional. Raises KafkaError; then nothing was stored."""
    batch, header = validated
    if ctx.storage.is_full:
        hosted.partition.refusals.note(header, ErrorCode.kafka_storage_error)
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    if hosted.settings.mirror_session:
        raise KafkaError(ErrorCode.policy_violation, MIRROR_IS_READ_ONLY)
    if header.attributes & TRANSACTIONAL_BIT and not in_transaction:
        raise KafkaError(
            ErrorCode.invalid_txn_state, "the batch is transactional, the request is not"
        )
    partition, log = hosted.partition, hosted.log
    # A duplicate is answered before anything is stamped: its records are stored, perhaps by an
    # earlier leader, and a second copy would break exactly-once (KIP-98).
    duplicate = partition.check_append(header, acks)
    stamps_time = hosted.settings.log.timestamp_type is _LOG_APPEND_TIME
    if duplicate is not None:
        ctx.counters.duplicate_batches += 1
        return duplicate.base_offset, duplicate.max_timestamp_ms if stamps_time else NO_APPEND_TIME
    if stamps_time:
        # The one change inside the CRC: attribute bit and max timestamp (KIP-32).
        header = stamp_log_append_time(batch, 0, now_ms)
    base_offset = log.log_end_offset
    stamp(batch, 0, base_offset, partition.leader_epoch)
    try:
        log.append(batch, header, now_ms)
    except KafkaError as error:
        # The producer sends the refused batch again. Its later batches in flight must not be
        # appended before it, so the refusal is noted.
        partition.refusals.note(header, error.code)
        note_limit(ctx, tp, hosted, error)
        raise
    partition.appended(header, base_offset, now_ms, None, log.durable_end_offset)
    traffic = hosted.traffic
    traffic.batches_in += 1
    traffic.records_in += header.record_count
    traffic.bytes_in += len(batch)
    if not partition.is_alone:
        appended_to_many(ctx, tp, hosted, base_offset)
    # Otherwise a sync has to follow, and is the event: many may wait for it.
    elif partition.high_watermark > base_offset:
        ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    return base_offset, now_ms if stamps_time else NO_APPEND_TIME


def append_marker(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    producer: tuple[ProducerId, ProducerEpoch],
    marker: Marker,
    now_ms: int,
    *,
    raises_epoch: bool = False,
) -> int:
    """Store the marker that ends a transaction of `producer`; returns the offset after it. Raises
    KafkaError; then nothing was stored. `raises_epoch`: the transaction was of an earlier epoch."""
    if ctx.storage.is_full:
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    partition, log = hosted.partition, hosted.log
    # Refuses a coordinator that has lost its partition, and the marker of an epoch that the
    # producer has left (KIP-98).
    partition.check_marker(*producer, marker.coordinator_epoch, raises_epoch=raises_epoch)
    batch = memoryview(build_marker(*producer, marker, now_ms))
    base_offset = log.log_end_offset
    stamp(batch, 0, base_offset, partition.leader_epoch)
    header = parse_header(batch)
    try:
        log.append(batch, header, now_ms)
    except KafkaError as error:
        note_limit(ctx, tp, hosted, error)
        raise
    partition.appended(header, base_offset, now_ms, marker, log.durable_end_offset)
    if partition.is_alone:
        ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    else:
        appended_to_many(ctx, tp, hosted, base_offset)
    return base_offset + 1
