"""AddOffsetsToTxn (key 25, KIP-98): a producer announces that it will commit a group's offsets in
its transaction: the group's partition of `__consumer_offsets` joins it."""

from josefine_broker.api.shared.transactions import producer_of, told_to
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.log import partition_of
from josefine_broker.engine.coordinators.transactions_host import (
    TransactionWait,
    answer_of,
    now_of,
    transaction_partition,
)
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.wire.entities import add_offsets_to_txn as e


def handle(ctx: Context, info: RequestInfo, request: e.AddOffsetsToTxnRequest) -> object:
    """Answered when the log has recorded that the group is in the transaction."""
    transaction_partition(ctx, request.transactional_id)
    tp = partition_of(ctx, OFFSETS_TOPIC, request.group_id)
    if tp is None:
        raise KafkaError(ErrorCode.coordinator_not_available, "no group was ever looked for")
    wait = TransactionWait(
        ctx, lambda answer: e.AddOffsetsToTxnResponse(error_code=told_to(info, answer.error))
    )
    ctx.clients.transactions.coordinator.add(
        request.transactional_id,
        producer_of(request.producer_id, request.producer_epoch),
        [tp],
        wait,
        now_of(ctx),
    )
    return answer_of(ctx, wait)


def refuse(request: e.AddOffsetsToTxnRequest, error: KafkaError) -> e.AddOffsetsToTxnResponse:
    """The answer when the whole request is refused."""
    return e.AddOffsetsToTxnResponse(error_code=error.code)
