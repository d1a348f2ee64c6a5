"""EndTxn (key 26) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnRequest:
    """A producer ends its transaction; `committed` is whether it commits."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTxnResponse:
    """Whether that is decided; since version 5 who the producer is from now on (KIP-890)."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    producer_id: int = -1  # since version 5
    producer_epoch: int = -1  # since version 5
