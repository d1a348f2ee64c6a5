"""What the handlers of transactions share."""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.engine.context import Context, RequestInfo
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, TRANSACTIONS_LEVEL
from josefine_broker.engine.transactions.values import Producer

FENCED_SINCE = {22: 4, 24: 2, 25: 2, 26: 2}
"""By key: the version since which a client knows PRODUCER_FENCED (KIP-588)."""


def producer_of(producer_id: int, epoch: int) -> Producer:
    """As the coordinator has it."""
    return Producer(ProducerId(producer_id), ProducerEpoch(epoch))


def told_to(info: RequestInfo, code: ErrorCode) -> ErrorCode:
    """The error as this version of the request is told it."""
    header = info.header
    is_old = header.api_version < FENCED_SINCE[header.api_key]
    if code is ErrorCode.producer_fenced and is_old:
        return ErrorCode.invalid_producer_epoch
    return code


def check_transactions(ctx: Context) -> None:
    """Raises KafkaError while a broker of this cluster may not know transactions yet: with the one
    code that every client takes as final, for librdkafka asks again for ever after any other."""
    if not ctx.image.serves_transactions:
        raise KafkaError(
            ErrorCode.transactional_id_authorization_failed,
            f"transactions are served from {JOSEFINE_VERSION} {TRANSACTIONS_LEVEL} on: finalize it",
        )
