"""`josefine groups top`: groups by their lag, with how fast each reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer

from josefine_broker.client import group_admin
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UserError
from josefine_cli.base.output import connect
from josefine_cli.base.top import EVERY_S, Every, Looks, Reading, watch_readers
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import group_names
from josefine_cli.kafka.group_description import description_of


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(top)


def top(
    groups: list[str] | None = typer.Argument(
        None, help="Groups; default: all.", autocompletion=group_names
    ),
    every: Every = EVERY_S,
    looks: Looks = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show groups by their lag, how fast each reads and when it is done, until Ctrl-C.

    \b
    josefine groups top
    josefine groups top readers --every 5 --json
    """
    with connect(bootstrap_of(bootstrap)) as client:
        watch_readers(lambda: _look(client, groups or ()), every, looks, as_json=as_json)


def _look(client: BlockingClient, names: list[str] | tuple[()]) -> Mapping[str, Reading]:
    wanted = names or [
        each.group for each in client.run(lambda s, t, d: group_admin.list_groups(s, (), t, d))
    ]
    found = {}
    for name in wanted:
        try:
            described = description_of(client, name)
        except UserError:
            if names:
                raise
            continue  # it ended between the list and this question
        found[name] = reading_of(described)
    return found


def reading_of(described: Mapping[str, Any]) -> Reading:
    """The progress of a group, by its description; a partition without a commit has read 0."""
    read = sum(each["committed"] or 0 for each in described["partitions"])
    return Reading(state=described["state"], read=read, lag=described["lag"])
