"""EndTxn (key 26, KIP-98): a producer commits or aborts its transaction. Answered when that is
decided, durably; the markers follow, and until they are written the id's next request is told
CONCURRENT_TRANSACTIONS."""

from josefine_broker.api.shared.transactions import producer_of, told_to
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.transacting import (
    TransactionWait,
    answer_of,
    transaction_partition,
)
from josefine_broker.wire.entities import end_txn as e


def handle(ctx: Context, info: RequestInfo, request: e.EndTxnRequest) -> object:
    """Decide it."""
    transaction_partition(ctx, request.transactional_id)
    wait = TransactionWait(
        ctx, lambda answer: e.EndTxnResponse(error_code=told_to(info, answer.error))
    )
    ctx.clients.transactions.coordinator.end(
        request.transactional_id,
        producer_of(request.producer_id, request.producer_epoch),
        wait,
        ctx.clock.now_ms(),
        is_commit=request.committed,
    )
    return answer_of(ctx, wait)


def refuse(request: e.EndTxnRequest, error: KafkaError) -> e.EndTxnResponse:
    """The answer when the whole request is refused."""
    return e.EndTxnResponse(error_code=error.code)
