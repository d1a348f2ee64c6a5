"""The command `josefine pipeline run FILE`: it runs until the input ends or a user stops it.

Exit codes: 0 success, 1 the run or one of its sinks failed, 2 usage, 78 invalid file, 79 the
machine is not ready. Results go to stdout (JSON with --json), progress and errors to stderr.
"""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline import run_many
from josefine_cli.pipeline.file import ENVIRONMENT, JSON
from josefine_cli.pipeline.run_end import stop_on_signals, summary
from josefine_cli.pipeline.secrets import hiding
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pipelines.report.totals import RunResult
    from pipelines.run.options import Wishes


class OnDataLoss(Enum):
    """The values of --on-data-loss."""

    SKIP_AND_RECORD = "skip_and_record"


class Side(Enum):
    """The values of --trust."""

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
    help="A sink, a source or the pipeline has a new name: continue where the old one ended.",
    show_default=False,
)
NEW_CHAIN = typer.Option(
    None,
    "--new-chain",
    metavar="SINK",
    help="Start this sink in a table that has other rows of its topics.",
    show_default=False,
)
ON_DATA_LOSS = typer.Option(
    None,
    "--on-data-loss",
    help="Record what the topics have lost and continue after it, this once.",
    show_default=False,
)

AVAILABLE_NOW = typer.Option(
    False,
    "--available-now",
    help="End when what is available now is read; overrides the file's `trigger`.",
)


SINK = typer.Option(
    None,
    "--sink",
    metavar="SINK",
    help="Run only this sink; repeatable. The others continue where they are in a later run.",
    show_default=False,
)

FILES = typer.Argument(
    metavar="FILE...", help="The pipeline's YAML file, or several.", show_default=False
)


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(run)


def run(
    files: list[Path] = FILES,
    environment: str | None = ENVIRONMENT,
    trust: Side | None = TRUST,
    rename: list[str] | None = RENAME,
    new_chain: list[str] | None = NEW_CHAIN,
    on_data_loss: OnDataLoss | None = ON_DATA_LOSS,
    available_now: bool = AVAILABLE_NOW,
    sink: list[str] | None = SINK,
    as_json: bool = JSON,
) -> None:
    """Run a pipeline until everything available now is read, or until Ctrl-C with `every`.

    Several files run on one Spark, independently.

    \b
    josefine pipeline run orders.yaml
    josefine pipeline run orders.yaml --env prod --json
    josefine pipeline run orders.yaml payments.yaml
    josefine pipeline run orders.yaml --sink lake
    """
    pipelines = [pipeline_file.read(file, environment, as_json) for file in files]
    if available_now:
        pipelines = [replace(each, every_ms=None, once=False) for each in pipelines]
    if len(pipelines) > 1:
        if trust or rename or new_chain or sink:
            raise UsageError("--trust, --rename, --new-chain and --sink are for one file")
        run_many.run(pipelines, skip_losses=on_data_loss is not None, as_json=as_json)
        return
    (pipeline,) = pipelines
    from pipelines.exactly_once.checkpoint_start import Trust
    from pipelines.inspect.writable_folders import refuse_unwritable
    from pipelines.run.options import wishes
    from pipelines.run.sink_lifecycle import together

    side = Trust(trust.value) if trust else Trust.NEITHER
    with hiding(pipeline):
        skips = on_data_loss is not None
        said = wishes(pipeline, side, rename or (), new_chain or (), skips, sink or ())
        refuse_unwritable(pipeline, os.environ)
        result = _run(pipeline, said)
        # If only some sinks failed, the totals of the others are printed before the error.
        failure = together(result.failures.values())
        if failure is not None and len(result.failures) == len(result.sinks):
            raise failure
    summary(pipeline, result, as_json)
    with hiding(pipeline):
        if failure is not None:
            raise failure


def _run(pipeline: Pipeline, said: Wishes) -> RunResult:
    from rich.console import Console

    from pipelines.report.metrics import told
    from pipelines.report.progress import reporter_for, unheard
    from pipelines.run.run import run_sinks
    from pipelines.run.session import arm_failpoints, paths_of, session_of, what_begins

    stop = threading.Event()
    # A descriptor of its own: while Spark starts, the process's stderr is lent to the JVM.
    with (
        unheard(os.dup(2)) as err,
        reporter_for(Console(file=err), pipeline) as shown,
        told(pipeline, shown) as reporter,
    ):
        reporter.starting(what_begins(pipeline.conf, paths_of(pipeline)))
        with session_of(pipeline) as spark:
            arm_failpoints(spark)
            # After Spark, which takes SIGINT for itself when its context starts.
            stop_on_signals(stop)
            return run_sinks(spark, pipeline, reporter, wishes=said, stop=stop)
