"""DeleteAcls (key 31) in the one shape that handlers see: version 3."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilter:
    """As DescribeAcls'."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int = 3
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsRequest:
    """ACLs that are to go."""

    filters: tuple[DeleteAclsFilter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsMatchingAcl:
    """One that is gone."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    resource_type: int
    resource_name: str
    pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsFilterResult:
    """What became of one filter, in the order of the request."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None
    matching_acls: tuple[DeleteAclsMatchingAcl, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteAclsResponse:
    """One answer per filter."""

    throttle_time_ms: int = 0
    filter_results: tuple[DeleteAclsFilterResult, ...]
