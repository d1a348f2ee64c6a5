"""Produce (key 0): KIP-98 batches appended to partitions, acks 0, 1 and all.

The hot path: control per request, data per batch, nothing per record. Since v13 topics come by id
(KIP-516); zstd needs v7 (KIP-110). Each partition has its own error; acks=0 has no answer at all.
"""

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.core.image import INTERNAL_TOPICS
from josefine_broker.handlers.batches import append_batch
from josefine_broker.handlers.context import Context, RequestInfo
from josefine_broker.wire.produce import (
    ProducePartition,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopicResponse,
)

ACKS = (-1, 0, 1)
ZSTD = 4
ZSTD_SINCE_VERSION = 7
RECORD_BATCH = 2
MAGIC_AT = 16
ATTRIBUTES_AT = 22
"""Low byte of the attributes in a batch: its low three bits are the compression codec."""

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_NO_ERROR = ProducePartitionResponse(0)[5:]


def handle(ctx: Context, info: RequestInfo, request: ProduceRequest) -> ProduceResponse | None:
    """Append one batch per partition named; errors are per partition."""
    acks = request.acks
    if acks not in ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {acks}")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.invalid_txn_state, "transactions are not served yet")
    now_ms = ctx.clock.now_ms()
    append = _append if info.header.api_version >= ZSTD_SINCE_VERSION else _append_of_old_client
    topics = []
    for name, topic_id, partitions in request.topics:
        topic = name if topic_id is None else ctx.topic_name(name, topic_id)
        if topic is None:
            code = ErrorCode.unknown_topic_id
            results = [_refuse(ctx, part.index, code) for part in partitions]
        else:
            results = [append(ctx, topic, part, acks, now_ms) for part in partitions]
        topics.append(_new(ProduceTopicResponse, (name, topic_id, results)))
    return _new(ProduceResponse, (topics, 0, ())) if acks else None


def refuse(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
    """The answer when the whole request is refused."""
    if request.acks == 0:
        return None
    code, message = error.code.value, error.message or None
    return ProduceResponse(
        [
            ProduceTopicResponse(
                name,
                topic_id,
                [
                    ProducePartitionResponse(p.index, code, error_message=message)
                    for p in partitions
                ],
            )
            for name, topic_id, partitions in request.topics
        ]
    )


def _append(
    ctx: Context, topic: str, part: ProducePartition, acks: int, now_ms: int
) -> ProducePartitionResponse:
    index, records = part
    if topic in INTERNAL_TOPICS:
        return _refuse(ctx, index, ErrorCode.invalid_topic_exception, "the broker's own topic")
    if not records:
        return _refuse(ctx, index, ErrorCode.invalid_record, "no record batch")
    try:
        tp = (topic, index)
        hosted = ctx.partitions.get(tp) or ctx.hosted(topic, index)
        base_offset, append_time_ms = append_batch(ctx, tp, hosted, records, acks, now_ms)
    except KafkaError as error:
        return _refuse(ctx, index, error.code, error.message)
    except CorruptData as error:
        return _refuse(ctx, index, ErrorCode.corrupt_message, str(error))
    numbers = (index, 0, base_offset, append_time_ms, hosted.log.log_start_offset)
    return _new(ProducePartitionResponse, numbers + _NO_ERROR)


def _append_of_old_client(
    ctx: Context, topic: str, part: ProducePartition, acks: int, now_ms: int
) -> ProducePartitionResponse:
    """For clients that may not know the codec they send (KIP-110), or that send message sets.

    Versions 0 to 2 are for message formats 0 and 1 (KIP-724). They are listed because librdkafka
    before 2.11 compresses for no broker without version 0 (KAFKA-18659), and are never used by it.
    """
    records = part.records
    if records and len(records) > MAGIC_AT and records[MAGIC_AT] < RECORD_BATCH:
        code = ErrorCode.unsupported_for_message_format
        return _refuse(ctx, part.index, code, "only record batches (message format 2) are stored")
    if records and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & 7 == ZSTD:
        code = ErrorCode.unsupported_compression_type
        return _refuse(ctx, part.index, code, "zstd needs Produce v7")
    return _append(ctx, topic, part, acks, now_ms)


def _refuse(
    ctx: Context, index: int, code: ErrorCode, message: str | None = None
) -> ProducePartitionResponse:
    ctx.counters.refused_batches += 1
    return ProducePartitionResponse(index, code.value, error_message=message or None)
