"""DeleteGroups (key 42) in the one shape that handlers see: version 3."""

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
    error_message: str | None = None  # since version 3


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroupsResponse:
    """One answer per group."""

    throttle_time_ms: int = 0
    results: tuple[DeletableGroupResult, ...]
