"""Completion of topic and group names in a shell, from the brokers that the line names.

A shell must not hang or show errors: brokers that do not answer at once complete nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.tls_files import TlsError
from josefine_broker.client import group_admin
from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import connect
from josefine_cli.cluster.target import bootstrap_of

AT_ONCE = Policy(bootstrap_timeout_ms=500, request_timeout_ms=1_500)


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    """The topics that begin so; internal ones only if the word does."""
    names = _names(context, lambda client: client.metadata().topics)
    return fitting(names, incomplete)


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """The groups that begin so."""
    return fitting(_names(context, _groups), incomplete)


def _groups(client: BlockingClient) -> list[str]:
    found = client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d))
    return [each.group for each in found]


def _names(context: typer.Context, ask: Callable[[BlockingClient], Iterable[str]]) -> Iterable[str]:
    try:
        with connect(bootstrap_of(context.params.get("bootstrap")), AT_ONCE) as client:
            return ask(client)
    except (KafkaError, OSError, TlsError, UserError):
        return ()


def fitting(names: Iterable[str], incomplete: str) -> list[str]:
    """The names that begin so, sorted; internal ones only if the word is one's beginning."""
    is_internal = incomplete.startswith("__")
    return sorted(
        name
        for name in names
        if name.startswith(incomplete) and (is_internal or not name.startswith("__"))
    )
