"""The `josefine` command's front door: names each verb and loads its module only when it is used.

Every user error ends here as one sentence on stderr and a non-zero exit, never a stack trace.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click
import typer.main
from typer.core import TyperGroup

VERBS: dict[str, tuple[str, str]] = {
    "broker": ("josefine_cli.broker", "Run one broker in the foreground."),
    "topics": ("josefine_cli.topics", "Create, list, describe, alter and delete topics."),
    "produce": ("josefine_cli.produce", "Write records from a file or stdin to a topic."),
    "consume": ("josefine_cli.consume", "Read records of a topic, by offsets or by time."),
    "demo": ("josefine_cli.demo", "Run the main job on real data and check what landed."),
    "pipeline": ("josefine_cli.pipeline", "Check and run pipelines written in YAML."),
}
"""Verb → (module with `app: typer.Typer`, one line of help). Literal, so that it can be grepped."""


class LazyGroup(TyperGroup):
    """A click group that imports a verb's module when the verb is invoked or its help asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(VERBS[cmd_name][0])
        command = typer.main.get_command(module.app)
        command.name = cmd_name
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, help_line) in VERBS.items()])
