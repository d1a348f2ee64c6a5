"""EndTxn (key 26, KIP-98): a producer commits or aborts its transaction. Answered when the decision
is durable; the markers follow, and a producer that starts the next transaction, or takes over the
id, waits until they are written.

Since version 5 the end raises the producer's epoch, and the answer has the new one (KIP-890); a
producer whose epochs are used up gets a new id with it.
"""

from josefine_broker.api.shared.transactions import new_producer_id, producer_of, told_to
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transactions_host import (
    TransactionWait,
    answer_of,
    now_of,
    transaction_partition,
)
from josefine_broker.engine.transactions.values import TransactionAnswer
from josefine_broker.wire.entities import end_txn as e

RAISES_EPOCH_SINCE = 5


def handle(ctx: Context, info: RequestInfo, request: e.EndTxnRequest) -> object:
    """Decide the end of the transaction."""
    transaction_partition(ctx, request.transactional_id)

    def translate(answer: TransactionAnswer) -> e.EndTxnResponse:
        return e.EndTxnResponse(
            error_code=told_to(info, answer.error),
            producer_id=answer.producer.producer_id,
            producer_epoch=answer.producer.epoch,
        )

    wait = TransactionWait(ctx, translate)
    asked = (
        request.transactional_id,
        producer_of(request.producer_id, request.producer_epoch),
        wait,
        now_of(ctx),
    )
    coordinator = ctx.clients.transactions.coordinator
    if info.header.api_version >= RAISES_EPOCH_SINCE:
        coordinator.end_and_go_on(*asked, lambda: new_producer_id(ctx), is_commit=request.committed)
    else:
        coordinator.end(*asked, is_commit=request.committed)
    return answer_of(ctx, wait)


def refuse(request: e.EndTxnRequest, error: KafkaError) -> e.EndTxnResponse:
    """The answer when the whole request is refused."""
    return e.EndTxnResponse(error_code=error.code)
