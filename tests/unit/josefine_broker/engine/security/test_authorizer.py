"""Who may do what: Kafka's rules, against a slow reading of them, and what an answer costs."""

from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.acls import (
    EVERYBODY,
    OPERATIONS,
    WILDCARD,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from josefine_broker.engine.security.authorizer import Authorizer, host_of

ALICE, BOB, ROOT = "User:alice", "User:bob", "User:root"
HERE = "10.0.0.1"
TOPIC = ResourceType.TOPIC
ALLOW, DENY = Permission.ALLOW, Permission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
IMPLIED = {
    DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def acl(
    operation: Operation = READ,
    permission: Permission = ALLOW,
    name: str = "orders",
    pattern: PatternType = LITERAL,
    principal: str = ALICE,
    host: str = WILDCARD,
) -> Acl:
    return Acl(TOPIC, name, pattern, principal, host, operation, permission)


def allows(
    *acls: Acl,
    operation: Operation = READ,
    name: str = "orders",
    principal: str = ALICE,
    allow_if_none: bool = False,
) -> bool:
    authorizer = Authorizer(frozenset({ROOT}), allow_if_none=allow_if_none)
    authorizer.follow(frozenset(acls))
    return authorizer.allows(principal, HERE, operation, TOPIC, name)


def test_nothing_is_allowed_without_an_acl_but_to_super_users() -> None:
    assert not allows()
    assert not allows(acl(), principal=BOB)
    assert allows(principal=ROOT)
    assert allows(acl(permission=DENY, principal=EVERYBODY), principal=ROOT)


@pytest.mark.parametrize(
    ("rule", "is_allowed"),
    [
        (acl(), True),
        (acl(Operation.ALL), True),
        (acl(WRITE), False),
        (acl(name="order"), False),
        (acl(name="order", pattern=PREFIXED), True),
        (acl(name="orders", pattern=PREFIXED), True),
        (acl(name="orders.", pattern=PREFIXED), False),
        (acl(name=WILDCARD), True),
        (acl(name=WILDCARD, pattern=PREFIXED), False),
        (acl(principal=EVERYBODY), True),
        (acl(host=HERE), True),
        (acl(host="10.0.0.2"), False),
    ],
)
def test_rule_fits_by_name_principal_host_and_operation(rule: Acl, is_allowed: bool) -> None:
    assert allows(rule) is is_allowed


def test_denial_wins_and_denies_nothing_else() -> None:
    assert not allows(acl(), acl(permission=DENY, name=WILDCARD))
    assert not allows(acl(), acl(Operation.ALL, DENY, principal=EVERYBODY))
    assert allows(acl(), acl(DESCRIBE, DENY))
    assert allows(acl(), acl(permission=DENY, principal=BOB))
    assert not allows(acl(), acl(DESCRIBE, DENY), operation=DESCRIBE)
    assert allows(acl(WRITE), acl(READ, DENY), operation=DESCRIBE)


def test_resource_of_which_no_acl_speaks_may_be_everybodys() -> None:
    assert allows(allow_if_none=True)
    assert allows(acl(name="others"), allow_if_none=True)
    assert not allows(acl(principal=BOB), allow_if_none=True)
    assert not allows(acl(name="ord", pattern=PREFIXED, principal=BOB), allow_if_none=True)


def test_answers_follow_the_acls() -> None:
    authorizer = Authorizer(frozenset())
    rules = frozenset({acl()})

    for _ in range(2):
        authorizer.follow(rules)
        assert authorizer.allows(ALICE, HERE, READ, TOPIC, "orders")
        authorizer.follow(frozenset())
        assert not authorizer.allows(ALICE, HERE, READ, TOPIC, "orders")


@pytest.mark.parametrize(
    ("rules", "is_allowed"),
    [
        ([], False),
        ([acl()], True),
        ([acl(name="o", pattern=PREFIXED)], True),
        ([acl(WRITE)], False),
        ([acl(), acl(permission=DENY)], False),
        ([acl(), acl(permission=DENY, name=WILDCARD)], False),
        ([acl(), acl(permission=DENY, name="ord", pattern=PREFIXED)], False),
        ([acl(name=WILDCARD), acl(permission=DENY)], True),
        (
            [acl(name="o", pattern=PREFIXED), acl(permission=DENY, name="or", pattern=PREFIXED)],
            True,
        ),
    ],
)
def test_some_resource_is_allowed_unless_denials_cover_all(
    rules: list[Acl], is_allowed: bool
) -> None:
    authorizer = Authorizer(frozenset({ROOT}))
    authorizer.follow(frozenset(rules))

    assert authorizer.allows_some(ALICE, HERE, READ, TOPIC) is is_allowed
    assert authorizer.allows_some(ROOT, HERE, READ, TOPIC)


def test_hosts_are_addresses_without_port_and_ipv4_as_such() -> None:
    assert host_of("10.0.0.1:5000") == "10.0.0.1"
    assert host_of("::1:5000") == "::1"
    assert host_of("::ffff:10.0.0.1:5000") == "10.0.0.1"


NAMES = st.text("ab*", min_size=1, max_size=3)
ACLS = st.builds(
    acl,
    st.sampled_from((*OPERATIONS[TOPIC], Operation.ALL)),
    st.sampled_from((ALLOW, DENY)),
    NAMES,
    st.sampled_from((LITERAL, PREFIXED)),
    st.sampled_from((ALICE, BOB, EVERYBODY)),
    st.sampled_from((HERE, "10.0.0.2", WILDCARD)),
)


def slowly(acls: frozenset[Acl], operation: Operation, name: str, *, allow_if_none: bool) -> bool:
    """Word by word."""
    about = [
        each
        for each in acls
        if (each.pattern is LITERAL and each.name in (name, WILDCARD))
        or (each.pattern is PREFIXED and name.startswith(each.name))
    ]
    mine = [a for a in about if a.principal in (ALICE, EVERYBODY) and a.host in (HERE, WILDCARD)]
    if any(a.permission is DENY and a.operation in (operation, Operation.ALL) for a in mine):
        return False
    enough = {operation, Operation.ALL, *IMPLIED.get(operation, ())}
    if any(a.permission is ALLOW and a.operation in enough for a in mine):
        return True
    return allow_if_none and not about


@given(st.frozensets(ACLS, max_size=8), st.sampled_from(OPERATIONS[TOPIC]), NAMES, st.booleans())
def test_index_and_memory_decide_as_the_rules_read(
    acls: frozenset[Acl], operation: Operation, name: str, allow_if_none: bool
) -> None:
    authorizer = Authorizer(frozenset(), allow_if_none=allow_if_none)
    authorizer.follow(acls)
    expected = slowly(acls, operation, name, allow_if_none=allow_if_none)

    for _ in range(2):
        assert authorizer.allows(ALICE, HERE, operation, TOPIC, name) is expected


def test_question_that_was_asked_before_costs_less_than_two_microseconds() -> None:
    """The best of many: what the machine does besides is not ours."""
    authorizer = Authorizer(frozenset({ROOT}))
    authorizer.follow(frozenset(acl(name=f"t{number}") for number in range(10_000)))

    def ask() -> None:
        authorizer.allows(ALICE, host_of("10.0.0.1:5000"), READ, TOPIC, "t5000")

    assert min(repeat(ask, number=1_000, repeat=50)) / 1_000 < 2e-6
