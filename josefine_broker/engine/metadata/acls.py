"""ACL requests in their numeric form: validation, and conversion to ACLs and filters."""

from josefine_broker.base.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from josefine_broker.base.errors import ErrorCode, KafkaError

ACLS_MAX = 10_000
"""Per cluster: each is part of every metadata snapshot."""
CREDENTIALS_MAX = 10_000
"""Of users, per cluster."""
GROUP_CONFIGS_MAX = 10_000
"""Groups with a configuration, per cluster."""
QUOTAS_MAX = 10_000
"""Users and client ids with a quota, per cluster."""
TEXT_CHARS_MAX = 1_024
"""Of a resource name, principal or host."""


def filter_of(
    resource_type: int,
    name: str | None,
    pattern: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """The filter of a request. Raises KafkaError for numbers that are not valid."""
    try:
        return AclFilter(
            ResourceType(resource_type),
            name,
            PatternType(pattern),
            principal,
            host,
            Operation(operation),
            Permission(permission),
        )
    except ValueError as error:
        raise KafkaError(ErrorCode.invalid_request, f"invalid number in an ACL: {error}") from None


def acl_of(wanted: AclFilter) -> Acl:
    """The one ACL that a filter without wildcards names. Raises KafkaError naming the wildcard."""
    kind, name, pattern, principal, host, operation, permission = wanted
    # These are for filters (KIP-290): an ACL with one of them would have no single meaning.
    if kind is ResourceType.ANY or pattern in (PatternType.ANY, PatternType.MATCH):
        raise _bad("an ACL needs one resource type and a pattern type LITERAL or PREFIXED")
    if operation is Operation.ANY or permission is Permission.ANY:
        raise _bad("an ACL needs one operation (ALL is allowed) and one permission")
    if operation is not Operation.ALL and operation not in OPERATIONS[kind]:
        raise _bad(f"operation {operation.name} is not valid for resource type {kind.name}")
    if not name or not principal or not host:
        raise _bad("an ACL needs a resource name, a principal and a host, none of them empty")
    if max(map(len, (name, principal, host))) > TEXT_CHARS_MAX:
        raise _bad(f"a resource name, principal or host has at most {TEXT_CHARS_MAX} characters")
    if kind is ResourceType.CLUSTER and name not in (CLUSTER_NAME, WILDCARD):
        raise _bad(f"the only resource of type CLUSTER is '{CLUSTER_NAME}', not '{name}'")
    # Only users authenticate here. An ACL for another type of principal would never match.
    who, colon, rest = principal.partition(":")
    if who != "User" or not colon or not rest:
        raise _bad(f"a principal must be 'User:NAME', not '{principal}'")
    return Acl(kind, name, pattern, principal, host, operation, permission)


def _bad(message: str) -> KafkaError:
    """INVALID_REQUEST, with the field that is wrong."""
    return KafkaError(ErrorCode.invalid_request, message)
