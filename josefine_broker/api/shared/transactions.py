"""Code shared by the handlers of transactions."""

from collections.abc import Sequence
from contextlib import suppress

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.hosted import Buffer
from josefine_broker.engine.metadata.changes import AllocateProducerIds
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, TRANSACTIONS_LEVEL
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producer_ids import BLOCK_IDS
from josefine_broker.engine.proposing import answer_when_settled, submit_change
from josefine_broker.engine.transactions.values import Producer
from josefine_broker.records.batch import iter_batches
from josefine_broker.wire.fetch import AbortedTransaction

FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""By key: the first version whose clients know PRODUCER_FENCED (KIP-588)."""


ABORTABLE_SINCE = {0: 11, 24: 5, 28: 4}
"""By key: the first version whose clients know TRANSACTION_ABORTABLE (KIP-890)."""


ADDS_SINCE = {0: 12, 28: 5}
"""By key: the first version in which the broker that is written to, not the producer, informs the
transaction's coordinator (KIP-890)."""


def producer_of(producer_id: int, epoch: int) -> Producer:
    """The producer in the coordinator's form."""
    return Producer(ProducerId(producer_id), ProducerEpoch(epoch))


def new_producer_id(ctx: Context) -> ProducerId | None:
    """A new id; None if there is none yet: the client then retries, and an allocation is
    started."""
    taken = ctx.clients.producer_ids.take()
    if taken is not None:
        return ProducerId(taken)
    change = AllocateProducerIds(
        broker_id=ctx.broker_id, first_id=ctx.image.next_producer_id, count=BLOCK_IDS
    )
    deadline_ms = ctx.clock.monotonic_ms() + ctx.settings.metadata_timeout_ms
    with suppress(KafkaError):  # no controller now; the client will retry
        answer_when_settled(ctx, [submit_change(ctx, change, deadline_ms)], deadline_ms, tuple)
    return None


def told_to(info: RequestInfo, code: ErrorCode) -> ErrorCode:
    """The error in this version of the request."""
    header = info.header
    is_old = header.api_version < FENCED_SINCE[header.api_key]
    if code is ErrorCode.producer_fenced and is_old:
        return ErrorCode.invalid_producer_epoch
    return code


def adds_partitions(info: RequestInfo) -> bool:
    """Whether writing by this request adds the partition to the transaction."""
    version: int = info.header.api_version
    return version >= ADDS_SINCE[info.header.api_key]


def abortable(info: RequestInfo, code: ErrorCode) -> ErrorCode:
    """The error in this version of the request: INVALID_TXN_STATE for clients that do not know
    TRANSACTION_ABORTABLE."""
    header = info.header
    is_old = header.api_version < ABORTABLE_SINCE[header.api_key]
    return (
        ErrorCode.invalid_txn_state if code is ErrorCode.transaction_abortable and is_old else code
    )


def check_transactions(ctx: Context) -> None:
    """Raises KafkaError while a broker of this cluster may not know transactions yet, with the
    error of an older broker, which clients treat as final and show as it is."""
    if not ctx.image.serves_transactions:
        raise KafkaError(
            ErrorCode.unsupported_version,
            f"transactions are served from {JOSEFINE_VERSION} {TRANSACTIONS_LEVEL} on: finalize it",
        )


def aborted_among(
    partition: Partition, offset: int, records: Sequence[Buffer]
) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that may include these records, read from `offset`."""
    transactions = partition.producers.transactions
    if not records or not transactions.has_aborted:
        return ()
    headers = [header for _, header in iter_batches(records[-1])]
    end = headers[-1].end_offset if headers else partition.last_stable_offset
    found = transactions.aborted_between(offset, end)
    return tuple(AbortedTransaction(each.producer_id, each.first_offset) for each in found)
