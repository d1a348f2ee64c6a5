"""AddPartitionsToTxn (key 24, KIP-98): a producer says where it is going to write in its
transaction; the first such word begins it.

All of the partitions join or none: where one is not there the others are OPERATION_NOT_ATTEMPTED.
Fenced producers are told PRODUCER_FENCED since version 2, INVALID_PRODUCER_EPOCH before.
"""

from josefine_broker.api.shared.transactions import producer_of, told_to
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS
from josefine_broker.engine.transacting import (
    TransactionWait,
    answer_of,
    transaction_partition,
)
from josefine_broker.wire.entities import add_partitions_to_txn as e

_Codes = dict[TopicPartition, ErrorCode]


def handle(ctx: Context, info: RequestInfo, request: e.AddPartitionsToTxnRequest) -> object:
    """Answered when it is stored who is in the transaction."""
    transactional_id = request.v3_and_below_transactional_id
    tps = _partitions(request)
    transaction_partition(ctx, transactional_id)
    codes: _Codes = {tp: code for tp in tps if (code := _why_not(ctx, tp)) is not ErrorCode.none}
    if codes:
        return _answer(request, codes, ErrorCode.operation_not_attempted)
    wait = TransactionWait(ctx, lambda answer: _answer(request, {}, told_to(info, answer.error)))
    ctx.clients.transactions.coordinator.add(
        transactional_id,
        producer_of(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        tps,
        wait,
        ctx.clock.now_ms(),
    )
    return answer_of(ctx, wait)


def refuse(request: e.AddPartitionsToTxnRequest, error: KafkaError) -> e.AddPartitionsToTxnResponse:
    """The answer when the whole request is refused."""
    return _answer(request, {}, error.code)


def _partitions(request: e.AddPartitionsToTxnRequest) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in request.v3_and_below_topics
        for index in topic.partitions
    ]


def _why_not(ctx: Context, tp: TopicPartition) -> ErrorCode:
    if ctx.image.partition(tp.topic, tp.partition) is None:
        return ErrorCode.unknown_topic_or_partition
    if tp.topic in INTERNAL_TOPICS:
        return ErrorCode.topic_authorization_failed
    return ErrorCode.none


def _answer(
    request: e.AddPartitionsToTxnRequest, codes: _Codes, otherwise: ErrorCode
) -> e.AddPartitionsToTxnResponse:
    return e.AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=tuple(
            e.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    e.AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=codes.get(
                            TopicPartition(topic.name, index), otherwise
                        ),
                    )
                    for index in topic.partitions
                ),
            )
            for topic in request.v3_and_below_topics
        )
    )
