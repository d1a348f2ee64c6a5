"""The commands `josefine pipeline offsets show | reconcile | set`: sink offsets and their moves.

They read logs and checkpoints, here or in S3, and query the brokers. Nothing is changed without
`--execute`; Spark is started only if a table needs a commit then. Exit codes: 0 success, 1 a sink
would stop, could not be inspected or was not moved, 2 usage, 78 invalid file.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.pipeline import file as pipeline_file
from josefine_cli.pipeline.file import ENVIRONMENT, FILE, JSON
from pipelines.base.errors import EXIT_FAILED

app = typer.Typer(
    help="Show the offsets of each sink in its topics; move them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    add_completion=False,
)


class Side(Enum):
    """The values of --trust."""

    TABLE = "table"
    CHECKPOINT = "checkpoint"


Sinks = Annotated[
    list[str] | None, typer.Option("--sink", metavar="SINK", help="Only this sink; repeatable.")
]
Execute = Annotated[
    bool, typer.Option("--execute", help="Do it; else only what would be done is shown.")
]


@app.command()
def show(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    sink: Sinks = None,
    as_json: bool = JSON,
) -> None:
    """Print each sink's offsets in table, checkpoint and topics, and whether a run would continue.

    \b
    josefine pipeline offsets show orders.yaml
    """
    pipeline = pipeline_file.read(file, environment, as_json)
    from josefine_cli.pipeline.sink_offsets import show_sinks

    _end(well=show_sinks(pipeline, sink, as_json=as_json))


@app.command()
def reconcile(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    sink: Sinks = None,
    trust: Annotated[
        Side | None, typer.Option("--trust", help="Which side is right.", show_default=False)
    ] = None,
    execute: Execute = False,
    as_json: bool = JSON,
) -> None:
    """Show whether table and checkpoint of each sink agree, and what trusting one of them does.

    With --trust and --execute the sink continues there, and its checkpoint is set aside.
    A sink whose sides agree is not changed.

    \b
    josefine pipeline offsets reconcile orders.yaml
    josefine pipeline offsets reconcile orders.yaml --trust table --execute
    """
    if execute and trust is None:
        raise UsageError("--execute needs a side to trust: give --trust table or checkpoint")
    pipeline = pipeline_file.read(file, environment, as_json)
    from josefine_cli.pipeline.sink_offsets import reconcile_sinks
    from pipelines.exactly_once.checkpoint_start import Trust

    sides = [Trust(trust.value)] if trust else [Trust.TABLE, Trust.CHECKPOINT]
    _end(well=reconcile_sinks(pipeline, sink, sides, execute=execute, as_json=as_json))


@app.command("set")
def set_offsets(
    file: Path = FILE,
    environment: str | None = ENVIRONMENT,
    sink: Sinks = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:0,2]", help="Only these; repeatable."),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", help="Where; the forms are those of groups reset-offsets.")
    ] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", metavar="N", help="On by N records, or back by -N.")
    ] = None,
    execute: Execute = False,
    as_json: bool = JSON,
) -> None:
    """Move the end offsets of a sink's table: the next run continues from there.

    No row is changed. After a move backward records are read again, after a move forward skipped.

    \b
    josefine pipeline offsets set orders.yaml --sink lake --to -10m
    josefine pipeline offsets set orders.yaml --sink lake --topic orders:0 --to 42 --execute
    """
    if (to is None) == (shift_by is None):
        raise UsageError("where to? Give one of --to and --shift-by")
    pipeline = pipeline_file.read(file, environment, as_json)
    # Imported only here: reading the tables' logs is slow to import, and a usage error needs none.
    from josefine_cli.pipeline.sink_offsets import set_sinks, target_of

    target = target_of(to, shift_by, topic or ())
    _end(well=set_sinks(pipeline, sink, target, execute=execute, as_json=as_json))


def _end(*, well: bool) -> None:
    if not well:
        raise typer.Exit(EXIT_FAILED)
