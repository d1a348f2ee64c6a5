"""DescribeGroups (key 15) in the one shape that handlers see: version 6."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsRequest:
    """Ask what these groups are doing."""

    groups: tuple[str, ...]
    include_authorized_operations: bool = False  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroupMember:
    """A member, with what it said of itself and what it was given."""

    member_id: str
    group_instance_id: str | None = None  # since version 4
    client_id: str
    client_host: str
    member_metadata: bytes = b""
    member_assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedGroup:
    """One group, or its error."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None  # since version 6
    group_id: str
    group_state: str = ""
    protocol_type: str = ""
    protocol_data: str = ""
    members: tuple[DescribedGroupMember, ...] = ()
    authorized_operations: int = -2147483648  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribeGroupsResponse:
    """One answer per group."""

    throttle_time_ms: int = 0  # since version 1
    groups: tuple[DescribedGroup, ...]
