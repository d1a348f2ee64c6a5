"""Heartbeat (key 12) in the one shape that handlers see: version 4."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatRequest:
    """A member is alive."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatResponse:
    """Whether the member's generation continues."""

    throttle_time_ms: int = 0  # since version 1
    error_code: ErrorCode = ErrorCode.none
