"""PushTelemetry (key 72) in the one shape that handlers see: version 0."""

from dataclasses import dataclass
from uuid import UUID

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryRequest:
    """OpenTelemetry's MetricsData, compressed."""

    client_instance_id: UUID | None = None
    subscription_id: int
    terminating: bool
    compression_type: int
    metrics: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PushTelemetryResponse:
    """Whether they were taken."""

    throttle_time_ms: int = 0
    error_code: ErrorCode = ErrorCode.none
