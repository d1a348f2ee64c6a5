"""CreateAcls (key 30) in the one shape that handlers see: version 3."""

from dataclasses import dataclass

from josefine_broker.base.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreation:
    """One ACL, in the numbers of Kafka's protocol."""

    resource_type: int
    resource_name: str
    resource_pattern_type: int = 3
    principal: str
    host: str
    operation: int
    permission_type: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsRequest:
    """ACLs that are to be there."""

    creations: tuple[AclCreation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AclCreationResult:
    """What became of one, in the order of the request."""

    error_code: ErrorCode = ErrorCode.none
    error_message: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateAclsResponse:
    """One answer per ACL."""

    throttle_time_ms: int = 0
    results: tuple[AclCreationResult, ...]
