"""`josefine acls`: access rules. Nothing is guessed: a rule names its user, its operations and its
one resource, and a removal lists the rules before it removes them.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Annotated, TypeVar

import typer

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
from josefine_broker.client import access_admin
from josefine_broker.client.effects import Operation as Operations
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.session import Session
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import agree, connect, plural, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of

app = typer.Typer(
    help="List, add and remove access rules.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Word = TypeVar("Word", bound=IntEnum)

User = Annotated[
    str | None, typer.Option("--user", "-u", help="The user of the rule; '*' is everybody.")
]
Host = Annotated[str | None, typer.Option("--host", help="From which address; '*' is any.")]
Op = Annotated[
    list[str] | None,
    typer.Option("--operation", "-o", help="The operation, like read or write; repeatable."),
]
Topic = Annotated[str | None, typer.Option("--topic", "-t", help="Of this topic; '*' is all.")]
Group = Annotated[str | None, typer.Option("--group", "-g", help="Of this group; '*' is all.")]
TransactionalId = Annotated[
    str | None, typer.Option("--transactional-id", help="Of this id; '*' is all.")
]
OfCluster = Annotated[bool, typer.Option("--cluster", help="Of the cluster.")]
Prefixed = Annotated[bool, typer.Option("--prefixed", help="The name is a prefix.")]
Deny = Annotated[bool, typer.Option("--deny", help="A rule that forbids.")]

_COLUMNS = ("user", "host", "permission", "operation", "resource", "name", "pattern")


@app.command("list")
def list_acls(
    user: User = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the rules, or those that apply to a resource.

    \b
    josefine acls list
    josefine acls list --topic orders.eu
    """
    kind, name = _resource(topic, group, transactional_id, cluster=cluster)
    wanted = _filter(kind, name, PatternType.MATCH, user)
    with connect(bootstrap_of(bootstrap)) as client:
        found = _run(client, access_admin.describe_acls, wanted)
    _show(found, as_json=as_json)


@app.command()
def add(
    user: User = None,
    operation: Op = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Add a rule for each operation.

    \b
    josefine acls add --user alice --operation read --operation write --topic orders
    josefine acls add --user alice --operation read --group team- --prefixed
    """
    kind, name = _resource(topic, group, transactional_id, cluster=cluster)
    if user is None or not operation or name is None:
        raise UsageError(
            "a rule names --user, --operation and one of --topic, --group, --transactional-id,"
            " --cluster"
        )
    # One request for all operations, after all are parsed: a misspelt one adds no rule at all.
    acls = [
        Acl(
            kind,
            name,
            _pattern(prefixed=prefixed),
            f"User:{user}",
            host or WILDCARD,
            _word(Operation, each, (*OPERATIONS[kind], Operation.ALL)),
            Permission.DENY if deny else Permission.ALLOW,
        )
        for each in operation
    ]
    with connect(bootstrap_of(bootstrap)) as client:
        client.run(lambda s, t, d: access_admin.create_acls(s, acls, t, d))
    print(f"{plural(len(acls), 'rule')} added")


@app.command()
def remove(
    user: User = None,
    operation: Op = None,
    topic: Topic = None,
    group: Group = None,
    transactional_id: TransactionalId = None,
    cluster: OfCluster = False,
    prefixed: Prefixed = False,
    host: Host = None,
    deny: Deny = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    bootstrap: Bootstrap = None,
) -> None:
    """Remove the rules that match all options; without --prefixed only rules of literal names.

    \b
    josefine acls remove --user alice --topic orders
    """
    kind, name = _resource(topic, group, transactional_id, cluster=cluster)
    if user is None and name is None:
        raise UsageError("name the rules to remove: give --user or a resource")
    pattern = _pattern(prefixed=prefixed) if name is not None else PatternType.ANY
    operations = [_word(Operation, each, tuple(Operation)) for each in operation or ()]
    filters = [
        _filter(kind, name, pattern, user)._replace(
            host=host,
            operation=each,
            permission=Permission.DENY if deny else Permission.ANY,
        )
        for each in operations or [Operation.ANY]
    ]
    with connect(bootstrap_of(bootstrap)) as client:
        found = [acl for each in filters for acl in _run(client, access_admin.describe_acls, each)]
        if not found:
            print("no rule matches")
            return
        # The rules are listed before the question: a filter may match more than was meant.
        agree(f"remove {plural(len(found), 'rule')}: {'; '.join(map(_sentence, found))}?", yes,
              "removing rules")  # fmt: skip
        for each in filters:
            _run(client, access_admin.delete_acls, each)
    print(f"{plural(len(found), 'rule')} removed")


Asked = Callable[[Session, AclFilter, int, int], Operations[list[Acl]]]


def _run(client: BlockingClient, asked: Asked, wanted: AclFilter) -> list[Acl]:
    return client.run(lambda session, now_ms, end_ms: asked(session, wanted, now_ms, end_ms))


def _resource(
    topic: str | None, group: str | None, transactional_id: str | None, *, cluster: bool
) -> tuple[ResourceType, str | None]:
    """The resource; (ANY, None) if none is named. Raises UsageError for two of them."""
    named = [
        (kind, name)
        for kind, name in (
            (ResourceType.TOPIC, topic),
            (ResourceType.GROUP, group),
            (ResourceType.TRANSACTIONAL_ID, transactional_id),
            (ResourceType.CLUSTER, CLUSTER_NAME if cluster else None),
        )
        if name is not None
    ]
    if len(named) > 1:
        raise UsageError("name one resource at a time")
    return named[0] if named else (ResourceType.ANY, None)


def _filter(
    kind: ResourceType, name: str | None, pattern: PatternType, user: str | None
) -> AclFilter:
    principal = None if user is None else f"User:{user}"
    return AclFilter(kind, name, pattern, principal, None, Operation.ANY, Permission.ANY)


def _pattern(*, prefixed: bool) -> PatternType:
    return PatternType.PREFIXED if prefixed else PatternType.LITERAL


def _word(kind: type[Word], text: str, allowed: tuple[Word, ...]) -> Word:
    """Raises UsageError."""
    name = text.upper().replace("-", "_")
    for each in allowed:
        if each.name == name:
            return each
    words = ", ".join(_shown(each) for each in allowed if each.name != "ANY")
    raise UsageError(f"'{text}' is not a valid {kind.__name__.lower()} there: {words}")


def _shown(word: IntEnum) -> str:
    return word.name.lower().replace("_", "-")


def _sentence(acl: Acl) -> str:
    prefix = "*" if acl.pattern is PatternType.PREFIXED else ""
    what = f"{_shown(acl.operation)} {_shown(acl.resource_type)} {acl.name}{prefix}"
    return f"{_shown(acl.permission)} {acl.principal} {what}"


def _show(acls: list[Acl], *, as_json: bool) -> None:
    rows = [
        (
            acl.principal.removeprefix("User:"),
            acl.host,
            _shown(acl.permission),
            _shown(acl.operation),
            _shown(acl.resource_type),
            acl.name,
            _shown(acl.pattern),
        )
        for acl in acls
    ]
    if as_json:
        print_json([dict(zip(_COLUMNS, row, strict=True)) for row in rows])
    elif not rows:
        print("no rules")
    else:
        print_table(_COLUMNS, rows)
