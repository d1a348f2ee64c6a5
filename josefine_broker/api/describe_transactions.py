"""DescribeTransactions (key 65, KIP-664): the state of transactional ids, from the coordinator of
each."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import by_topic
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transactions_host import transaction_partition
from josefine_broker.wire.entities import describe_transactions as e


def handle(
    ctx: Context, info: RequestInfo, request: e.DescribeTransactionsRequest
) -> e.DescribeTransactionsResponse:
    """Errors are per id."""
    found = tuple(_describe(ctx, each) for each in request.transactional_ids)
    return e.DescribeTransactionsResponse(transaction_states=found)


def refuse(
    request: e.DescribeTransactionsRequest, error: KafkaError
) -> e.DescribeTransactionsResponse:
    """The answer when the whole request is refused."""
    found = tuple(_failed(each, error.code) for each in request.transactional_ids)
    return e.DescribeTransactionsResponse(transaction_states=found)


def _describe(ctx: Context, transactional_id: str) -> e.TransactionState:
    try:
        transaction_partition(ctx, transactional_id)
    except KafkaError as error:
        return _failed(transactional_id, error.code)
    view = ctx.clients.transactions.coordinator.view(transactional_id)
    if view is None:
        return _failed(transactional_id, ErrorCode.transactional_id_not_found)
    record = view.record
    return e.TransactionState(
        transactional_id=transactional_id,
        transaction_state=record.state.value,
        transaction_timeout_ms=record.timeout_ms,
        transaction_start_time_ms=record.started_ms,
        producer_id=record.producer.producer_id,
        producer_epoch=record.producer.epoch,
        topics=tuple(
            e.TopicData(topic=name, partitions=tuple(indexes))
            for name, indexes in by_topic(sorted(view.unended)).items()
        ),
    )


def _failed(transactional_id: str, code: ErrorCode) -> e.TransactionState:
    """The numbers are 0 as in Kafka, although 0 is also a valid producer id."""
    return e.TransactionState(
        error_code=code,
        transactional_id=transactional_id,
        transaction_timeout_ms=0,
        transaction_start_time_ms=0,
        producer_id=0,
        producer_epoch=0,
    )
