"""AddOffsetsToTxn (key 25) in the one shape that handlers see: version 4."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnRequest:
    """A producer is about to commit a group's offsets in its transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AddOffsetsToTxnResponse:
    """Whether it may."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
