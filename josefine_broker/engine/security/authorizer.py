"""Who may do what: Kafka's rules over the ACLs of the metadata (KIP-11, KIP-290, KIP-801).

Super users may do everything. A DENY that fits wins; else an ALLOW that fits is needed. A resource
about which no ACL speaks is nobody's, or everybody's where that is configured. READ, WRITE, DELETE
and ALTER allow DESCRIBE too, ALTER_CONFIGS allows DESCRIBE_CONFIGS; to deny one of them denies
nothing else.

Decisions are remembered until the ACLs change: the usual request costs one look into a dict.
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
"""Decisions; past that all are forgotten."""
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
"""Operations of an ALLOW that do for another one; any other is allowed by itself and by ALL."""

_Key = tuple[str, str, Operation, ResourceType, str]


class Authorizer:
    """One broker's. `follow` comes before each question."""

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
        """Requests of which some or all was refused."""

    def follow(self, acls: frozenset[Acl]) -> None:
        """Those of the image; the same object costs nothing."""
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
        """`host` is the client's address, without a port."""
        key = (principal, host, operation, kind, name)
        known = self._remembered.get(key)
        if known is not None:
            return known
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        found = self._remembered[key] = self._decide(*key)
        return found

    def allows_some(
        self, principal: str, host: str, operation: Operation, kind: ResourceType
    ) -> bool:
        """Whether there may be a resource of that type that it is allowed on (KIP-679)."""
        if principal in self._super_users or self._allow_if_none:
            return True
        asked = [acl for acl in self._acls if acl.resource_type is kind]
        mine = [acl for acl in asked if _is_about(acl, principal, host)]
        denied = [acl for acl in mine if _denies(acl, operation)]
        return any(
            _allows(acl, operation) and not any(_covers(no, acl) for no in denied) for acl in mine
        )

    def operations(self, principal: str, host: str, kind: ResourceType, name: str) -> int:
        """The bits of what it is allowed to do (KIP-430)."""
        return operations_bits(
            tuple(
                each for each in OPERATIONS[kind] if self.allows(principal, host, each, kind, name)
            )
        )

    def _decide(
        self, principal: str, host: str, operation: Operation, kind: ResourceType, name: str
    ) -> bool:
        if principal in self._super_users:
            return True
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
        """The ACLs whose pattern fits."""
        yield from self._literal.get((kind, name), ())
        if name != WILDCARD:
            yield from self._literal.get((kind, WILDCARD), ())
        by_prefix = self._prefixed.get(kind)
        if by_prefix:
            for length in range(1, len(name) + 1):
                yield from by_prefix.get(name[:length], ())


def host_of(client_address: str) -> str:
    """A connection's address as ACLs say it: without the port, IPv4 as such."""
    return client_address.rpartition(":")[0].removeprefix(_MAPPED_IPV4)


def _is_about(acl: Acl, principal: str, host: str) -> bool:
    return acl.principal in (principal, EVERYBODY) and acl.host in (host, WILDCARD)


def _denies(acl: Acl, operation: Operation) -> bool:
    return acl.permission is Permission.DENY and acl.operation in (operation, Operation.ALL)


def _allows(acl: Acl, operation: Operation) -> bool:
    if acl.permission is not Permission.ALLOW:
        return False
    by = ALLOWED_BY.get(operation)
    if by is not None:
        return acl.operation in by
    return acl.operation in (operation, Operation.ALL)


def _covers(no: Acl, yes: Acl) -> bool:
    """Whether every name that `yes` fits is one that `no` fits."""
    if no.pattern is PatternType.PREFIXED:
        return yes.name != WILDCARD and yes.name.startswith(no.name)
    return no.name == WILDCARD or (no.name == yes.name and yes.pattern is PatternType.LITERAL)
