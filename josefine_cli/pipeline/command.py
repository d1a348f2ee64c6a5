"""The commands `josefine pipeline plan | test FILE`, which build the file's queries.

Exit codes: 0 success, 1 the run failed, 2 usage, 78 invalid file, 79 the machine is not ready.
Results go to stdout (JSON with --json), progress and errors to stderr. No secret is printed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import typer

from josefine_cli.pipeline import (
    check,
    deploy,
    dev,
    dlq,
    export,
    init,
    offsets,
    preview,
    run,
    status,
)
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON
from josefine_cli.pipeline.secrets import hiding, print_hidden_json, say
from pipelines.base.errors import EXIT_FAILED, ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.model.pipeline import Pipeline

T = TypeVar("T")

app = typer.Typer(
    help="Check and run pipelines written in YAML.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


init.add_to(app)
pipeline_file.add_to(app)
check.add_to(app)
preview.add_to(app)


@app.command()
def plan(file: Path = FILE, environment: str | None = ENVIRONMENT, as_json: bool = JSON) -> None:
    """Build every table's query without reading anything; print what would be written where.

    \b
    josefine pipeline plan orders.yaml
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from pipelines.inspect.plan import plan as build

    planned = _in_session(pipeline, as_json, build)
    if as_json:
        sinks = [p.to_json() for p in planned]
        print_hidden_json(pipeline, {"ok": True, "name": pipeline.name, "sinks": sinks})
        return
    tell = partial(say, pipeline)
    for sink in planned:
        path = " -> ".join([sink.source, *sink.transforms, sink.table])
        by = f" by {', '.join(sink.keys)}" if sink.keys else ""
        tell(f"{sink.name}: {path} ({sink.mode}{by})")
        for name, kind in sink.columns:
            tell(f"    {name:<24} {kind}")
        for name, node, expr, action in sink.checks:
            tell(f"    check {name} of {node}: {' '.join(expr.split())} ({action})")
        if sink.dead_letters:
            tell(f"    dead letters -> {sink.dead_letters}")
        tell(f"    checkpoint   -> {sink.checkpoint}")


@app.command("test")
def try_out(file: Path = FILE, environment: str | None = ENVIRONMENT, as_json: bool = JSON) -> None:
    """Run the file's tests: given records through its SQL, against expected rows. No broker.

    \b
    josefine pipeline test orders.yaml
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from pipelines.inspect.file_tests import lines, run_cases

    outcomes = _in_session(pipeline, as_json, run_cases)
    well = not any(each.complaints for each in outcomes)
    if as_json:
        tests = [each.to_json() for each in outcomes]
        print_hidden_json(pipeline, {"ok": well, "name": pipeline.name, "tests": tests})
    else:
        say(pipeline, "\n".join(lines(str(file), outcomes)))
    if not well:
        raise typer.Exit(EXIT_FAILED)


def _in_session(
    pipeline: Pipeline, as_json: bool, do: Callable[[SparkSession, Pipeline], list[T]]
) -> list[T]:
    """What `do` returns, with a Spark session of the file."""
    from pipelines.run.session import session_of

    # Spark's errors may quote settings, and so secrets.
    with hiding(pipeline):
        try:
            with session_of(pipeline) as spark:
                return do(spark, pipeline)
        except ConfigError as error:
            pipeline_file.refuse(error, as_json)


dev.add_to(app)
run.add_to(app)
deploy.add_to(app)
status.add_to(app)
export.add_to(app)
app.add_typer(offsets.app, name="offsets")
app.add_typer(dlq.app, name="dlq")
