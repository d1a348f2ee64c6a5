"""`josefine pipeline run FILE`: until its input ends, or somebody ends it.

Exit codes: 0 well, 1 it or one of its sinks failed, 2 usage, 78 the file is wrong, 79 the machine
is not ready. Results go to stdout (JSON with --json), progress and errors to stderr.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from josefine_cli import pipeline_file
from josefine_cli.pipeline_file import ENVIRONMENT, FILE, JSON
from josefine_cli.pipeline_secrets import hiding, print_hidden_json, say
from pipelines.counting import counted
from pipelines.folders import refuse_unwritable
from pipelines.model import Mode, Pipeline

if TYPE_CHECKING:
    from pipelines.tally import RunResult
    from pipelines.wishes import Wishes

_WROTE = {
    Mode.APPEND: "appended",
    Mode.MERGE: "merged",
    Mode.UPSERT: "changed",
    Mode.SCD2: "changed",
}


class OnDataLoss(Enum):
    """What --on-data-loss takes."""

    SKIP_AND_RECORD = "skip_and_record"


class Side(Enum):
    """What --trust takes."""

    TABLE = "table"
    CHECKPOINT = "checkpoint"


TRUST = typer.Option(
    None,
    "--trust",
    help="Which side is right when table and checkpoint disagree.",
    show_default=False,
)

RENAME = typer.Option(
    None,
    "--rename",
    metavar="OLD=NEW",
    help="A sink, a source or the pipeline has a new name: go on where the old one ended.",
    show_default=False,
)
NEW_CHAIN = typer.Option(
    None,
    "--new-chain",
    metavar="SINK",
    help="Begin this sink in a table that has other rows of its topics.",
    show_default=False,
)
ON_DATA_LOSS = typer.Option(
    None,
    "--on-data-loss",
    help="Record what the topics have lost and go on behind it, this once.",
    show_default=False,
)

AVAILABLE_NOW = typer.Option(
    False,
    "--available-now",
    help="End when what is there now is read, whatever the file's `trigger` says.",
)


def add_to(app: typer.Typer) -> None:
    """Put the verb behind those that are there."""
    app.command()(run)


def run(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    trust: Side | None = TRUST,
    rename: list[str] | None = RENAME,
    new_chain: list[str] | None = NEW_CHAIN,
    on_data_loss: OnDataLoss | None = ON_DATA_LOSS,
    available_now: bool = AVAILABLE_NOW,
    as_json: bool = JSON,
) -> None:
    """Run a pipeline: until everything there now is read, or until Ctrl-C when it says `every`.

    \b
    josefine pipeline run orders.yaml
    josefine pipeline run orders.yaml --env prod --json
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    if available_now:
        pipeline = replace(pipeline, every_ms=None, once=False)
    from pipelines.reconcile import Trust
    from pipelines.sink_lives import together
    from pipelines.wishes import wishes

    side = Trust(trust.value) if trust else Trust.NEITHER
    with hiding(pipeline):
        said = wishes(pipeline, side, rename or (), new_chain or (), on_data_loss is not None)
        refuse_unwritable(pipeline, os.environ)
        result = _run(pipeline, said)
        failure = together(result.failures.values())
        if failure is not None and len(result.failures) == len(pipeline.sinks):
            raise failure
    _summary(pipeline, result, as_json)
    with hiding(pipeline):
        if failure is not None:
            raise failure


def _run(pipeline: Pipeline, said: Wishes) -> RunResult:
    from rich.console import Console

    from pipelines.metrics import told
    from pipelines.progress import reporter_for, unheard
    from pipelines.run import run_sinks
    from pipelines.starting import arm_failpoints, session_of

    stop = threading.Event()
    # A descriptor of its own: while Spark starts, the process's stderr is lent to the JVM.
    with (
        unheard(os.dup(2)) as err,
        reporter_for(Console(file=err), pipeline) as shown,
        told(pipeline, shown) as reporter,
    ):
        reporter.starting("Spark")
        with session_of(pipeline) as spark:
            arm_failpoints(spark)
            # After Spark, which takes SIGINT for itself when its context starts.
            _stop_on_signals(stop)
            return run_sinks(spark, pipeline, reporter, wishes=said, stop=stop)


def _stop_on_signals(stop: threading.Event) -> None:
    """The first Ctrl-C, SIGTERM or SIGHUP ends the run after the batch under way; the same one
    again at once. Who ignores a closed terminal (nohup) goes on ignoring it."""

    def ask(number: int, _: object) -> None:
        stop.set()
        signal.signal(number, signal.default_int_handler)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, ask)


def _summary(pipeline: Pipeline, result: RunResult, as_json: bool) -> None:
    from josefine_spark.topic_offsets import nested
    from pipelines.checking import told as checks_told

    if as_json:
        sinks: dict[str, Any] = {
            name: {
                "records": totals.records,
                "rows": totals.rows,
                "dead_letters": totals.dead_letters,
                "copies": totals.copies,
                "late": totals.late,
                "checks": {check: each.to_json() for check, each in totals.checked.items()},
                "batches": totals.batches,
                "seconds": round(totals.seconds, 3),
                "ends": nested(totals.ends),
                "path": totals.path,
            }
            for name, totals in result.sinks.items()
        }
        seconds = round(result.seconds, 3)
        print_hidden_json(
            pipeline,
            {
                "name": pipeline.name,
                "seconds": seconds,
                "interrupted": result.interrupted,
                "failures": {name: str(each) for name, each in result.failures.items()},
                "sinks": sinks,
            },
        )
        return
    tell = partial(say, pipeline)
    how = "stopped on request" if result.interrupted else "done"
    if result.failures:
        how += f", {len(result.failures)} of {counted(len(result.sinks), 'sink')} failed,"
    tell(f"{pipeline.name}: {how} after {result.seconds:.1f} s")
    for name, totals in result.sinks.items():
        rate = totals.records / totals.seconds if totals.seconds else 0.0
        wrote = _WROTE[pipeline.sinks[name].mode]
        line = f"  {name}: {counted(totals.records, 'record')} read"
        line += f", {counted(totals.rows, 'row')} {wrote}"
        line += f" in {counted(totals.batches, 'batch', 'batches')}, {rate:,.0f} records/s"
        tell(line + (", failed" if name in result.failures else ""))
        if totals.copies:
            tell(f"    {counted(totals.copies, 'row')} left out, whose keys were there")
        if totals.late:
            tell(f"    {counted(totals.late, 'late row')} left out, behind the watermark")
        for told in checks_told(pipeline.checks, totals.checked):
            tell(f"    {told}")
        if totals.dead_letters:
            dead = counted(totals.dead_letters, "dead letter")
            tell(f"    {dead} in {pipeline.dead_letters}")
        tell(f"    {totals.path}{_reached(nested(totals.ends))}")


def _reached(ends: dict[str, dict[str, int]]) -> str:
    return f" reached {json.dumps(ends)}" if ends else ": nothing new"
