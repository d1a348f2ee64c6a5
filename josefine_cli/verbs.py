"""The table of the `josefine` command's verbs; each module is loaded when its verb is used."""

from __future__ import annotations

import difflib
import importlib
import os
from typing import Any

import typer
import typer.main
from typer.core import TyperGroup

from josefine_cli.base import errors
from josefine_cli.base.lazy_import import nothing_collected
from josefine_cli.base.profiles import use_profile
from josefine_cli.base.rendering import add_output

VERBS: dict[str, tuple[str, str]] = {
    "broker": ("josefine_cli.broker.command", "Run one broker in the foreground."),
    "topics": ("josefine_cli.kafka.topics", "Create, list, describe, alter and delete topics."),
    "produce": ("josefine_cli.kafka.produce", "Write records from a file or stdin to a topic."),
    "consume": ("josefine_cli.kafka.consume", "Read records of a topic, by offsets or by time."),
    "groups": (
        "josefine_cli.kafka.groups",
        "List and describe consumer groups, move their offsets, delete them.",
    ),
    "journal": (
        "josefine_cli.journal.command",
        "Append to, read, delete from and purge journals of events in a topic.",
    ),
    "transactions": (
        "josefine_cli.kafka.transactions",
        "List and describe transactions, find hanging ones, end one of them.",
    ),
    "sinks": (
        "josefine_cli.kafka.sinks",
        "List Spark's exactly-once sinks, settle or forget a decision.",
    ),
    "users": ("josefine_cli.kafka.users", "List users, set their passwords, remove them."),
    "acls": ("josefine_cli.kafka.acls", "List, add and remove access rules."),
    "quotas": ("josefine_cli.kafka.quotas", "List, set and remove quotas of clients."),
    "features": ("josefine_cli.kafka.features", "List, raise and lower the levels of features."),
    "cluster": (
        "josefine_cli.cluster.command",
        "Run a local cluster; inspect and change any cluster.",
    ),
    "dashboard": (
        "josefine_cli.dashboard.command",
        "Show a live view of a cluster in a browser.",
    ),
    "delete-records": (
        "josefine_cli.kafka.delete_records",
        "Drop the oldest records of partitions.",
    ),
    "log-dirs": ("josefine_cli.kafka.log_dirs", "List what each broker stores, with sizes."),
    "configs": (
        "josefine_cli.kafka.configs",
        "Describe, set and remove configurations of topics and brokers.",
    ),
    "config": ("josefine_cli.broker.config", "Check a broker's configuration without starting it."),
    "completion": ("josefine_cli.completion", "Let a shell complete this command."),
    "doctor": (
        "josefine_cli.broker.doctor",
        "Check this machine for a broker, and report what to fix.",
    ),
    "debug": ("josefine_cli.kafka.debug", "Collect what a report of a problem needs."),
    "bench": ("josefine_cli.dev.bench", "Measure the throughput of writes and reads."),
    "perf": ("josefine_cli.dev.perf", "Show where a running broker's time goes."),
    "text": ("josefine_cli.kafka.text", "Send lines of the text protocol to a broker."),
    "log": (
        "josefine_cli.broker.log",
        "Verify a broker's logs against their checksums, and repair them.",
    ),
    "demo": ("josefine_cli.dev.demo", "Run the main job on real data and check the result."),
    "archive": ("josefine_cli.archive.command", "Keep every record of topics; show archives."),
    "mirror": ("josefine_cli.mirror.command", "Copy topics from Kafka with the same offsets."),
    "tables": ("josefine_cli.tables.command", "Keep Delta tables of topics; show their state."),
    "sql": ("josefine_cli.sql.command", "Query topics and their tables with SQL, without Spark."),
    "pipeline": ("josefine_cli.pipeline.command", "Check and run pipelines written in YAML."),
}
"""Verb → (module with `app: typer.Typer`, one line of help). Literal, so that it can be grepped."""


STREAMS_RECORDS = ("consume", "produce")
"""Verbs whose lines are records, in the format of `--format`; they have no `--output`."""


class LazyGroup(TyperGroup):
    """A group that imports a verb's module when the verb is invoked or its help is requested.

    Contexts and commands are `Any`: typer has its own copy of click from 0.27 on, so their classes
    have no name that is valid for every version.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in VERBS:
            return None
        with nothing_collected():
            module = importlib.import_module(VERBS[cmd_name][0])
            command = typer.main.get_command(module.app)
        command.name = cmd_name
        if cmd_name not in STREAMS_RECORDS:
            add_output(command)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and not args[0].startswith("-") and args[0] not in VERBS:
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"there are {', '.join(VERBS)}"
            raise errors.UsageError(f"no command '{args[0]}': {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in VERBS.items()])


app = typer.Typer(
    cls=LazyGroup,
    help="Brokers that speak Kafka, and exactly-once pipelines into Delta tables.",
    rich_markup_mode=None,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def josefine(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", help="Print the version and exit."),
    client_config: str | None = typer.Option(
        None,
        "--client-config",
        metavar="FILE",
        help="Settings of Kafka's clients for a protected broker, name=value a line"
        " (security.protocol, ssl.ca.location …); else the file that JOSEFINE_CLIENT_CONFIG names.",
    ),
    profile: str | None = typer.Option(
        None,
        "--profile",
        metavar="NAME",
        help="A profile of ~/.config/josefine/config.toml: brokers, admin address and login; else"
        " the one that JOSEFINE_PROFILE names, else the file's default.",
    ),
) -> None:
    """Answer `--version`, or print the help where no command is named."""
    if profile is not None:
        use_profile(profile, os.environ)
    if client_config is not None:
        os.environ[errors.CLIENT_CONFIG] = client_config
    if version:
        print(f"josefine {_version()}")
    elif context.invoked_subcommand is None:
        print(context.get_help())
        raise typer.Exit(errors.EXIT_USAGE)


def _version() -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed_version

    try:
        return installed_version("josefine")
    except PackageNotFoundError:
        return "(not installed)"
