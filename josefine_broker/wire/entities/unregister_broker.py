"""UnregisterBroker (key 64) in the one shape that handlers see: version 0."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRequest:
    """A broker left for good (KIP-631)."""

    broker_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerResponse:
    """Whether it is forgotten."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
