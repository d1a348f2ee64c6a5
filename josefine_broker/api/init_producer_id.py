"""InitProducerId (key 22, KIP-98): an id nobody had before, epoch 0, for an idempotent producer.

Ids come in blocks by a metadata change (KIP-730). An idempotent producer always gets a new id, also
when it names its old one. Transactions are not served: a transactional id is refused with the
one code that every client takes as final, as FindCoordinator does.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AllocateProducerIds
from josefine_broker.engine.partition.producer_ids import BLOCK_IDS
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.wire.entities import init_producer_id as e


def handle(ctx: Context, info: RequestInfo, request: e.InitProducerIdRequest) -> object:
    """A producer id, at once or when its block is allocated."""
    if request.transactional_id is not None:
        raise KafkaError(
            ErrorCode.transactional_id_authorization_failed,
            "transactions are not served by this broker",
        )
    producer_id = ctx.clients.producer_ids.take()
    if producer_id is not None:
        return e.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    change = AllocateProducerIds(
        broker_id=ctx.broker_id, first_id=ctx.image.next_producer_id, count=BLOCK_IDS
    )
    proposal = submit_change(ctx, change, deadline_ms)

    def build() -> e.InitProducerIdResponse:
        taken = ctx.clients.producer_ids.take()
        if taken is not None:  # also when only somebody else's proposal of ours came through
            return e.InitProducerIdResponse(producer_id=taken, producer_epoch=0)
        error = proposal.error
        code = ErrorCode.coordinator_not_available if error is None else error.code
        return e.InitProducerIdResponse(error_code=code, producer_epoch=-1)

    return answer_when_settled(ctx, [proposal], deadline_ms, build)


def refuse(request: e.InitProducerIdRequest, error: KafkaError) -> e.InitProducerIdResponse:
    """The answer when the whole request is refused."""
    return e.InitProducerIdResponse(error_code=error.code, producer_epoch=-1)
