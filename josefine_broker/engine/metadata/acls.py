"""ACLs as requests have them, in numbers: which are well formed, and which a filter means."""

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
"""Of a cluster: each is in every snapshot of the metadata."""
CREDENTIALS_MAX = 10_000
"""Of users, the same."""
QUOTAS_MAX = 10_000
"""Users and client ids that have one, the same."""
TEXT_CHARS_MAX = 1_024
"""Of a name, principal or host."""


def filter_of(
    resource_type: int,
    name: str | None,
    pattern: int,
    principal: str | None,
    host: str | None,
    operation: int,
    permission: int,
) -> AclFilter:
    """The numbers of a request as a filter. Raises KafkaError for those that are none of ours."""
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
        raise KafkaError(ErrorCode.invalid_request, f"an ACL has no such word: {error}") from None


def acl_of(wanted: AclFilter) -> Acl:
    """The one rule that a filter without gaps is. Raises KafkaError saying which gap it has."""
    kind, name, pattern, principal, host, operation, permission = wanted
    if kind is ResourceType.ANY or pattern in (PatternType.ANY, PatternType.MATCH):
        raise _bad("an ACL is about resources of one type, LITERAL or PREFIXED")
    if operation is Operation.ANY or permission is Permission.ANY:
        raise _bad("an ACL has one operation (perhaps ALL) and one permission")
    if operation is not Operation.ALL and operation not in OPERATIONS[kind]:
        raise _bad(f"there is no {operation.name} of a {kind.name}")
    if not name or not principal or not host:
        raise _bad("an ACL has a name, a principal and a host, none of them empty")
    if max(map(len, (name, principal, host))) > TEXT_CHARS_MAX:
        raise _bad(f"a name, principal or host has {TEXT_CHARS_MAX} characters at most")
    if kind is ResourceType.CLUSTER and name not in (CLUSTER_NAME, WILDCARD):
        raise _bad(f"the only resource of type CLUSTER is '{CLUSTER_NAME}', not '{name}'")
    who, colon, rest = principal.partition(":")
    if who != "User" or not colon or not rest:
        raise _bad(f"a principal is 'User:NAME', not '{principal}'")
    return Acl(kind, name, pattern, principal, host, operation, permission)


def _bad(message: str) -> KafkaError:
    return KafkaError(ErrorCode.invalid_request, message)
