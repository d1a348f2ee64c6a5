"""ListGroups (key 16) in the one shape that handlers see: version 5."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsRequest:
    """Ask for the groups of a broker; empty filters let all pass."""

    states_filter: tuple[str, ...] = ()  # since version 4
    types_filter: tuple[str, ...] = ()  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedGroup:
    """One group."""

    group_id: str
    protocol_type: str
    group_state: str = ""  # since version 4
    group_type: str = ""  # since version 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ListGroupsResponse:
    """The groups that this broker coordinates."""

    throttle_time_ms: int = 0  # since version 1
    error_code: ErrorCode = ErrorCode.none
    groups: tuple[ListedGroup, ...]
