"""InitProducerId (key 22, KIP-98): a new id for an idempotent producer; for a transactional id the
producer's id and its next epoch, which fences any earlier holder.

Ids are allocated in blocks by a metadata change (KIP-730). An idempotent producer always gets a new
id, even if it names its old one; a transactional producer that names it keeps it (KIP-360). An id
without an epoch, or an epoch without an id, is INVALID_REQUEST.
"""

from collections.abc import Callable

from josefine_broker.api.shared.transactions import (
    check_transactions,
    new_producer_id,
    producer_of,
    told_to,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.coordinators.transactions_host import (
    TransactionWait,
    answer_of,
    do_transactions_work,
    now_of,
    transaction_partition,
)
from josefine_broker.engine.metadata.changes import AllocateProducerIds
from josefine_broker.engine.metadata.proposals import Proposal
from josefine_broker.engine.partition.producer_ids import BLOCK_IDS
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.transactions.values import Init, TransactionAnswer
from josefine_broker.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from josefine_broker.wire.entities import init_producer_id as e


def handle(ctx: Context, info: RequestInfo, request: e.InitProducerIdRequest) -> object:
    """Answer with a producer id, at once or when its block is allocated."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_PRODUCER_EPOCH):
        raise KafkaError(
            ErrorCode.invalid_request, "a producer id and its epoch go together: one is missing"
        )
    if request.transactional_id is not None:
        return _of_transactional_id(ctx, info, request, request.transactional_id)
    producer_id = ctx.clients.producer_ids.take()
    if producer_id is not None:
        return e.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    def build(proposal: Proposal) -> e.InitProducerIdResponse:
        taken = ctx.clients.producer_ids.take()
        if taken is not None:  # also when another request's proposal of ours succeeded
            return e.InitProducerIdResponse(producer_id=taken, producer_epoch=0)
        return e.InitProducerIdResponse(error_code=_why_none(proposal), producer_epoch=-1)

    return _allocate(ctx, build)


def refuse(request: e.InitProducerIdRequest, error: KafkaError) -> e.InitProducerIdResponse:
    """The answer when the whole request is refused."""
    return e.InitProducerIdResponse(error_code=error.code, producer_epoch=-1)


def _allocate(ctx: Context, build: Callable[[Proposal], object]) -> object:
    """Call `build` when a block of ids is available, or has failed. Raises KafkaError."""
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    change = AllocateProducerIds(
        broker_id=ctx.broker_id, first_id=ctx.image.next_producer_id, count=BLOCK_IDS
    )
    try:
        proposal = submit_change(ctx, change, deadline_ms)
    except KafkaError as error:  # never name the controller to a producer: it would give up
        raise KafkaError(ErrorCode.coordinator_not_available, error.message) from error
    return answer_when_settled(ctx, [proposal], deadline_ms, lambda: build(proposal))


def _why_none(proposal: Proposal) -> ErrorCode:
    error = proposal.error
    return ErrorCode.coordinator_not_available if error is None else error.code


def _of_transactional_id(
    ctx: Context, info: RequestInfo, request: e.InitProducerIdRequest, transactional_id: str
) -> object:
    """The coordinator may need a new id: one is prepared before it is asked."""
    check_transactions(ctx)
    if (request.enable2_pc or request.keep_prepared_txn) and not ctx.image.tags_transactions:
        raise KafkaError(
            ErrorCode.unsupported_version, "a two-phase commit waits for transaction.version"
        )
    transaction_partition(ctx, transactional_id)

    def translate(answer: TransactionAnswer) -> e.InitProducerIdResponse:
        return e.InitProducerIdResponse(
            error_code=told_to(info, answer.error),
            producer_id=answer.producer.producer_id,
            producer_epoch=answer.producer.epoch,
            ongoing_txn_producer_id=answer.ongoing.producer_id,
            ongoing_txn_producer_epoch=answer.ongoing.epoch,
        )

    wait = TransactionWait(ctx, translate)
    init = Init(
        timeout_ms=request.transaction_timeout_ms,
        claimed=producer_of(request.producer_id, request.producer_epoch),
        two_phase=request.enable2_pc,
        keeps=request.keep_prepared_txn,
    )

    def go_on(proposal: Proposal | None) -> None:
        if proposal is not None and not len(ctx.clients.producer_ids):
            wait.answer(TransactionAnswer(_why_none(proposal)))
            return
        try:
            transaction_partition(ctx, transactional_id)
        except KafkaError as error:  # the leadership moved meanwhile
            wait.answer(TransactionAnswer(error.code))
            return
        coordinator = ctx.clients.transactions.coordinator
        coordinator.init(transactional_id, init, wait, now_of(ctx), lambda: new_producer_id(ctx))
        do_transactions_work(ctx)

    if len(ctx.clients.producer_ids):
        go_on(None)
    else:
        try:
            _allocate(ctx, go_on)
        except KafkaError as error:
            wait.answer(TransactionAnswer(error.code))
    return answer_of(ctx, wait)
