"""The commands `josefine pipeline dlq show | replay`: dead letters of a pipeline, and their replay.

They query no broker. `replay` starts Spark; `show` does so only for a table that delta-rs cannot
read. Nothing is changed without `--execute`. Exit codes: 0 success, 1 a replay failed, 2 usage,
78 invalid file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON
from josefine_cli.pipeline.secrets import hiding, print_hidden_json, say
from pipelines.base.errors import ConfigError, RunError
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.config.section import nearest
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pipelines.dead_letters.replay_plan import Outlook
    from pipelines.inspect.dead_letter_reader import Summary

app = typer.Typer(
    help="The records that a pipeline could not take; put them in after a fix.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)

COLUMNS = ("source", "record", "timestamp", "sink", "reason", "value")
VALUE_MAX = 60


@app.command()
def show(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    many: Annotated[
        int,
        typer.Option("-n", "--max", metavar="N", min=0, help="Number of dead letters, the newest."),
    ] = 20,
    every: Annotated[
        bool, typer.Option("--all", help="Also those that were replayed.", show_default=False)
    ] = False,
    as_json: bool = JSON,
) -> None:
    """Print how many dead letters wait, by source and reason, and the newest of them.

    \b
    josefine pipeline dlq show orders.yaml -n 5
    """
    pipeline = _read(file, environment, as_json)
    from josefine_cli.base.output import print_table
    from pipelines.inspect.dead_letter_reader import read_summary

    with hiding(pipeline):
        found = read_summary(pipeline, many, every=every, env=os.environ)
    # Only if the table cannot be read without a JVM: Spark takes seconds to start.
    if found is None:
        found = _read_with_spark(pipeline, many, every=every, as_json=as_json)
    counts, letters = found.counts, found.newest
    if as_json:
        counted_ = [{"source": s, "reason": r, "letters": n} for s, r, n in counts]
        said = {"name": pipeline.name, "reasons": counted_, "letters": letters}
        print_hidden_json(pipeline, said)
        return
    total = counted(sum(n for _, _, n in counts), "dead letter")
    say(pipeline, f"{pipeline.dead_letters}: {total}{'' if every else ' not replayed'}")
    for source, reason, number in counts:
        say(pipeline, f"  {source}: {number:,} {reason}")
    if letters:
        rows = [[_cell(name, letter) for name in COLUMNS] for letter in letters]
        print_table(COLUMNS, [[hidden(cell, pipeline.secrets) for cell in row] for row in rows])


def _read_with_spark(pipeline: Pipeline, many: int, *, every: bool, as_json: bool) -> Summary:
    from pipelines.dead_letters.summary import newest, waiting
    from pipelines.inspect.dead_letter_reader import Summary

    with _spark(pipeline, as_json) as spark:
        return Summary(
            counts=waiting(spark, pipeline, every=every),
            newest=newest(spark, pipeline, many, every=every),
        )


@app.command()
def replay(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    sink: Annotated[
        list[str] | None,
        typer.Option(
            "--sink",
            metavar="SINK",
            help="Only into this sink, if it lacks their rows; repeatable.",
        ),
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute", help="Do it; otherwise only show what would be done.")
    ] = False,
    as_json: bool = JSON,
) -> None:
    """Put the dead letters that the file takes now into the tables that have left them out.

    Each once, whatever is killed: run it again and it finishes what it began. What the file still
    does not take stays a letter.

    \b
    josefine pipeline dlq replay orders.yaml
    josefine pipeline dlq replay orders.yaml --execute
    """
    pipeline = _read(file, environment, as_json)
    # Refused before Spark starts, which takes seconds.
    for name in sink or ():
        if name not in pipeline.sinks:
            known = ", ".join(pipeline.sinks)
            hint = nearest(name, pipeline.sinks) or f"; expected one of: {known}"
            raise UsageError(f"--sink {name}: the file has no such sink{hint}")
    from pipelines.dead_letters.replay import Replay, replays
    from pipelines.run.session import arm_failpoints

    with _spark(pipeline, as_json) as spark:
        arm_failpoints(spark)
        do = Replay.run if execute else Replay.look
        outlooks = replays(spark, pipeline, sink or (), do)
    if as_json:
        sources = [each.to_json() for each in outlooks]
        print_hidden_json(pipeline, {"name": pipeline.name, "sources": sources})
        return
    for outlook in outlooks:
        for line in _told(outlook, execute=execute):
            say(pipeline, line)
    if not any(each.letters or each.planned for each in outlooks):
        print("no dead letters wait")
    elif not execute and any(each.planned for each in outlooks):
        print("--execute does it")


def _told(outlook: Outlook, *, execute: bool) -> Iterator[str]:
    if not outlook.letters and not outlook.planned:
        return
    good = counted(len(outlook.planned), "dead letter")
    if outlook.replay is not None:
        done = "done" if execute else "was begun and is not finished"
        yield f"{outlook.source}: replay {outlook.replay} of {good} {done}"
    else:
        yield f"{outlook.source}: {good} of {outlook.letters:,} would be replayed"
    for name, number in sorted(outlook.sinks().items()):
        rows = outlook.rows.get(name)
        wrote = "" if rows is None else f": {counted(rows, 'row')} written"
        yield f"  into {name}: {counted(number, 'letter')}{wrote}"
    for why, number in outlook.held.most_common():
        yield f"  {number:,} stay: {why}"


def _read(file: Path, environment: str | None, as_json: bool) -> Pipeline:
    pipeline = pipeline_file.read(file, environment, as_json)
    if pipeline.dead_letters is None:
        raise UsageError(f"{file} has no `dead_letter`")
    return pipeline


@contextmanager
def _spark(pipeline: Pipeline, as_json: bool) -> Iterator[SparkSession]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from pipelines.exactly_once.verdict_messages import clear_reason
    from pipelines.run.session import session_of

    with hiding(pipeline):
        try:
            with session_of(pipeline) as spark:
                yield spark
        except ConfigError as error:
            pipeline_file.refuse(error, as_json)
        except (Py4JError, PySparkException) as error:
            raise RunError(clear_reason(error)) from error


def _cell(name: str, letter: dict[str, Any]) -> str:
    if name == "record":
        return f"{letter['topic']}-{letter['partition']}@{letter['offset']}"
    text = "-" if letter[name] is None else str(letter[name])
    return text if len(text) <= VALUE_MAX or name == "reason" else text[: VALUE_MAX - 1] + "…"
