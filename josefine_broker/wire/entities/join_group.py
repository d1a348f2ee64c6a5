"""JoinGroup (key 11) in the one shape that handlers see: version 9."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequestProtocol:
    """One way to assign that the member understands, with what the leader needs to know of it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupRequest:
    """Become a member, or join again; version 0 has no rebalance timeout."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int = -1  # since version 1
    member_id: str
    group_instance_id: str | None = None  # since version 5
    protocol_type: str
    protocols: tuple[JoinGroupRequestProtocol, ...]
    reason: str | None = None  # since version 8


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponseMember:
    """A member, as reported to the group leader."""

    member_id: str
    group_instance_id: str | None = None  # since version 5
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupResponse:
    """The new generation; only the group leader gets the list of its members."""

    throttle_time_ms: int = 0  # since version 2
    error_code: ErrorCode = ErrorCode.none
    generation_id: int = -1
    protocol_type: str | None = None  # since version 7
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False  # since version 9
    member_id: str = ""
    members: tuple[JoinGroupResponseMember, ...] = ()
