"""ListTransactions (key 66, KIP-664): the transactional ids that this broker coordinates.

A client asks every broker. Filter by duration since version 1 (KIP-994): only open transactions
have one. Filter by regular expression since version 2 (KIP-1152), which must match the whole id, in
the syntax of group subscriptions. While a partition of `__transaction_state` is being loaded the
answer is an error: a list without its ids would look complete.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.groups.consumer.patterns import compiled
from josefine_broker.engine.transactions.states import IDLE, TransactionState
from josefine_broker.engine.transactions.values import TransactionView
from josefine_broker.wire.entities import list_transactions as e

STATES = frozenset(each.value for each in TransactionState)


def handle(
    ctx: Context, info: RequestInfo, request: e.ListTransactionsRequest
) -> e.ListTransactionsResponse:
    """The transactions that match the filters."""
    transactions = ctx.clients.transactions
    if transactions.loading:
        raise KafkaError(ErrorCode.coordinator_load_in_progress)
    now_ms = ctx.clock.now_ms()
    wanted = request.transactional_id_pattern
    pattern = compiled(wanted) if wanted else None
    return e.ListTransactionsResponse(
        unknown_state_filters=tuple(
            each for each in dict.fromkeys(request.state_filters) if each not in STATES
        ),
        transaction_states=tuple(
            e.TransactionState(
                transactional_id=view.transactional_id,
                producer_id=view.record.producer.producer_id,
                transaction_state=view.record.state.value,
            )
            for view in transactions.coordinator.views()
            if _passes(view, request, now_ms)
            and (pattern is None or pattern.matches(view.transactional_id))
        ),
    )


def refuse(request: e.ListTransactionsRequest, error: KafkaError) -> e.ListTransactionsResponse:
    """The answer when the whole request is refused."""
    return e.ListTransactionsResponse(error_code=error.code, transaction_states=())


def _passes(view: TransactionView, request: e.ListTransactionsRequest, now_ms: int) -> bool:
    record = view.record
    states, producers = request.state_filters, request.producer_id_filters
    if states and record.state.value not in states:
        return False
    if producers and record.producer.producer_id not in producers:
        return False
    if request.duration_filter < 0:
        return True
    return record.state not in IDLE and now_ms - record.started_ms > request.duration_filter
