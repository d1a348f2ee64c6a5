"""Produce (key 0): KIP-98 batches appended to partitions, acks 0, 1 and all.

The hot path: control per request, data per batch, nothing per record. Since v13 topics come by id
(KIP-516); zstd needs v7 (KIP-110). Each partition has its own error. acks=all is answered when
every in-sync replica has the batches. Who does not lead names the leader (KIP-951, since v10).
The first batch of a transaction waits until its coordinator was asked (KIP-890).
acks=0 has no answer: an error ends the connection, which makes the client look for the leader.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import UUID

from josefine_broker.api.shared.hints import leader_of, node_endpoints
from josefine_broker.api.shared.transactions import abortable, adds_partitions, check_transactions
from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.parked import Hangup
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.partition.questions import Claim
from josefine_broker.engine.replicas.batches import append_batch
from josefine_broker.engine.replicas.committing import Appended, answer_when_committed
from josefine_broker.engine.verifying import go_on_when_verified, must_verify_batch
from josefine_broker.records.batch import HEADER_BYTES, BatchHeader, parse_header
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

AS_PRODUCED = {
    ErrorCode.producer_fenced: ErrorCode.invalid_producer_epoch,
    ErrorCode.concurrent_transactions: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_not_available: ErrorCode.not_enough_replicas,
    ErrorCode.coordinator_load_in_progress: ErrorCode.not_enough_replicas,
    ErrorCode.not_coordinator: ErrorCode.not_enough_replicas,
    ErrorCode.unknown_topic_or_partition: ErrorCode.not_enough_replicas,
}
"""What a coordinator says of a transaction, as producers are told it (as Kafka does): after the
last of them every client writes again."""

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much
_NO_ERROR = ProducePartitionResponse(0)[5:]
_UNDECIDED = ProducePartitionResponse(0, ErrorCode.request_timed_out.value)


def handle(ctx: Context, info: RequestInfo, request: ProduceRequest) -> object:
    """Append one batch per partition named; errors are per partition."""
    acks = request.acks
    if acks not in ACKS:
        raise KafkaError(ErrorCode.invalid_required_acks, f"acks is {acks}")
    in_transaction = request.transactional_id is not None
    if in_transaction:
        check_transactions(ctx)
    now_ms = ctx.clock.now_ms()
    append = _append if info.header.api_version >= ZSTD_SINCE_VERSION else _append_of_old_client
    topics: list[ProduceTopicResponse] = []
    waiting: list[Appended] = []
    """Appended with acks=all, not yet on every replica in sync."""
    held: list[_Held] = []
    for name, topic_id, partitions in request.topics:
        topic = name if topic_id is None else ctx.topic_name(name, topic_id)
        results: list[ProducePartitionResponse] = []
        for part in partitions:
            if topic is None:
                _note_early(ctx, topic_id, part)
                answer = _refuse(ctx, part.index, ErrorCode.unknown_topic_id)
            else:
                at = len(results)
                if (
                    in_transaction
                    and (found := _unverified(ctx, topic, part, adds=adds_partitions(info)))
                    is not None
                ):
                    held.append(_Held(*found, results, at))
                    answer = _UNDECIDED
                else:
                    answer = append(
                        ctx, topic, part, acks, now_ms, results, at, waiting, in_transaction
                    )
            results.append(answer)
        topics.append(_new(ProduceTopicResponse, (name, topic_id, results)))
    finish = partial(_finish, ctx, info, request, topics, waiting)
    return finish() if not held else _when_verified(ctx, info, request, held, waiting, finish)


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


def _finish(
    ctx: Context,
    info: RequestInfo,
    request: ProduceRequest,
    topics: list[ProduceTopicResponse],
    waiting: list[Appended],
) -> object:
    """Every partition has its answer, or a promise of one."""
    if not request.acks:
        return None if _first_error(topics) is None else Hangup("refused, and acks=0 has no answer")
    if waiting:
        return answer_when_committed(
            ctx, waiting, request.timeout_ms, lambda: _answer(ctx, info, topics)
        )
    response = _answer(ctx, info, topics)
    if not ctx.cluster.is_heard and _first_error(topics) == ErrorCode.not_leader_or_follower:
        return Hangup("whoever leads now, this broker has not heard of it", response)
    return response


class _Held(NamedTuple):
    """A batch that waits until its transaction is verified, and where its answer belongs."""

    tp: TopicPartition
    hosted: HostedPartition
    header: BatchHeader
    records: memoryview
    results: list[ProducePartitionResponse]
    at: int


def _unverified(
    ctx: Context, topic: str, part: ProducePartition, *, adds: bool
) -> tuple[TopicPartition, HostedPartition, BatchHeader, memoryview] | None:
    """The batch and where it belongs, if the coordinator is to be asked before it is written."""
    index, records = part
    hosted = ctx.hosted.partitions.get((topic, index))
    if hosted is None or not records or len(records) < HEADER_BYTES or topic in INTERNAL_TOPICS:
        return None
    tp, header = TopicPartition(topic, index), parse_header(records)
    return (
        (tp, hosted, header, records)
        if must_verify_batch(ctx, tp, hosted, header, adds=adds)
        else None
    )


def _when_verified(
    ctx: Context,
    info: RequestInfo,
    request: ProduceRequest,
    held: list[_Held],
    waiting: list[Appended],
    finish: Callable[[], object],
) -> object:
    assert request.transactional_id is not None
    first = held[0].header
    producer = first.producer_id, first.producer_epoch
    claim = Claim(request.transactional_id, *producer, adds_partitions(info))

    def told(each: _Held, code: ErrorCode) -> None:
        topic, index = each.tp
        if code is ErrorCode.none:
            part = ProducePartition(index, each.records)
            now_ms, acks = ctx.clock.now_ms(), request.acks
            each.results[each.at] = _append(
                ctx, topic, part, acks, now_ms, each.results, each.at, waiting, True
            )
            return
        told_as = abortable(info, AS_PRODUCED.get(code, code))
        if told_as is ErrorCode.not_enough_replicas:
            each.hosted.partition.refusals.note(each.header, told_as)
        each.results[each.at] = _refuse(
            ctx, index, told_as, f"the transaction's coordinator says {code.name}"
        )

    wanted = []
    for each in held:
        if (
            each.header.producer_id == claim.producer_id
            and each.header.producer_epoch == claim.epoch
        ):
            wanted.append((each.tp, each.hosted, partial(told, each)))
        else:
            told(each, ErrorCode.invalid_producer_id_mapping)
    answer = go_on_when_verified(ctx, claim, wanted, request.timeout_ms, finish)
    return answer if request.acks else None


def _first_error(topics: list[ProduceTopicResponse]) -> int | None:
    return next((part[1] for _, _, parts in topics for part in parts if part[1]), None)


def _answer(ctx: Context, info: RequestInfo, topics: list[ProduceTopicResponse]) -> ProduceResponse:
    leaders = {
        part.leader_id for _, _, parts in topics for part in parts if part[1] and part[7] >= 0
    }
    endpoints = node_endpoints(ctx, leaders, info.listener) if leaders else ()
    return _new(ProduceResponse, (topics, 0, endpoints))


def _append(
    ctx: Context,
    topic: str,
    part: ProducePartition,
    acks: int,
    now_ms: int,
    results: list[ProducePartitionResponse],
    at: int,
    waiting: list[Appended],
    in_transaction: bool,
) -> ProducePartitionResponse:
    """The answer, for its place in `results`; with acks=all perhaps only a promise of one."""
    index, records = part
    if topic in INTERNAL_TOPICS:
        return _refuse(ctx, index, ErrorCode.invalid_topic_exception, "the broker's own topic")
    if not records:
        return _refuse(ctx, index, ErrorCode.invalid_record, "no record batch")
    try:
        tp = (topic, index)
        hosted = ctx.hosted.partitions.get(tp) or _hosted(ctx, topic, part)
        base_offset, append_time_ms = append_batch(
            ctx, tp, hosted, records, acks, now_ms, in_transaction=in_transaction
        )
    except KafkaError as error:
        return _refuse(ctx, index, error.code, error.message, topic)
    except CorruptData as error:
        return _refuse(ctx, index, ErrorCode.corrupt_message, str(error))
    if acks == ACKS_ALL and not hosted.is_all_committed:
        waiting.append(_promise(ctx, tp, hosted, records, base_offset, results, at))
    numbers = (index, 0, base_offset, append_time_ms, hosted.log.log_start_offset)
    return _new(ProducePartitionResponse, numbers + _NO_ERROR)


def _hosted(ctx: Context, topic: str, part: ProducePartition) -> HostedPartition:
    """Raises KafkaError."""
    try:
        return ctx.hosted_partition(topic, part.index)
    except KafkaError as error:
        if error.code is not ErrorCode.not_leader_or_follower:
            _note_early(ctx, topic, part)
        raise


def _note_early(ctx: Context, topic: str | UUID | None, part: ProducePartition) -> None:
    """Refused for a partition that is gone, or that a block creates a moment later."""
    if topic is not None and part.records and len(part.records) >= HEADER_BYTES:
        ctx.hosted.early_refusals.note(topic, part.index, parse_header(part.records))


def _promise(
    ctx: Context,
    tp: tuple[str, int],
    hosted: HostedPartition,
    records: memoryview,
    base_offset: int,
    results: list[ProducePartitionResponse],
    at: int,
) -> Appended:
    """An answer that holds once the batch (or the one it repeats) is on every in-sync replica."""

    def settle(error: KafkaError | None) -> None:
        if error is not None:
            results[at] = _refuse(ctx, tp[1], error.code, error.message, tp[0])

    end_offset = base_offset + parse_header(records).last_offset_delta + 1
    return _new(Appended, (ctx, tp, hosted, end_offset, settle))


def _append_of_old_client(
    ctx: Context,
    topic: str,
    part: ProducePartition,
    acks: int,
    now_ms: int,
    results: list[ProducePartitionResponse],
    at: int,
    waiting: list[Appended],
    in_transaction: bool,
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
    return _append(ctx, topic, part, acks, now_ms, results, at, waiting, in_transaction)


def _refuse(
    ctx: Context, index: int, code: ErrorCode, message: str | None = None, topic: str = ""
) -> ProducePartitionResponse:
    ctx.counters.refused_batches += 1
    leader = leader_of(ctx, topic, index, code)
    return ProducePartitionResponse(
        index,
        code.value,
        error_message=message or None,
        leader_id=leader[0] if leader else -1,
        leader_epoch=leader[1] if leader else -1,
    )
