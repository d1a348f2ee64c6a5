"""SyncGroup (key 14) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequestAssignment:
    """What the leader gives to one member."""

    member_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupRequest:
    """Ask for the assignment; the leader brings everybody's."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None = None  # since version 3
    protocol_type: str | None = None  # since version 5
    protocol_name: str | None = None  # since version 5
    assignments: tuple[SyncGroupRequestAssignment, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupResponse:
    """What this member was given."""

    throttle_time_ms: int = 0  # since version 1
    error_code: ErrorCode = ErrorCode.none
    protocol_type: str | None = None  # since version 5
    protocol_name: str | None = None  # since version 5
    assignment: bytes = b""
