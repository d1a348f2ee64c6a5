"""Produce (key 0): KIP-98 batches appended to partitions, acks 0, 1 and all.

The hot path: control per request, data per batch, nothing per record. Since v13 topics come by id
(KIP-516); zstd needs v7 (KIP-110). Each partition has its own error; acks=0 has no answer at all.
"""

from uuid import UUID

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
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
ATTRIBUTES_AT = 22
"""Low byte of the attributes in a batch: its low three bits are the compression codec."""


def handle(ctx: Context, info: RequestInfo, request: ProduceRequest) -> ProduceResponse | None:
    acks = request.acks
    if acks not in ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {acks}")
    if request.transactional_id is not None:
        raise KafkaError(ErrorCode.invalid_txn_state, "transactions are not served yet")
    now_ms = ctx.clock.now_ms()
    old_client = info.header.api_version < ZSTD_SINCE_VERSION
    topics = []
    for name, topic_id, partitions in request.topics:
        known_name = name if topic_id is None else ctx.topic_name(name, topic_id)
        results = [
            _refuse(ctx, part.index, ErrorCode.unknown_topic_id, None)
            if known_name is None
            else _refuse(ctx, part.index, ErrorCode.unsupported_compression_type, "zstd before v7")
            if old_client and _is_zstd(part)
            else _append(ctx, known_name, topic_id, part, acks, now_ms)
            for part in partitions
        ]
        topics.append(ProduceTopicResponse(name, topic_id, results))
    return ProduceResponse(topics) if acks else None


def refuse(request: ProduceRequest, error: KafkaError) -> ProduceResponse | None:
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
    ctx: Context,
    topic: str,
    topic_id: UUID | None,
    part: ProducePartition,
    acks: int,
    now_ms: int,
) -> ProducePartitionResponse:
    index, records = part
    tp = (topic, index)
    if not records:
        return _refuse(ctx, index, ErrorCode.invalid_record, "no record batch")
    try:
        hosted = ctx.hosted(topic, index)
        base_offset, append_time_ms = append_batch(ctx, tp, hosted, records, acks, now_ms)
    except KafkaError as error:
        return _refuse(ctx, index, error.code, error.message)
    except CorruptData as error:
        return _refuse(ctx, index, ErrorCode.corrupt_message, str(error))
    return ProducePartitionResponse(
        index, 0, base_offset, append_time_ms, hosted.log.log_start_offset
    )


def _refuse(
    ctx: Context, index: int, code: ErrorCode, message: str | None
) -> ProducePartitionResponse:
    ctx.counters.refused_batches += 1
    return ProducePartitionResponse(index, code.value, error_message=message or None)


def _is_zstd(part: ProducePartition) -> bool:
    records = part.records
    return (
        records is not None and len(records) > ATTRIBUTES_AT and records[ATTRIBUTES_AT] & 7 == ZSTD
    )
