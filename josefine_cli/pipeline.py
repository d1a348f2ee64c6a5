"""`josefine pipeline lint | plan | run FILE`: check and run pipelines written in YAML.

Exit codes: 0 well, 1 the run failed, 2 usage, 78 the file is wrong, 79 the machine is not ready.
Results go to stdout (JSON with --json), progress and errors to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from pipelines.errors import ConfigError
from pipelines.folders import refuse_unwritable
from pipelines.messages import counted
from pipelines.model import Pipeline
from pipelines.reconcile import Trust
from pipelines.validate import read_pipeline

if TYPE_CHECKING:
    from pipelines.run import RunResult

app = typer.Typer(
    help="Check and run pipelines written in YAML.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


class Side(Enum):
    """What --trust takes."""

    TABLE = Trust.TABLE.value
    CHECKPOINT = Trust.CHECKPOINT.value


FILE = typer.Argument(help="The pipeline's YAML file.", show_default=False)
JSON = typer.Option(False, "--json", help="Print JSON for scripts.")
TRUST = typer.Option(
    None,
    "--trust",
    help="Which side is right when table and checkpoint disagree.",
    show_default=False,
)


@app.command()
def lint(file: Path = FILE, as_json: bool = JSON) -> None:
    """Check a file's words, types and references offline. SQL and columns are checked by `plan`."""
    pipeline = _read(file, as_json)
    sinks = {s.name: "merge" if s.merges else "append" for s in pipeline.sinks.values()}
    if as_json:
        _print_json({"ok": True, "name": pipeline.name, "sinks": sinks})
        return
    counts = {"source": pipeline.sources, "transform": pipeline.transforms, "sink": sinks}
    said = (counted(len(them), word) for word, them in counts.items())
    print(f"{file}: good ({', '.join(said)})")


@app.command()
def plan(file: Path = FILE, as_json: bool = JSON) -> None:
    """Build every table's query without reading anything; print what would be written where."""
    pipeline = _read(file, as_json)
    from pipelines.jvm import stop_session
    from pipelines.plan import plan as build
    from pipelines.run import start_session

    spark = start_session(pipeline)
    try:
        planned = build(spark, pipeline)
    except ConfigError as error:
        _refuse(error, as_json)
    finally:
        stop_session(spark)
    if as_json:
        _print_json({"ok": True, "name": pipeline.name, "sinks": [p.to_json() for p in planned]})
        return
    for sink in planned:
        path = " -> ".join([sink.source, *sink.transforms, sink.table])
        by = f" by {', '.join(sink.keys)}" if sink.keys else ""
        print(f"{sink.name}: {path} ({sink.mode}{by})")
        for name, kind in sink.columns:
            print(f"    {name:<24} {kind}")
        if sink.dead_letters:
            print(f"    dead letters -> {sink.dead_letters}")
        print(f"    checkpoint   -> {sink.checkpoint}")


@app.command()
def run(
    file: Path = FILE,
    trust: Side | None = TRUST,
    as_json: bool = JSON,
) -> None:
    """Run a pipeline: until everything there now is read, or until Ctrl-C when it says `every`."""
    pipeline = _read(file, as_json)
    refuse_unwritable(pipeline, os.environ)
    from rich.console import Console

    from pipelines.jvm import stop_session
    from pipelines.progress import reporter_for
    from pipelines.run import arm_failpoints, run_pipeline, start_session

    stop = threading.Event()
    # A descriptor of its own: while Spark starts, the process's stderr is lent to the JVM.
    with os.fdopen(os.dup(2), "w") as err, reporter_for(Console(file=err)) as reporter:
        reporter.starting("Spark")
        spark = start_session(pipeline)
        try:
            arm_failpoints(spark)
            # After Spark, which takes SIGINT for itself when its context starts.
            _stop_on_signals(stop)
            side = Trust(trust.value) if trust else Trust.NEITHER
            result = run_pipeline(spark, pipeline, reporter, trust=side, stop=stop)
        finally:
            stop_session(spark)
    _summary(pipeline, result, as_json)


def _read(file: Path, as_json: bool) -> Pipeline:
    try:
        return read_pipeline(file, os.environ)
    except ConfigError as error:
        _refuse(error, as_json)
        raise AssertionError("unreachable") from error


def _refuse(error: ConfigError, as_json: bool) -> None:
    """Every problem: one line each on stderr, or as JSON on stdout."""
    if not as_json:
        raise error
    problems = [
        {
            "file": p.place.file,
            "line": p.place.line,
            "column": p.place.column,
            "path": p.path,
            "message": p.message,
        }
        for p in error.problems
    ]
    _print_json({"ok": False, "problems": problems})
    raise typer.Exit(error.exit_code)


def _stop_on_signals(stop: threading.Event) -> None:
    """The first Ctrl-C or SIGTERM ends the run after the batch under way; a second one at once."""

    def ask(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ask)


def _summary(pipeline: Pipeline, result: RunResult, as_json: bool) -> None:
    from josefine_spark.topic_offsets import nested

    if as_json:
        sinks: dict[str, Any] = {
            name: {
                "records": totals.records,
                "rows": totals.rows,
                "dead_letters": totals.dead_letters,
                "batches": totals.batches,
                "seconds": round(totals.seconds, 3),
                "ends": nested(totals.ends),
                "path": totals.path,
            }
            for name, totals in result.sinks.items()
        }
        seconds = round(result.seconds, 3)
        _print_json(
            {
                "name": pipeline.name,
                "seconds": seconds,
                "interrupted": result.interrupted,
                "sinks": sinks,
            }
        )
        return
    how = "stopped on request" if result.interrupted else "done"
    print(f"{pipeline.name}: {how} after {result.seconds:.1f} s")
    for name, totals in result.sinks.items():
        rate = totals.records / totals.seconds if totals.seconds else 0.0
        wrote = "merged" if pipeline.sinks[name].merges else "appended"
        line = f"  {name}: {counted(totals.records, 'record')} read"
        line += f", {counted(totals.rows, 'row')} {wrote}"
        line += f" in {counted(totals.batches, 'batch', 'batches')}, {rate:,.0f} records/s"
        print(line)
        if totals.dead_letters:
            dead = counted(totals.dead_letters, "dead letter")
            print(f"    {dead} in {pipeline.dead_letter_path}")
        print(f"    {totals.path}{_reached(nested(totals.ends))}")


def _reached(ends: dict[str, dict[str, int]]) -> str:
    return f" reached {json.dumps(ends)}" if ends else ": nothing new"


def _print_json(value: Any) -> None:
    print(json.dumps(value, sort_keys=True))
