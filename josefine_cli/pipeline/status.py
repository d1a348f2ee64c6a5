"""The command `josefine pipeline status FILE`: progress of each sink, and whether a run would stop.

It queries the brokers and reads logs and checkpoints, here or in S3, without Spark. Exit codes: 0
every sink would continue, 1 one would stop, failed or could not be inspected, 78 invalid file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from josefine_cli.base.top import EVERY_S, Every, Looks, Reading, watch_readers
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON, print_json
from pipelines.base.errors import EXIT_FAILED
from pipelines.base.plurals import counted
from pipelines.base.variables import hidden
from pipelines.model.pipeline import Pipeline

if TYPE_CHECKING:
    from pipelines.inspect.status import SinkStatus, TableStatus


def add_to(app: typer.Typer) -> None:
    """Register the verb after the existing ones."""
    app.command()(status)
    app.command()(top)


def status(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    watch: bool = typer.Option(
        False, "--watch", help="Again and again, until Ctrl-C: progress, lag and speed of each."
    ),
    every: Every = EVERY_S,
    looks: Looks = None,
    as_json: bool = JSON,
) -> None:
    """Show the progress of each sink and whether a run would stop; no Spark, writes nothing.

    \b
    josefine pipeline status orders.yaml
    josefine pipeline status orders.yaml --watch
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    if watch:
        watch_readers(lambda: readings([pipeline]), every, looks, as_json=as_json)
        return
    found = _look(pipeline)
    if as_json:
        print_json({"name": pipeline.name, "sinks": [each.to_json() for each in found]})
    else:
        print(hidden("\n".join(_lines(pipeline.name, found)), pipeline.secrets))
    # The exit status is for monitoring: unknown counts as bad, because silence is not health.
    if any(each.stops or each.unknown or each.failed or _held(each) for each in found):
        raise typer.Exit(EXIT_FAILED)


def top(
    files: list[Path] = typer.Argument(
        metavar="FILE...", help="Pipelines' YAML files.", show_default=False
    ),
    environment: str | None = ENVIRONMENT,
    every: Every = EVERY_S,
    looks: Looks = None,
    as_json: bool = JSON,
) -> None:
    """Show the sinks of pipelines by their lag, with their speed, until Ctrl-C; no Spark.

    \b
    josefine pipeline top orders.yaml payments.yaml
    """
    pipelines = [pipeline_file.read(file, environment, as_json) for file in files]
    watch_readers(lambda: readings(pipelines), every, looks, as_json=as_json)


def readings(pipelines: Sequence[Pipeline]) -> dict[str, Reading]:
    """Pipeline and sink → its progress."""
    return {
        f"{pipeline.name}.{each.sink}": Reading(
            state=_state(each),
            read=sum(each.ends.values()),
            lag=each.behind,
            lag_s=None if each.lag_ms is None else each.lag_ms / 1000,
        )
        for pipeline in pipelines
        for each in _look(pipeline)
    }


def _state(sink: SinkStatus) -> str:
    if sink.stops:
        return "stops"
    if sink.failed:
        return "failed"
    return "not fresh" if sink.is_fresh is False else "ok"


def _look(pipeline: Pipeline) -> list[SinkStatus]:
    from pipelines.inspect.status import status as status_of
    from pipelines.sources.at_once import look_at_once
    from pipelines.sources.josefine import first_record_ms

    return status_of(pipeline, look_at_once, first_record_ms)


def _held(sink: SinkStatus) -> list[TableStatus]:
    return [table for table in sink.tables if table.held]


def _lines(name: str, found: Sequence[SinkStatus]) -> list[str]:
    from josefine_cli.base.output import iso_time

    lines = [name]
    for each in found:
        behind = "" if each.behind is None else f", {counted(each.behind, each.unit)} behind"
        if each.lag_ms:
            behind += f", the oldest {each.lag_ms / 1000:,.1f} s old"
        if each.is_fresh is not None and each.fresh_ms is not None:
            verdict = "held" if each.is_fresh else "NOT held"
            behind += f", fresh: {each.fresh_ms / 1000:g} s is {verdict}"
        ends = f" ends at {each.ends_in_words}" if each.ends else ""
        if not (each.ends or each.unknown):
            ends = " has nothing"
        lines.append(f"  {each.sink}: {each.table}{ends}{behind}")
        if each.version is not None:
            when = "" if each.committed_ms is None else f", {iso_time(each.committed_ms)}"
            # Spark or delta-rs: which of them took the seconds.
            by = f", by {each.engine}" if each.engine else ""
            lines.append(f"    last commit: version {each.version}{when}{by}")
        if each.tables:  # of a template
            lines.append(f"    {counted(len(each.tables), 'table')}, {len(_held(each))} held")
        lines += [f"    table {table.name} is held: {table.held}" for table in _held(each)]
        if each.failed:
            when = "" if each.failed_ms is None else f" ({iso_time(each.failed_ms)})"
            lines.append(f"    it failed{when}: {each.failed}")
        if each.stops:
            lines.append(f"    a run would stop: {each.stops}")
        if each.unknown:
            lines.append(f"    not known: {each.unknown}")
    return lines
