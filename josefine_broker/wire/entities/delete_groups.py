"""DeleteGroups (key 42) in the one shape that handlers see: version 2."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsRequest:
    """Delete groups with their committed offsets."""

    groups_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletableGroupResult:
    """What became of one group."""

    group_id: str
    error_code: ErrorCode = ErrorCode.none


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """One answer per group."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...]
