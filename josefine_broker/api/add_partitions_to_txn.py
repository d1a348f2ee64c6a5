"""AddPartitionsToTxn (key 24, KIP-98): a producer announces the partitions it will write in its
transaction; the first announcement starts the transaction. Since version 4 brokers send it for
producers, for many transactions at once, some only to verify that a partition is in one (KIP-890).

All partitions of a transaction join or none: if one does not exist, the others get
OPERATION_NOT_ATTEMPTED. Fenced producers get PRODUCER_FENCED since version 2,
INVALID_PRODUCER_EPOCH before; TRANSACTION_ABORTABLE is INVALID_TXN_STATE before version 5.
"""

from collections.abc import Callable
from functools import partial

from josefine_broker.api.shared.transactions import abortable, producer_of, told_to
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transactions_host import (
    TransactionWait,
    do_transactions_work,
    now_of,
    transaction_partition,
)
from josefine_broker.engine.metadata.image import INTERNAL_TOPICS, MIRROR_SESSION
from josefine_broker.engine.purgatory.promises import Promise
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.engine.transactions.values import VERSION_1, VERSION_2
from josefine_broker.wire.entities import add_partitions_to_txn as e

BROKERS_SINCE = 4
"""Producers use lower versions."""
_Codes = dict[TopicPartition, ErrorCode]


def handle(ctx: Context, info: RequestInfo, request: e.AddPartitionsToTxnRequest) -> object:
    """Answered when the log has recorded the partitions of every transaction."""
    found: dict[int, _Codes] = {}
    wait: Promise | None = None

    def build() -> e.AddPartitionsToTxnResponse:
        codes = (found.get(at) for at in range(len(request.transactions)))
        return _answer(request, [each or ErrorCode.coordinator_not_available for each in codes])

    def told(at: int, codes: _Codes) -> None:
        # Before `wait` exists the answer is made below, in the same call.
        found[at] = codes
        if wait is not None and len(found) == len(request.transactions):
            wait.keep(build)

    waits = []
    for at, each in enumerate(request.transactions):
        asked = _take(ctx, info, each, partial(told, at))
        if asked is not None:
            waits.append(asked)
    do_transactions_work(ctx)
    for answer, hear in waits:
        if answer.done:
            hear(answer)
        else:
            answer.on_done = hear
    if len(found) == len(request.transactions):
        return build()
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    wait = Promise(ctx.parked, deadline_ms, build)
    return wait


def refuse(request: e.AddPartitionsToTxnRequest, error: KafkaError) -> e.AddPartitionsToTxnResponse:
    """The answer when the whole request is refused."""
    return _answer(request, [error.code] * len(request.transactions), error.code)


def _take(
    ctx: Context,
    info: RequestInfo,
    transaction: e.AddPartitionsToTxnTransaction,
    told: Callable[[_Codes], None],
) -> tuple[Parked, Callable[[Parked], None]] | None:
    """Report the codes at once, or return a wait and the callback that reports them."""
    transactional_id = transaction.transactional_id
    tps = _partitions(transaction)
    if not transaction.verify_only:
        refused = {
            tp: code for tp in tps if (code := _why_not(ctx, info, tp)) is not ErrorCode.none
        }
        if refused:  # all partitions of a transaction join or none
            told(dict.fromkeys(tps, ErrorCode.operation_not_attempted) | refused)
            return None
    try:
        transaction_partition(ctx, transactional_id)
    except KafkaError as error:
        told(dict.fromkeys(tps, error.code))
        return None
    coordinator = ctx.clients.transactions.coordinator
    producer = producer_of(transaction.producer_id, transaction.producer_epoch)
    if transaction.verify_only:
        codes = coordinator.verify(transactional_id, producer, tps)
        told({tp: abortable(info, code) for tp, code in codes.items()})
        return None
    wait = TransactionWait(ctx, lambda answer: answer.error)
    version = VERSION_2 if info.header.api_version >= BROKERS_SINCE else VERSION_1
    coordinator.add(transactional_id, producer, tps, wait, now_of(ctx), version)
    return wait, lambda done: told(dict.fromkeys(tps, _told(info, done.response)))


def _told(info: RequestInfo, answer: object) -> ErrorCode:
    assert isinstance(answer, ErrorCode)
    return told_to(info, answer)


def _partitions(transaction: e.AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, index)
        for topic in transaction.topics
        for index in topic.partitions
    ]


def _why_not(ctx: Context, info: RequestInfo, tp: TopicPartition) -> ErrorCode:
    if tp.topic in INTERNAL_TOPICS and info.header.api_version < BROKERS_SINCE:
        return ErrorCode.topic_authorization_failed  # also for a partition that does not exist
    if ctx.image.partition(tp.topic, tp.partition) is None:
        return ErrorCode.unknown_topic_or_partition
    topic = ctx.image.topics[tp.topic]
    if any(name == MIRROR_SESSION and value for name, value in topic.config):
        return ErrorCode.policy_violation
    return ErrorCode.none


def _answer(
    request: e.AddPartitionsToTxnRequest,
    codes: list[_Codes | ErrorCode],
    of_all: ErrorCode = ErrorCode.none,
) -> e.AddPartitionsToTxnResponse:
    return e.AddPartitionsToTxnResponse(
        error_code=of_all,
        results_by_transaction=tuple(
            _result(each, code) for each, code in zip(request.transactions, codes, strict=True)
        ),
    )


def _result(
    transaction: e.AddPartitionsToTxnTransaction, codes: _Codes | ErrorCode
) -> e.AddPartitionsToTxnResult:
    return e.AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=tuple(
            e.AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=tuple(
                    e.AddPartitionsToTxnPartitionResult(
                        partition_index=index,
                        partition_error_code=codes
                        if isinstance(codes, ErrorCode)
                        else codes[TopicPartition(topic.name, index)],
                    )
                    for index in topic.partitions
                ),
            )
            for topic in transaction.topics
        ),
    )
