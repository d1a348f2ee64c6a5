"""The command `josefine pipeline deploy NEW --against OLD`: a changed file, proven by its rows.

Exit codes: 0 success, 1 the deploy failed, 2 usage, 78 invalid file, 79 the machine is not ready.
Results go to stdout (JSON with --json), progress and errors to stderr. No secret is printed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, JSON
from josefine_cli.pipeline.secrets import hiding, print_hidden_json, say
from pipelines.base.errors import ConfigError, RunError
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.deploy.change import SinkChange
    from pipelines.deploy.deploy import Deploy
    from pipelines.report.events import Reporter

NEW = typer.Argument(help="The new pipeline file.", metavar="NEW", show_default=False)
AGAINST = typer.Option(
    ..., "--against", metavar="OLD", help="The file that runs now.", show_default=False
)
DRY_RUN = typer.Option(False, "--dry-run", help="Only print what the change means for each table.")
SWAP = typer.Option(False, "--swap", help="After the comparison put the new rows in place.")
ROLLBACK = typer.Option(False, "--rollback", help="Take the swap back. Needs no Spark.")
ABORT = typer.Option(False, "--abort", help="Remove the shadow tables again.")
ACCEPT = typer.Option(
    False,
    "--accept-missing",
    help="Continue without records that the topics have lost.",
)


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(deploy)


def deploy(
    new: Path = NEW,
    against: Path = AGAINST,
    environment: str | None = ENVIRONMENT,
    dry_run: bool = DRY_RUN,
    swap: bool = SWAP,
    rollback: bool = ROLLBACK,
    abort: bool = ABORT,
    accept_missing: bool = ACCEPT,
    as_json: bool = JSON,
) -> None:
    """Run a changed file next to the old one, compare the rows, and swap the tables.

    Without an option it fills shadow tables up to the live offsets and prints the difference.

    \b
    josefine pipeline deploy new.yaml --against old.yaml --dry-run
    josefine pipeline deploy new.yaml --against old.yaml
    josefine pipeline deploy new.yaml --against old.yaml --swap
    josefine pipeline deploy new.yaml --against old.yaml --rollback
    """
    if dry_run + swap + rollback + abort > 1:
        raise UsageError("--dry-run, --swap, --rollback and --abort exclude each other: take one")
    # The error of either file names it, so the order does not matter.
    pipeline = pipeline_file.read(new, environment, as_json)
    before = pipeline_file.read(against, environment, as_json)
    with hiding(pipeline), hiding(before):
        made = None if dry_run else _deploy(before, pipeline, accepts_missing=accept_missing)
        if made is not None and (rollback or abort):
            _back(made, pipeline, is_rollback=rollback, as_json=as_json)
        else:
            _forward(made, before, pipeline, swaps=swap, as_json=as_json)


def _deploy(old: Pipeline, new: Pipeline, *, accepts_missing: bool) -> Deploy:
    from pipelines.deploy.deploy import Deploy

    def tell(text: str) -> None:
        print(hidden(text, new.secrets | old.secrets), file=sys.stderr)

    return Deploy(
        old=old,
        new=new,
        run=uuid4().hex,
        now_ms=lambda: time.time_ns() // 1_000_000,
        tell=tell,
        accepts_missing=accepts_missing,
    )


def _back(made: Deploy, new: Pipeline, *, is_rollback: bool, as_json: bool) -> None:
    """Rollback or abort, without Spark."""
    from pipelines.run.session import arm_failpoints_alone

    arm_failpoints_alone()
    if not is_rollback:
        made.abort()
        result: dict[str, Any] = {"ok": True, "deploy": made.ident, "aborted": True}
        text = f"deploy {made.ident}: the shadow tables are removed"
    else:
        done = made.take_back()
        result = {"ok": True, "deploy": made.ident, "taken_back": done}
        text = f"deploy {made.ident}: nothing is swapped"
        if done:
            text = f"deploy {made.ident} is taken back; run {made.old.file} again"
    if as_json:
        print_hidden_json(new, result)
    else:
        say(new, text)


def _forward(
    made: Deploy | None, old: Pipeline, new: Pipeline, *, swaps: bool, as_json: bool
) -> None:
    """The verdict, and unless it is a dry run the shadow tables, the comparison and the swap."""
    result: dict[str, Any] = {"ok": True}
    if made is not None and made.is_done():
        made.clean()
        if as_json:
            print_hidden_json(new, {**result, "deploy": made.ident, "swapped": True})
        else:
            say(new, "\n".join(_next_steps(made, swaps=True)))
        return
    if made is not None:
        made.examine()  # before Spark starts, which takes seconds
    with _session(new, as_json) as (spark, reporter):
        changes = _changes(spark, old, new)
        result["sinks"] = [each.to_json() for each in changes]
        if not as_json:
            for each in changes:
                say(new, "\n".join(each.lines()))
        if made is not None:
            seen = made.catch_up(spark, reporter)
            diffs = [*made.diffs(spark, seen)]
            result |= {"deploy": made.ident, "diffs": [each.to_json() for each in diffs]}
            if not as_json:
                for diff in diffs:
                    say(new, "\n".join(diff.lines()))
            if swaps:
                made.swap(spark, reporter, seen)
            result["swapped"] = swaps
    if as_json:
        print_hidden_json(new, result)
    elif made is not None:
        say(new, "\n".join(_next_steps(made, swaps=swaps)))


def _next_steps(made: Deploy, *, swaps: bool) -> Iterator[str]:
    if swaps:
        yield f"deploy {made.ident} is done. Run the new file:"
        yield f"    josefine pipeline run {made.new.as_arguments}"
        yield "To take it back:"
        yield f"    {made.command('--rollback')}"
        return
    yield f"deploy {made.ident}: no live table was changed. To put the new rows in place:"
    yield f"    {made.command('--swap')}"
    yield "To remove the shadow tables:"
    yield f"    {made.command('--abort')}"


def _changes(spark: SparkSession, old: Pipeline, new: Pipeline) -> list[SinkChange]:
    from pipelines.deploy.change import compare
    from pipelines.inspect.plan import plan

    columns = [{each.name: dict(each.columns) for each in plan(spark, one)} for one in (old, new)]
    return compare(old, new, *columns)


@contextmanager
def _session(new: Pipeline, as_json: bool) -> Iterator[tuple[SparkSession, Reporter]]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException
    from rich.console import Console

    from pipelines.exactly_once.verdict_messages import clear_reason
    from pipelines.report.progress import reporter_for, unheard
    from pipelines.run.session import arm_failpoints, paths_of, session_of, what_begins

    try:
        with unheard(os.dup(2)) as err, reporter_for(Console(file=err), new) as reporter:
            reporter.starting(what_begins(new.conf, paths_of(new)))
            with session_of(new) as spark:
                arm_failpoints(spark)
                yield spark, reporter
    except ConfigError as error:
        pipeline_file.refuse(error, as_json)
    except (Py4JError, PySparkException) as error:
        raise RunError(clear_reason(error)) from error
