"""GetTelemetrySubscriptions (key 71) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsRequest:
    """A client without an id names none."""

    client_instance_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GetTelemetrySubscriptionsResponse:
    """What the client should push, and how often."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
    client_instance_id: UUID | None = None
    subscription_id: int = 0
    accepted_compression_types: tuple[int, ...] = ()
    push_interval_ms: int = 0
    telemetry_max_bytes: int = 0
    delta_temporality: bool = False
    requested_metrics: tuple[str, ...] = ()
