"""The command `josefine pipeline check FILE`: a preflight check of a run, without Spark.

It queries the brokers for topics, partitions and rights, and this machine for folders, tables and
Java. It writes nothing. Exit codes: 0 success, 78 invalid file, 79 another problem.
"""

from __future__ import annotations

import os
from pathlib import Path

import typer

from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON
from josefine_cli.pipeline.secrets import hiding, print_hidden_json, say
from pipelines.base.errors import EXIT_ENVIRONMENT


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(check)


def check(file: Path = FILE, environment: str | None = ENVIRONMENT, as_json: bool = JSON) -> None:
    """Ask brokers, folders and tables whether a run would find what it needs; starts no Spark.

    \b
    josefine pipeline check orders.yaml
    josefine pipeline check orders.yaml --env prod
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from pipelines.base.finding import ERROR
    from pipelines.inspect.preflight import findings
    from pipelines.inspect.preflight_probe import inquire

    with hiding(pipeline):
        found = findings(pipeline, inquire(pipeline, os.environ))
    well = not any(each.level == ERROR for each in found)
    if as_json:
        told = [each._asdict() for each in found]
        print_hidden_json(pipeline, {"ok": well, "name": pipeline.name, "findings": told})
    else:
        say(pipeline, "\n".join(map(str, found)))
    if not well:
        raise typer.Exit(EXIT_ENVIRONMENT)
