"""`josefine topics`: create, list, describe, alter and delete topics.

A deletion asks for confirmation on a terminal and needs `--yes` without one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.admin import BROKER_DEFAULT
from josefine_broker.client.cluster import NO_LEADER, TopicMetadata
from josefine_broker.client.io_blocking import EARLIEST, LATEST, BlockingClient, NewTopic
from josefine_broker.client.offsets import ListedOffset
from josefine_broker.client.operations import partition_error
from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import (
    JSON_HELP,
    agree,
    connect,
    plural,
    print_json,
    print_table,
)
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names
from josefine_cli.kafka.config_pairs import CONFIG_HELP, check_known, parse_configs

app = typer.Typer(
    help="Create, list, describe, alter and delete topics.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]
NewName = Annotated[str, typer.Argument(help="The topic.", metavar="name")]
Name = Annotated[str, typer.Argument(help="The topic.", autocompletion=topic_names)]
Names = Annotated[list[str], typer.Argument(help="One or more topics.", autocompletion=topic_names)]
Config = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="KEY=VALUE", help=CONFIG_HELP),
]


@app.command()
def create(
    name: NewName,
    partitions: Annotated[
        int | None, typer.Option("--partitions", "-p", min=1, help="Default: the broker's.")
    ] = None,
    replication_factor: Annotated[
        int | None, typer.Option("--replication-factor", min=1, help="Default: the broker's.")
    ] = None,
    config: Config = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Succeed when the topic is there already.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Create a topic.

    \b
    josefine topics create orders --partitions 6
    josefine topics create rates --config cleanup.policy=compact
    """
    topic = NewTopic(
        name,
        BROKER_DEFAULT if partitions is None else partitions,
        BROKER_DEFAULT if replication_factor is None else replication_factor,
        parse_configs(config),
    )
    with connect(bootstrap_of(bootstrap)) as client:
        # An existing topic keeps its partition count: the output has the real one, not the
        # requested one.
        created = True
        try:
            client.create_topics([topic])
        except KafkaError as error:
            if error.code is not ErrorCode.topic_already_exists or not if_not_exists:
                raise
            created = False
        count = client.partition_count(name)
    if as_json:
        print_json({"topic": name, "created": created, "partitions": count})
    else:
        what = "created" if created else "exists already:"
        print(f"{what} {name} with {plural(count, 'partition')}")


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Internal topics, too.")] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """List the topics.

    \b
    josefine topics list
    """
    with connect(bootstrap_of(bootstrap)) as client:
        found = client.metadata().topics.values()
    topics = sorted((t for t in found if internal or not t.is_internal), key=lambda t: t.name)
    if as_json:
        print_json([_summary(topic) for topic in topics])
    elif not topics:
        print("no topics")
    else:
        rows = [(t.name, len(t.partitions), _replication(t), str(t.topic_id)) for t in topics]
        print_table(("topic", "partitions", "replicas", "id"), rows)


@app.command()
def describe(
    names: Names,
    all_configs: Annotated[
        bool, typer.Option("--all-configs", help="Configurations left at their default, too.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Show partitions, offsets and configuration of topics.

    \b
    josefine topics describe orders
    josefine topics describe orders --all-configs --json
    """
    with connect(bootstrap_of(bootstrap)) as client:
        described = [_description(client, name, all_configs) for name in names]
    if as_json:
        print_json(described[0] if len(described) == 1 else described)
        return
    for topic in described:
        print(f"{topic['topic']}: {plural(len(topic['partitions']), 'partition')}, {topic['id']}")
        columns = ("partition", "leader", "epoch", "replicas", "isr", "earliest", "latest")
        print_table(columns, [_partition_row(p) for p in topic["partitions"]])
        if topic["configs"]:
            print_table(("configuration", "value"), sorted(topic["configs"].items()))


@app.command()
def alter(
    name: Name,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", min=1, help="New total; it can only grow."),
    ] = None,
    config: Config = None,
    reset_config: Annotated[
        list[str] | None,
        typer.Option("--reset-config", metavar="KEY", help="Back to the default; repeatable."),
    ] = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Add partitions, set or reset configurations.

    \b
    josefine topics alter orders --config retention.ms=7d
    josefine topics alter orders --partitions 12
    """
    changes: dict[str, str | None] = {**parse_configs(config)}
    changes |= dict.fromkeys(reset_config or (), None)
    if partitions is None and not changes:
        raise UsageError("nothing to alter: give --partitions, --config or --reset-config")
    with connect(bootstrap_of(bootstrap)) as client:
        # Checked here: a broker accepts the reset of any name. Configurations go first, because
        # partitions that were added before a refused one could not be taken away again.
        if reset_config:
            check_known(reset_config, client.describe_configs([name])[name], "--reset-config ")
        if changes:
            client.alter_configs({name: changes})
        if partitions is not None:
            client.create_partitions({name: partitions})
        count = client.partition_count(name)
    if as_json:
        print_json({"topic": name, "partitions": count, "changed_configs": changes})
    else:
        print(f"altered {name}: {plural(count, 'partition')}, {plural(len(changes), 'config')}")


@app.command()
def delete(
    names: Names,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed when a topic is not there.")
    ] = False,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete topics and all their records.

    \b
    josefine topics delete orders --yes
    """
    agree(f"Delete {', '.join(names)} and all records?", yes, "deleting")
    deleted = []
    with connect(bootstrap_of(bootstrap)) as client:
        for name in names:
            try:
                client.delete_topics([name])
                deleted.append(name)
            except KafkaError as error:
                if error.code is not ErrorCode.unknown_topic_or_partition or not if_exists:
                    if deleted:
                        _tell_deleted(deleted, as_json)
                    raise
    _tell_deleted(deleted, as_json)


def _tell_deleted(deleted: list[str], as_json: bool) -> None:
    if as_json:
        print_json({"deleted": deleted})
    else:
        print(f"deleted {', '.join(deleted)}" if deleted else "nothing to delete")


def _replication(topic: TopicMetadata) -> int:
    return max((len(p.replicas) for p in topic.partitions.values()), default=0)


def _summary(topic: TopicMetadata) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": str(topic.topic_id) if topic.topic_id else None,
        "partitions": len(topic.partitions),
        "replicas": _replication(topic),
        "internal": topic.is_internal,
    }


def _description(client: BlockingClient, name: str, all_configs: bool) -> dict[str, Any]:
    client.partition_count(name)
    topic = client.metadata([name]).topics[name]
    if topic.error_code is not ErrorCode.none:
        raise partition_error(TopicPartition(name, 0), topic.error_code, None)
    # A partition without a leader has no offsets: ListOffsets would fail for all of them.
    led = [
        TopicPartition(name, p.partition)
        for p in topic.partitions.values()
        if p.leader != NO_LEADER
    ]
    earliest = client.list_offsets(dict.fromkeys(led, EARLIEST))
    latest = client.list_offsets(dict.fromkeys(led, LATEST))
    configs = client.describe_configs([name])[name]
    return {
        "topic": name,
        "id": str(topic.topic_id) if topic.topic_id else None,
        "internal": topic.is_internal,
        "partitions": [
            {
                "partition": p.partition,
                "leader": p.leader,
                "leader_epoch": p.leader_epoch,
                "replicas": list(p.replicas),
                "isr": list(p.isr),
                "earliest": _offset_in(earliest, TopicPartition(name, p.partition)),
                "latest": _offset_in(latest, TopicPartition(name, p.partition)),
            }
            for p in topic.partitions.values()
        ],
        "configs": {
            entry.name: entry.value
            for entry in configs.values()
            if all_configs or not entry.is_default
        },
    }


def _offset_in(found: Mapping[TopicPartition, ListedOffset], tp: TopicPartition) -> int | None:
    """The offset; None if the partition has no leader."""
    return found[tp].offset if tp in found else None


def _partition_row(partition: dict[str, Any]) -> tuple[Any, ...]:
    is_led = partition["leader"] != NO_LEADER
    return (
        partition["partition"],
        partition["leader"] if is_led else "offline",
        partition["leader_epoch"],
        ",".join(map(str, partition["replicas"])),
        ",".join(map(str, partition["isr"])),
        partition["earliest"] if is_led else "",
        partition["latest"] if is_led else "",
    )
