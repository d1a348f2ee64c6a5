"""The commands `josefine pipeline lint | show | graph | schema`, which need only the file.

They need no Spark, no broker and no secret. Exit codes: 0 success, 2 usage, 78 invalid file.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.base.lazy_import import nothing_collected
from josefine_cli.base.rendering import render
from pipelines.base.errors import ConfigError, Problem
from pipelines.base.plurals import counted
from pipelines.model.pipeline import Pipeline

FILE = typer.Argument(help="The pipeline's YAML file.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON for scripts.")
ENVIRONMENT = typer.Option(
    None, "--env", help="One of the file's environments.", show_default=False, metavar="NAME"
)


def add_to(app: typer.Typer) -> None:
    """Register the verbs of this file before the existing ones."""
    for verb in (lint, show, graph, schema):
        app.command()(verb)


def lint(file: Path = FILE, environment: str | None = ENVIRONMENT, as_json: bool = JSON) -> None:
    """Check a file offline: words, references, folders, columns, settings of Spark and Delta.

    Without --env, as it is in none and in each of its environments.

    \b
    josefine pipeline lint orders.yaml
    josefine pipeline lint orders.yaml --env prod
    """
    try:
        with nothing_collected():
            from pipelines.lint.lint import lint_file

            examined = lint_file(file, os.environ, environment)
        if examined.problems:
            raise ConfigError(examined.problems)
    except ConfigError as error:
        refuse(error, as_json)
    pipeline = examined.pipeline
    from pipelines.lint.catalogs import catalog_notices
    from pipelines.lint.object_stores import store_notices

    # Not a refusal: only the user knows who else writes the tables, and what other files set.
    for problem in (*store_notices(pipeline), *catalog_notices(pipeline)):
        print(f"warning: {problem}", file=sys.stderr)
    sinks = {s.name: s.mode.value for s in pipeline.sinks.values()}
    if as_json:
        print_json({"ok": True, "name": pipeline.name, "sinks": sinks})
        return
    counts = {"source": pipeline.sources, "transform": pipeline.transforms, "sink": sinks}
    said = (counted(len(them), word) for word, them in counts.items())
    print(f"{file}: good ({', '.join(said)})")


def show(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    resolved: bool = typer.Option(
        False, "--resolved", help="With values where variables were; secrets stay references."
    ),
) -> None:
    """Print a file as it is in one environment.

    \b
    josefine pipeline show orders.yaml --env prod --resolved
    """
    from pipelines.base.variables import Variables
    from pipelines.config.loader import load_all
    from pipelines.config.show import as_yaml
    from pipelines.config.validate import read_text

    variables = Variables(env=os.environ, with_secrets=False, must_exist=resolved)
    loaded = load_all(read_text(file), str(file), variables, environment)
    if loaded.problems:
        raise ConfigError(loaded.problems)
    print(as_yaml(loaded.tree, resolved=resolved), end="")


def graph(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    mermaid: bool = typer.Option(False, "--mermaid", help="For Markdown pages; the default."),
    dot: bool = typer.Option(False, "--dot", help="For Graphviz."),
    svg: bool = typer.Option(False, "--svg", help="A picture."),
    live: bool = typer.Option(
        False, "--live", help="With how far each sink is now: asks brokers, logs and checkpoints."
    ),
) -> None:
    """Print the graph from sources to sinks.

    \b
    josefine pipeline graph orders.yaml
    josefine pipeline graph orders.yaml --svg > orders.svg
    josefine pipeline graph orders.yaml --live       # with the lag of each sink
    """
    if mermaid + dot + svg > 1:
        raise UsageError("--mermaid, --dot and --svg are three ways to print the same: take one")
    from pipelines.base.variables import Variables
    from pipelines.config.validate import examine, read_text
    from pipelines.inspect import graph as graphs

    draw = graphs.as_dot if dot else graphs.as_svg if svg else graphs.as_mermaid
    # Without secrets: a graph shows none, and must be possible where they are not available.
    variables = Variables(env=os.environ, with_secrets=False)
    examined = examine(read_text(file), str(file), variables, environment)
    if examined.problems:
        raise ConfigError(examined.problems)
    lines = _live(file, environment) if live else {}
    print(draw(graphs.graph_of(examined.pipeline, lines)), end="")


def _live(file: Path, environment: str | None) -> dict[str, str]:
    """Sink → its progress; secrets are sent only to the brokers."""
    pipeline = read(file, environment, as_json=False)
    from pipelines.inspect.status import status
    from pipelines.sources.at_once import look_at_once

    return {each.sink: each.in_short for each in status(pipeline, look_at_once)}


def schema() -> None:
    """Print the JSON Schema of pipeline files, for editors.

    \b
    josefine pipeline schema > pipeline.schema.json
    """
    from pipelines.config.json_schema import json_schema

    print(json.dumps(json_schema(), indent=2))


def read(file: Path, environment: str | None, as_json: bool) -> Pipeline:
    """The pipeline with its secrets, for callers that use it; prints the warnings of a run."""
    from pipelines.config.validate import read_pipeline
    from pipelines.lint.warnings import notices

    try:
        pipeline = read_pipeline(file, os.environ, environment)
    except ConfigError as error:
        refuse(error, as_json)
    for problem in notices(pipeline):
        print(problem, file=sys.stderr)
    return pipeline


def refuse(error: ConfigError, as_json: bool) -> NoReturn:
    """Every problem: one line each on stderr, or as JSON on stdout."""
    if not as_json:
        raise error
    print_json({"ok": False, "problems": [_to_json(each) for each in error.problems]})
    raise typer.Exit(error.exit_code)


def _to_json(problem: Problem) -> dict[str, Any]:
    return {
        "file": problem.place.file,
        "line": problem.place.line,
        "column": problem.place.column,
        "path": problem.path,
        "message": problem.message,
        "stops_run": problem.stops_run,
    }


def print_json(value: Any) -> None:
    """One line, for scripts, or YAML with `--output yaml`."""
    render(value, sort_keys=True)
