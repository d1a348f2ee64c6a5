"""InitProducerId (key 22) in the one shape that handlers see: version 6."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdRequest:
    """Ask for a producer id, or for a new epoch of one (KIP-360); to take part in a two-phase
    commit, and to keep what was prepared (KIP-939)."""

    transactional_id: str | None = None
    transaction_timeout_ms: int
    producer_id: int = -1  # since version 3
    producer_epoch: int = -1  # since version 3
    enable2_pc: bool = False  # since version 6
    keep_prepared_txn: bool = False  # since version 6


@dataclass(frozen=True, slots=True, kw_only=True)
class InitProducerIdResponse:
    """The producer's id and epoch; who wrote the transaction that was kept."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1
    producer_epoch: int
    ongoing_txn_producer_id: int = -1  # since version 6
    ongoing_txn_producer_epoch: int = -1  # since version 6
