"""What the handlers of transactions share."""

from contextlib import suppress

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.changes import AllocateProducerIds
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, TRANSACTIONS_LEVEL
from josefine_broker.engine.partition.producer_ids import BLOCK_IDS
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.transactions.values import Producer

FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""By key: the version since which a client knows PRODUCER_FENCED (KIP-588)."""


ABORTABLE_SINCE = {0: 11, 24: 5, 28: 4}
"""By key: the version since which a client knows TRANSACTION_ABORTABLE (KIP-890)."""


ADDS_SINCE = {0: 12, 28: 5}
"""By key: the version since which who is written to tells the transaction's coordinator, not the
producer (KIP-890)."""


def producer_of(producer_id: int, epoch: int) -> Producer:
    """As the coordinator has it."""
    return Producer(ProducerId(producer_id), ProducerEpoch(epoch))


def new_producer_id(ctx: Context) -> ProducerId | None:
    """If there is none now there will be: who is told None asks again."""
    taken = ctx.clients.producer_ids.take()
    if taken is not None:
        return ProducerId(taken)
    change = AllocateProducerIds(
        broker_id=ctx.broker_id, first_id=ctx.image.next_producer_id, count=BLOCK_IDS
    )
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    with suppress(KafkaError):  # nobody decides now; the same question comes again
        answer_when_settled(ctx, [submit_change(ctx, change, deadline_ms)], deadline_ms, tuple)
    return None


def told_to(info: RequestInfo, code: ErrorCode) -> ErrorCode:
    """The error as this version of the request is told it."""
    header = info.header
    is_old = header.api_version < FENCED_SINCE[header.api_key]
    if code is ErrorCode.producer_fenced and is_old:
        return ErrorCode.invalid_producer_epoch
    return code


def adds_partitions(info: RequestInfo) -> bool:
    """Whether what is written by this request joins the transaction by that."""
    version: int = info.header.api_version
    return version >= ADDS_SINCE[info.header.api_key]


def abortable(info: RequestInfo, code: ErrorCode) -> ErrorCode:
    """The error as this version of the request is told it: INVALID_TXN_STATE to who does not know
    that a transaction can be given up."""
    header = info.header
    is_old = header.api_version < ABORTABLE_SINCE[header.api_key]
    return (
        ErrorCode.invalid_txn_state if code is ErrorCode.transaction_abortable and is_old else code
    )


def check_transactions(ctx: Context) -> None:
    """Raises KafkaError while a broker of this cluster may not know transactions yet: as a broker
    of before would be refused, which clients take as final and show as what it is."""
    if not ctx.image.serves_transactions:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"transactions are served from {JOSEFINE_VERSION} {TRANSACTIONS_LEVEL} on: finalize it",
        )
