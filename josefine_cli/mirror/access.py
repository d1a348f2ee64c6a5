"""The access rules of mirrored topics and of their groups."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from josefine_broker.base.acls import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client import access_admin
from josefine_broker.client.effects import Operation as Steps
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.session import Session
from josefine_cli.mirror.cutover import matching_groups


def acls_of(client: BlockingClient, topics: Iterable[str], groups: Iterable[str]) -> list[Acl]:
    """Every rule of the cluster that matches one of these topics, or a group that is there and has
    one of these patterns; rules for all names and for prefixes, too. Raises KafkaError."""
    wanted = [(ResourceType.TOPIC, topic) for topic in topics]
    wanted += [(ResourceType.GROUP, group) for group in matching_groups(client, groups)]
    found: dict[Acl, None] = {}
    for kind, name in wanted:
        try:
            rules = client.run(partial(_described, kind, name))
        except KafkaError as error:
            if error.code is ErrorCode.security_disabled:
                return []  # the cluster has no access control
            raise
        found.update(dict.fromkeys(rules))
    return sorted(found)


def add_acls(client: BlockingClient, acls: list[Acl]) -> None:
    """Add the rules; one that is there is no error. Raises KafkaError."""
    client.run(partial(_created, acls))


def _described(
    kind: ResourceType, name: str, session: Session, now_ms: int, deadline_ms: int
) -> Steps[list[Acl]]:
    any_of = AclFilter(
        kind, name, PatternType.MATCH, None, None, Operation.ANY, Permission.ANY
    )  # fmt: skip
    return access_admin.describe_acls(session, any_of, now_ms, deadline_ms)


def _created(acls: list[Acl], session: Session, now_ms: int, deadline_ms: int) -> Steps[None]:
    return access_admin.create_acls(session, acls, now_ms, deadline_ms)
