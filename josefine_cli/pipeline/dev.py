"""The command `josefine pipeline dev FILE`: lint, tests and previews after each save, on one Spark.

It writes no table, checkpoint or group. Exit codes: 0 for Ctrl-C, 2 usage, 128 + n for another
signal. An error of one round ends that round.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from josefine_cli.base.errors import EXIT_SIGNAL, UsageError, explain
from josefine_cli.pipeline.file import ENVIRONMENT, FILE
from josefine_cli.pipeline.file_watch import signature_of, watch
from josefine_cli.pipeline.secrets import hiding, say
from pipelines.base.errors import ConfigError
from pipelines.base.plurals import counted
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.inspect.dev_round import Rounds, Shown
    from pipelines.inspect.file_tests import Outcome

ROWS = typer.Option(5, "-n", "--rows", min=1, max=1_000, help="How many rows of each node at most.")
RECORDS = typer.Option(
    100, min=1, max=100_000, help="Of how many records of each partition: the newest of topics."
)
LOOK_S = 0.1
"""The interval of the looks at the files: a save counts after two of them."""

MASTER = "local[2]"
QUICK = {
    # Compiling code for each plan takes longer than its few rows, and one task is quicker than two.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
"""Settings with which a round of few rows is quickest; those of the file win."""


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(dev)


def dev(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    rows: int = ROWS,
    records: int = RECORDS,
) -> None:
    """After each save: lint the file, run its tests and show rows of each node. Ctrl-C ends it.

    One Spark stays up. Rows are made of the newest records, or of a test's without a broker.

    \b
    josefine pipeline dev orders.yaml
    josefine pipeline dev orders.yaml -n 20
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file: josefine pipeline init {file} writes one")
    from pipelines.inspect.dev_round import Rounds
    from pipelines.sources.newest_records import newest_rows

    with ExitStack() as stack:
        # Before Spark is stopped: the interrupt ends the loop, not the cleanup.
        stack.enter_context(_ended_by_signals())
        spark = stack.enter_context(_one_spark())
        rounds = Rounds(partial(newest_rows, count=records))
        watch(
            lambda: signature_of(file),
            _pause,
            lambda number: _round(number, file, environment, spark, rounds, rows),
        )


def _pause() -> bool:
    time.sleep(LOOK_S)
    return True


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Ctrl-C ends the block without an error, another signal with its exit code."""
    try:
        yield
    except KeyboardInterrupt as stop:
        number = stop.args[0] if stop.args else signal.SIGINT
        print(file=sys.stderr)
        if number != signal.SIGINT:
            raise typer.Exit(EXIT_SIGNAL + number) from None


def _interrupt_on_signals() -> None:
    def interrupt(number: int, _: object) -> None:
        # The next one has its default effect: it ends a Spark that does not stop.
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)


def settings_of(pipeline: Pipeline) -> tuple[dict[str, str], str]:
    """(Spark's settings, the master): this machine's, also for a file that runs on a cluster."""
    master = pipeline.master or MASTER
    return {**QUICK, **pipeline.conf}, master if master.startswith("local") else MASTER


class OneSpark:
    """The Spark session of all rounds. Mutable: started by the first round that needs it, again
    for other settings or if its JVM has ended."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None
        self._settings: tuple[dict[str, str], str] | None = None

    def of(self, pipeline: Pipeline, restarted: Callable[[], None]) -> SparkSession:
        """The session with the file's settings. `restarted` is called before another one starts.
        Raises SetupError."""
        from pipelines.run.session import start_named
        from pipelines.spark.jvm import has_gone

        settings = settings_of(pipeline)
        if self._session is not None and self._settings == settings:
            if not has_gone(self._session):
                return self._session
            self._session = None
        self.stop()
        restarted()
        print("starting Spark ...", file=sys.stderr, flush=True)
        self._session = start_named(f"josefine dev {pipeline.name}", *settings)
        self._settings = settings
        _interrupt_on_signals()  # Spark takes SIGINT for itself when its context starts
        return self._session

    def stop(self) -> None:
        from pipelines.spark.jvm import stop_session

        session, self._session = self._session, None
        if session is not None:
            stop_session(session)


@contextmanager
def _one_spark() -> Iterator[OneSpark]:
    _interrupt_on_signals()
    spark = OneSpark()
    try:
        yield spark
    finally:
        spark.stop()


def _round(
    number: int, file: Path, environment: str | None, spark: OneSpark, rounds: Rounds, rows: int
) -> None:
    """One round; whatever fails in it is printed."""
    start_s = time.monotonic()
    done = "stopped by an error"
    try:
        done = _checked(file, environment, spark, rounds, rows)
    except Exception as error:
        # Any error: the user fixes the file, or the machine, and saves again.
        is_placed = getattr(error, "lines_are_places", False)
        print(("" if is_placed else "error: ") + explain(error)[0])
    print(f"round {number}: {done}, {time.monotonic() - start_s:.1f} s; waits for a save of {file}")
    print(flush=True)


def _checked(
    file: Path, environment: str | None, spark: OneSpark, rounds: Rounds, rows: int
) -> str:
    """Lint, tests and previews; returns them in short. Raises ConfigError and PipelineErrors."""
    from pipelines.config.validate import read_pipeline
    from pipelines.lint.lint import lint_file

    problems = lint_file(file, os.environ, environment).problems
    # Before Spark, which takes seconds to start.
    if any(each.stops_run for each in problems):
        raise ConfigError(problems)
    for problem in problems:
        print(problem)
    pipeline = read_pipeline(file, os.environ, environment)
    with hiding(pipeline):
        session = spark.of(pipeline, rounds.forget)
        rounds.begin()
        outcomes = rounds.tests(session, pipeline)
        _print_tests(pipeline, outcomes)
        unchanged = []
        for shown in rounds.previews(session, pipeline, rows):
            if shown.is_old:
                unchanged.append(shown.node)
            else:
                _print_preview(pipeline, rounds, shown)
        if unchanged:
            say(pipeline, f"unchanged: {', '.join(unchanged)}")
    failed = sum(bool(each.complaints) for each in outcomes)
    tests = f"{failed} of {counted(len(outcomes), 'test')} failed"
    return tests if failed else f"{counted(len(outcomes), 'test')} passed"


def _print_tests(pipeline: Pipeline, outcomes: list[Outcome]) -> None:
    from pipelines.inspect.file_tests import lines

    say(pipeline, "\n".join(lines(pipeline.file, outcomes)))


def _print_preview(pipeline: Pipeline, rounds: Rounds, shown: Shown) -> None:
    from josefine_cli.base.output import print_table
    from pipelines.base.variables import hidden

    source = pipeline.sources.get(shown.node)
    origin = f" ({rounds.given(source, pipeline).origin})" if source else ""
    say(pipeline, f"{shown.node}{origin}:")
    if shown.preview is None:
        say(pipeline, f"  {shown.failure}")
        return
    cells = [[hidden(cell, pipeline.secrets) for cell in row] for row in shown.preview.cells()]
    print_table([*shown.preview.columns], cells)
    for reason, count in shown.preview.bad.items() if source else ():
        say(pipeline, f"  {counted(count, 'record')} not shown: {reason}")
