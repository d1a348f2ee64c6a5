"""`josefine configs`: the configuration of topics, groups and brokers, the source of each value,
and whether it can change while a broker runs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from josefine_broker.client import config_admin
from josefine_broker.client.admin import RESOURCE_TOPIC
from josefine_broker.client.config_admin import RESOURCE_BROKER, RESOURCE_GROUP
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import connect, plural, print_json, print_table
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import group_names, topic_names
from josefine_cli.kafka.config_pairs import check_known, parse_configs

app = typer.Typer(
    help="Describe, set and remove configurations of topics, groups and brokers.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", help="Of this topic.", autocompletion=topic_names)
]
Broker = Annotated[int | None, typer.Option("--broker", min=0, help="Of this broker.")]
Group = Annotated[
    str | None, typer.Option("--group", "-g", help="Of this group.", autocompletion=group_names)
]
Pairs = Annotated[
    list[str], typer.Argument(help="Times (.ms) also like 7d.", metavar="NAME=VALUE...")
]
Keys = Annotated[list[str], typer.Argument(help="Names to reset.", metavar="NAME...")]


@app.command()
def describe(
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    all_values: Annotated[bool, typer.Option("--all", help="Defaults, too.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show the configuration that is not at its default.

    \b
    josefine configs describe --topic orders --all
    josefine configs describe --broker 1
    josefine configs describe --group workers --all
    """
    kind, name, label = _resource(topic, broker, group)
    with connect(bootstrap_of(bootstrap)) as client:
        if kind == RESOURCE_BROKER:
            _check_broker(int(name), {each.broker_id for each in client.describe_cluster().brokers})
        found = client.run(lambda s, t, d: config_admin.describe_resource(s, kind, name, t, d))
    # Dozens of them are at their defaults, and hide the few that somebody has chosen.
    shown = [each for each in found if all_values or not each.is_default]
    if as_json:
        print_json([asdict(each) for each in shown])
    elif not shown:
        print(f"{label} has defaults alone; --all shows them")
    else:
        rows = [
            (each.name, each.value, each.source, "yes" if each.may_change else "at a start")
            for each in shown
        ]
        print_table(("configuration", "value", "from", "may change"), rows)


@app.command("set")
def set_configs(
    pairs: Pairs,
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Set the named configurations, and leave the others unchanged.

    \b
    josefine configs set --topic orders retention.ms=7d cleanup.policy=compact
    josefine configs set --group workers share.auto.offset.reset=earliest
    """
    kind, name, label = _resource(topic, broker, group)
    changes: dict[str, str | None] = {**parse_configs(pairs, "")}
    with connect(bootstrap_of(bootstrap)) as client:
        client.run(lambda s, t, d: config_admin.alter_resource(s, kind, name, changes, t, d))
    print(f"{label}: {plural(len(changes), 'configuration')} set")


@app.command()
def remove(
    names: Keys,
    topic: Topic = None,
    broker: Broker = None,
    group: Group = None,
    bootstrap: Bootstrap = None,
) -> None:
    """Reset to the defaults.

    \b
    josefine configs remove --topic orders retention.ms
    """
    kind, name, label = _resource(topic, broker, group)
    if kind == RESOURCE_BROKER:
        raise UsageError("a broker's settings are in its file: they cannot be removed here")
    changes: dict[str, str | None] = dict.fromkeys(names)
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.run(lambda s, t, d: config_admin.describe_resource(s, kind, name, t, d))
        check_known(names, (each.name for each in found), "", label.partition(" ")[0])
        client.run(lambda s, t, d: config_admin.alter_resource(s, kind, name, changes, t, d))
    print(f"{label}: {plural(len(changes), 'configuration')} back to the default")


def _resource(topic: str | None, broker: int | None, group: str | None) -> tuple[int, str, str]:
    """The resource's type, its name, and both in words. Raises UsageError."""
    if sum(each is not None for each in (topic, broker, group)) != 1:
        raise UsageError("name one of --topic, --broker and --group")
    if group is not None:
        return RESOURCE_GROUP, group, f"group {group}"
    if topic is not None:
        return RESOURCE_TOPIC, topic, f"topic {topic}"
    return RESOURCE_BROKER, str(broker), f"broker {broker}"


def _check_broker(broker: int, known: set[int]) -> None:
    """Raises UsageError."""
    if broker not in known:
        there = ", ".join(map(str, sorted(known)))
        raise UsageError(f"there is no broker {broker}: there are {there}")
