"""LeaveGroup (key 13) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberIdentity:
    """Who leaves; a static member may be named by its instance alone."""

    member_id: str
    group_instance_id: str | None = None
    reason: str | None = None  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupRequest:
    """Members leave; until version 2 exactly one."""

    group_id: str
    members: tuple[MemberIdentity, ...]  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberResponse:
    """What became of one of them."""

    member_id: str
    group_instance_id: str | None = None
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveGroupResponse:
    """One answer per member; until version 2 the one error stands for the whole."""

    throttle_time_ms: int = 0  # since version 1
    error_code: ErrorCode = ErrorCode.none
    members: tuple[MemberResponse, ...] = ()  # since version 3
