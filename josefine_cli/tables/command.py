"""`josefine tables`: the Delta tables of topics."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.extras import need
from josefine_cli.base.output import connect, note, print_json
from josefine_cli.base.signals import StopSignals
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
PACKAGES = ("deltalake", "pyarrow", "numpy")

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="Only this topic; repeatable.", autocompletion=topic_names),
]


@app.callback()
def tables() -> None:
    """Keep a Delta table of each topic that has a `josefine.table.location`.

    \b
    josefine topics create orders --config josefine.table.location=/lake/orders
    josefine tables run
    """


@app.command()
def run(
    topics: Topics = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when every table has what its topic has now.")
    ] = False,
    trust: Annotated[
        str,
        typer.Option(
            help="`table`: continue at the table's end after a verdict; once, for one topic.",
            metavar="neither|table",
        ),
    ] = "neither",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Write the committed records of table topics into their tables, each once.

    Each commit has the rows and their offsets, so a crash or a second writer neither loses nor
    doubles a record. A table that cannot continue stops alone, with a verdict.

    \b
    josefine tables run
    josefine tables run --topic orders --once
    """
    if trust not in ("neither", "table"):
        raise UsageError(f"--trust {trust}: expected neither or table")
    if trust == "table" and not (topics and len(topics) == 1 and once):
        raise UsageError("--trust table is for one --topic, with --once: read its verdict first")
    # Before any table is opened: a writer that could not finish must not start.
    need("the table writer", *PACKAGES)
    from josefine_lake.writer import failpoints

    failpoints.arm(os.environ)
    where = bootstrap_of(bootstrap)
    _once(where, topics or [], trusts=trust == "table", as_json=as_json)


def _once(where: str, topics: list[str], *, trusts: bool, as_json: bool) -> None:
    """Raises UserError if a table stopped."""
    from josefine_lake.writer.discovery import discover
    from josefine_lake.writer.once import run_once

    stops = 0
    with StopSignals() as signals, connect(where) as client:
        found = discover(client, topics)
        missing = [each for each in topics if each not in {**found.tables, **found.wrong}]
        if missing:
            raise UserError(
                f"topic '{missing[0]}' has no table: set josefine.table.location with "
                f"'josefine topics alter {missing[0]} --config josefine.table.location=/TABLE'"
            )
        for topic, what in found.wrong.items():
            stops += 1
            note(f"topic '{topic}': {what}")
        ended = lambda: signals.number is not None  # noqa: E731 - two words
        for done in run_once(client, found.tables, os.environ, ended, trust=trusts):
            stops += bool(done.stopped)
            if as_json:
                named = {"topic": done.table.topic, "location": done.table.location}
                print_json({**named, "rows": done.rows, "stopped": done.stopped})
            elif done.stopped:
                note(done.stopped)
            else:
                print(f"{done.table.topic}: {done.rows} rows into {done.table.location}")
    if stops:
        raise UserError(f"{stops} of {len(found.tables) + len(found.wrong)} tables stopped")
