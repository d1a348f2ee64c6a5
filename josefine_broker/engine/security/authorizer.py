"""Authorization by the ACLs in the metadata, with Kafka's rules (KIP-11, KIP-290, KIP-801).

Super users may do everything. A matching DENY wins; otherwise a matching ALLOW is required. A
resource without any ACL is forbidden, or allowed to all if so configured. READ, WRITE, DELETE and
ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS; a DENY of one of them denies nothing
else.

Decisions are cached until the ACLs change: the usual request costs one dict lookup.
"""

from collections.abc import Iterator

from josefine_broker.base.acls import (
    EVERYBODY,
    OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    operations_bits,
)

REMEMBERED_MAX = 20_000
"""Cached decisions; above this the cache is cleared."""
_MAPPED_IPV4 = "::ffff:"

ALLOWED_BY = {
    Operation.DESCRIBE: frozenset(
        (
            Operation.ALL,
            Operation.DESCRIBE,
            Operation.READ,
            Operation.WRITE,
            Operation.DELETE,
            Operation.ALTER,
        )
    ),
    Operation.DESCRIBE_CONFIGS: frozenset(
        (Operation.ALL, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
    ),
}
"""Operation → operations whose ALLOW implies it; any other is allowed by itself and by ALL."""

_Key = tuple[str, str, Operation, ResourceType, str]


class Authorizer:
    """The authorizer of one broker. `follow` must be called before each check."""

    __slots__ = (
        "_acls",
        "_allow_if_none",
        "_literal",
        "_prefixed",
        "_remembered",
        "_super_users",
        "denied",
    )

    def __init__(self, super_users: frozenset[str], *, allow_if_none: bool = False) -> None:
        self._super_users = super_users
        self._allow_if_none = allow_if_none
        self._acls: frozenset[Acl] = frozenset()
        self._literal: dict[tuple[ResourceType, str], list[Acl]] = {}
        self._prefixed: dict[ResourceType, dict[str, list[Acl]]] = {}
        self._remembered: dict[_Key, bool] = {}
        self.denied = 0
        """Number of requests that were refused in whole or in part."""

    def follow(self, acls: frozenset[Acl]) -> None:
        """Use the image's ACLs; the same object again costs nothing."""
        if acls is self._acls:
            return
        self._acls = acls
        self._remembered.clear()
        self._literal.clear()
        self._prefixed.clear()
        for acl in acls:
            if acl.pattern is PatternType.LITERAL:
                self._literal.setdefault((acl.resource_type, acl.name), []).append(acl)
            else:
                by_prefix = self._prefixed.setdefault(acl.resource_type, {})
                by_prefix.setdefault(acl.name, []).append(acl)

    def allows(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Whether the operation is allowed. `host` is the client's address without port."""
        key = (principal, host, operation, kind, name)
        known = self._remembered.get(key)
        if known is not None:
            return known
        # Cleared as a whole: names in requests are the clients' choice, so any order of eviction
        # could be made to miss.
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        found = self._remembered[key] = self._decide(*key)
        return found

    def allows_some(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether any resource of that type may be accessed (KIP-679)."""
        if principal in self._super_users or self._allow_if_none:
            return True
        asked = [acl for acl in self._acls if acl.resource_type is kind]
        mine = [acl for acl in asked if _is_about(acl, principal, host)]
        denied = [acl for acl in mine if _denies(acl, operation)]
        # KIP-679: an idempotent producer needs WRITE on some topic. An ALLOW counts unless one DENY
        # covers all names that it matches; several together are not tried, as in Kafka.
        return any(
            _allows(acl, operation) and not any(_covers(no, acl) for no in denied) for acl in mine
        )

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """The allowed operations as a bit field (KIP-430)."""
        return operations_bits(
            tuple(
                each for each in OPERATIONS[kind] if self.allows(principal, host, each, kind, name)
            )
        )

    def _decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        """Without the cache. The first DENY ends the search; an ALLOW does not, as a DENY may
        follow."""
        if principal in self._super_users:
            return True
        # `said`: some ACL is about the resource, for any principal. From then on it is closed to
        # all others, even with allow.everyone.if.no.acl.found.
        said = is_allowed = False
        for acl in self._about(kind, name):
            said = True
            if not _is_about(acl, principal, host):
                continue
            if _denies(acl, operation):
                return False
            is_allowed = is_allowed or _allows(acl, operation)
        return is_allowed or (self._allow_if_none and not said)

    def _about(self, kind: ResourceType, name: str) -> Iterator[Acl]:
        """The ACLs whose pattern matches."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        by_prefix = self._prefixed.get(kind)
        if by_prefix:
            # By each prefix of the name: its length bounds the work, not the number of ACLs
            # (KIP-290).
            for length in range(1, len(name) + 1):
                yield from by_prefix.get(name[:length], ())


def host_of(client_address: str) -> str:
    """A connection's address in the form of ACLs: without port, mapped IPv4 as plain IPv4."""
    return client_address.rpartition(":")[0].removeprefix(_MAPPED_IPV4)


def _is_about(acl: Acl, principal: str, host: str) -> bool:
    """Host names are not resolved, in Kafka neither: an ACL has an address or `*`."""
    return acl.principal in (principal, EVERYBODY) and acl.host in (host, WILDCARD)


def _denies(acl: Acl, operation: Operation) -> bool:
    """No implication: a DENY of READ leaves DESCRIBE alone, which an ALLOW of READ would
    include."""
    return acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)


def _allows(acl: Acl, operation: Operation) -> bool:
    """Whether it allows the operation, directly or by implication (ALLOWED_BY)."""
    if acl.permission is not Permission.ALLOW:
        return False
    by = ALLOWED_BY.get(operation)
    if by is not None:
        return acl.operation in by
    return acl.operation in (operation, Operation.ALL)


def _covers(no: Acl, yes: Acl) -> bool:
    """Whether `no` matches every name that `yes` matches."""
    if no.pattern is PatternType.PREFIXED:
        return yes.name != WILDCARD and yes.name.startswith(no.name)
    return no.name == WILDCARD or (no.name == yes.name and yes.pattern is PatternType.LITERAL)
