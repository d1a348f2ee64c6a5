"""Appending one record batch to a hosted partition: the path of every produce and offset commit,
and of the markers that end transactions.

Rules: a batch is checked (length, limit, magic, CRC, counts), judged by the partition, stamped in
place and written, in that order; its records are never looked at. After a refusal, the log's own
(a full disk) among them, nothing has changed.
"""

from typing import NoReturn

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.context import Context
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.log_config import TimestampType
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.replicas.leading import appended_to_many
from josefine_broker.records.batch import (
    NO_TIMESTAMP_MS,
    TRANSACTIONAL_BIT,
    BatchHeader,
    check_produced,
    is_sound,
    parse_header,
    stamp,
    stamp_log_append_time,
    verify,
)
from josefine_broker.records.control import Marker, build_marker

NO_APPEND_TIME = -1
_LOG_APPEND_TIME = TimestampType.LOG_APPEND_TIME


def append_batch(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    batch: memoryview,
    acks: int,
    now_ms: int,
    *,
    in_transaction: bool = False,
) -> tuple[int, int]:
    """Store one client's batch: (base offset, log append time or -1). `in_transaction`: it may be
    of a transaction.

    `batch` must be writable. Raises KafkaError and CorruptData; then nothing was stored.
    """
    header = parse_header(batch)
    if ctx.storage.is_full:
        hosted.partition.refusals.note(header, ErrorCode.kafka_storage_error)
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    settings = hosted.settings
    log_config = settings.log
    size = len(batch)
    if size > log_config.message_bytes_max or not is_sound(batch, header):
        _refuse(batch, header, log_config.message_bytes_max)
    if header.attributes & TRANSACTIONAL_BIT and not in_transaction:
        raise KafkaError(ErrorCode.invalid_txn_state, "a batch of a transaction in none")
    partition, log = hosted.partition, hosted.log
    duplicate = partition.check_append(header, acks)
    stamps_time = log_config.timestamp_type is _LOG_APPEND_TIME
    if duplicate is not None:
        ctx.counters.duplicate_batches += 1
        return duplicate.base_offset, duplicate.max_timestamp_ms if stamps_time else NO_APPEND_TIME
    if stamps_time:
        # The one change inside the CRC: attribute bit and max timestamp (KIP-32).
        header = stamp_log_append_time(batch, 0, now_ms)
    else:
        _check_timestamps(header, settings, now_ms)
    base_offset = log.log_end_offset
    stamp(batch, 0, base_offset, partition.leader_epoch)
    try:
        log.append(batch, header, now_ms)
    except KafkaError as error:
        partition.refusals.note(header, error.code)
        raise
    partition.appended(header, base_offset, now_ms, None, log.durable_end_offset)
    traffic = hosted.traffic
    traffic.batches_in += 1
    traffic.records_in += header.record_count
    traffic.bytes_in += size
    if partition.is_alone:
        ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    else:
        appended_to_many(ctx, tp, hosted, base_offset)
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
    """Store how a transaction of `producer` ended; the offset behind it. Raises KafkaError; then
    nothing was stored. `raises_epoch`: that transaction was of an earlier epoch."""
    if ctx.storage.is_full:
        raise KafkaError(ErrorCode.kafka_storage_error, ctx.storage.trouble)
    partition, log = hosted.partition, hosted.log
    partition.check_marker(*producer, marker.coordinator_epoch, raises_epoch=raises_epoch)
    batch = memoryview(build_marker(*producer, marker, now_ms))
    base_offset = log.log_end_offset
    stamp(batch, 0, base_offset, partition.leader_epoch)
    header = parse_header(batch)
    log.append(batch, header, now_ms)
    partition.appended(header, base_offset, now_ms, marker, log.durable_end_offset)
    if partition.is_alone:
        ctx.parked.wake(tp, ctx.clock.monotonic_ms())
    else:
        appended_to_many(ctx, tp, hosted, base_offset)
    return base_offset + 1


def _refuse(batch: memoryview, header: BatchHeader, message_bytes_max: int) -> NoReturn:
    """Say what is wrong with a batch that is too large or not sound. Raises."""
    size = header.size_bytes
    if len(batch) > size:
        raise KafkaError(ErrorCode.invalid_record, "more than one record batch for one partition")
    if size > message_bytes_max:
        raise KafkaError(
            ErrorCode.message_too_large,
            f"a batch of {size} bytes, max.message.bytes is {message_bytes_max}",
        )
    verify(batch, 0, header)
    check_produced(header)
    raise Fatal(f"a batch was refused that nothing is wrong with: {header}")


def _check_timestamps(header: BatchHeader, settings: TopicSettings, now_ms: int) -> None:
    """The bounds of KIP-937, judged by the batch's first and largest timestamp."""
    newest_ms, oldest_ms = header.max_timestamp_ms, header.base_timestamp_ms
    if newest_ms - now_ms > settings.timestamp_after_max_ms:
        raise KafkaError(
            ErrorCode.invalid_timestamp,
            f"a record is {newest_ms - now_ms} ms ahead of the broker's clock, "
            f"message.timestamp.after.max.ms is {settings.timestamp_after_max_ms}",
        )
    if oldest_ms != NO_TIMESTAMP_MS and now_ms - oldest_ms > settings.timestamp_before_max_ms:
        raise KafkaError(
            ErrorCode.invalid_timestamp,
            f"a record is {now_ms - oldest_ms} ms behind the broker's clock, "
            f"message.timestamp.before.max.ms is {settings.timestamp_before_max_ms}",
        )
