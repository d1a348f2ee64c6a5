"""The page of access: ACLs, users and quotas, read-only. Blocking."""

from __future__ import annotations

from typing import Any

from josefine_broker.base.acls import AclFilter, Operation, PatternType, Permission, ResourceType
from josefine_broker.client import access_admin, quota_admin
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.dashboard.topic_page import part

EVERY_RULE = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
)

Json = dict[str, Any]


def access_page(client: BlockingClient) -> Json:
    """{"acls", "users", "quotas"}; a part that was refused is {"error": sentence}. Users have
    mechanisms and iterations, never a key."""
    return {
        "acls": part(lambda: _acls(client)),
        "users": part(lambda: _users(client)),
        "quotas": part(lambda: _quotas(client)),
    }


def _acls(client: BlockingClient) -> list[Json]:
    found = client.run(lambda s, t, d: access_admin.describe_acls(s, EVERY_RULE, t, d))
    return [
        {
            "principal": acl.principal,
            "host": acl.host,
            "permission": acl.permission.name.lower(),
            "operation": acl.operation.name.lower().replace("_", " "),
            "resource": acl.resource_type.name.lower().replace("_", " "),
            "name": acl.name,
            "pattern": acl.pattern.name.lower(),
        }
        for acl in found
    ]


def _users(client: BlockingClient) -> list[Json]:
    found = client.run(access_admin.describe_users)
    return [
        {"user": user, "mechanism": mechanism, "iterations": iterations}
        for user, mechanisms in found.items()
        for mechanism, iterations in mechanisms.items()
    ]


def _quotas(client: BlockingClient) -> list[Json]:
    """A name of None: the quota is not for it; an empty one is the default of all."""
    found = client.run(quota_admin.describe_quotas)
    return [
        {"user": entity.user, "client_id": entity.client_id, "bounds": dict(bounds)}
        for entity, bounds in found.items()
    ]
