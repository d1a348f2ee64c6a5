"""`josefine tables`: the Delta tables of topics."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Annotated

import typer

from josefine_broker.base.durations import FORMS, duration_ms
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.client_config import configured_security
from josefine_cli.base.errors import EXIT_SIGNAL, UsageError, UserError
from josefine_cli.base.extras import need
from josefine_cli.base.output import checked_addresses, connect, note, print_json, print_table
from josefine_cli.base.signals import StopSignals
from josefine_cli.cluster.target import AsJson, Bootstrap, bootstrap_of
from josefine_cli.kafka.completed import topic_names

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
PACKAGES = ("josefine_lake", "deltalake", "pyarrow", "numpy")
PARENT_S = 1.0
"""How often a writer looks whether the process that started it still runs."""

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
    rename: Annotated[
        list[str] | None,
        typer.Option(
            "--rename",
            metavar="OLD=NEW",
            help="Take the table back from a pipeline; once, for one topic: see its verdict.",
        ),
    ] = None,
    session_timeout: Annotated[
        str,
        typer.Option(
            "--session-timeout",
            help=f"Another process takes over a dead one's tables after this time: {FORMS}.",
        ),
    ] = "10s",
    admin: Annotated[
        str,
        typer.Option(
            envvar="JOSEFINE_TABLES_ADMIN",
            help="Serve /health and /metrics here, without --once; port 0 is any free port.",
            metavar="HOST:PORT",
        ),
    ] = "127.0.0.1:0",
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
    renames = _renames(rename or [])
    if renames and not (topics and len(topics) == 1 and once):
        raise UsageError("--rename is for one --topic, with --once: read its verdict first")
    # Before any table is opened: a writer that could not finish must not start.
    need("the table writer", *PACKAGES)
    from josefine_lake.writer import failpoints
    from josefine_lake.writer.little_memory import use_little_memory

    failpoints.arm(os.environ)
    use_little_memory(os.environ)
    where = checked_addresses(bootstrap_of(bootstrap))
    if once:
        _once(where, topics or [], trusts=trust == "table", renames=renames, as_json=as_json)
    else:
        _always(where, topics or [], _time_ms(session_timeout), admin)


def _time_ms(text: str) -> int:
    found = duration_ms(text)
    if not found:
        raise UsageError(f"--session-timeout {text}: expected a time such as {FORMS}")
    return found


def _always(where: str, topics: list[str], session_timeout_ms: int, admin: str) -> None:
    """Until Ctrl-C or SIGTERM. Raises UserError, UsageError for a wrong address."""
    from josefine_cli.base.writer_admin import admin_address, admin_of
    from josefine_lake.report.table_stats import ProcessStats
    from josefine_lake.writer.little_memory import unmap_code
    from josefine_lake.writer.process import Process, Wanted

    unmap_code()
    listen_at = admin_address(admin)
    # A broker's writer ends with it, even if the broker was killed.
    parent = int(os.environ.get("JOSEFINE_TABLES_PARENT", os.getppid()))
    with StopSignals() as signals:
        ended = signals.event(lambda: os.getppid() != parent, PARENT_S)
        wanted = Wanted(topics=tuple(topics), env=os.environ, session_timeout_ms=session_timeout_ms)
        security = configured_security(os.environ, where)

        def open_client() -> BlockingClient:
            # No notes about waits: a writer waits for records most of its time.
            return BlockingClient(where, client_id="josefine-tables", security=security)

        stats = ProcessStats()
        with admin_of(listen_at, stats) as at:
            note(f"health and metrics: http://{at}/health, http://{at}/metrics")
            Process(wanted, open_client, note, stats).run(ended)
    if signals.number == signal.SIGINT:  # SIGTERM is a service manager's stop: success
        raise typer.Exit(EXIT_SIGNAL + signal.SIGINT)


def _renames(pairs: list[str]) -> dict[str, str]:
    """Old name → new name. Raises UsageError."""
    found = {}
    for pair in pairs:
        old, separator, new = pair.partition("=")
        if not (old and separator and new):
            raise UsageError(f"--rename {pair}: expected OLD=NEW")
        found[old] = new
    return found


def _once(
    where: str, topics: list[str], *, trusts: bool, renames: Mapping[str, str], as_json: bool
) -> None:
    """Raises UserError if a table stopped."""
    from josefine_lake.writer.discovery import discover
    from josefine_lake.writer.little_memory import unmap_code
    from josefine_lake.writer.once import run_once

    unmap_code()
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
        for done in run_once(
            client, found.tables, os.environ, ended, trust=trusts, renames=renames
        ):
            stops += bool(done.stopped)
            if as_json:
                named = {"topic": done.table.topic, "location": done.table.location}
                print_json({**named, "rows": done.rows, "stopped": done.stopped})
            elif done.stopped:
                note(done.stopped)
            else:
                what = "rows" if done.table.mode.value == "append" else "changes"
                print(f"{done.table.topic}: {done.rows} {what} into {done.table.location}")
    if stops:
        raise UserError(f"{stops} of {len(found.tables) + len(found.wrong)} tables stopped")


@app.command()
def status(topics: Topics = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show each table: its lag in offsets and time, files, bytes, and why it is stopped.

    Reads tables, topics and the group's offsets; no writer has to run.

    \b
    Example: josefine tables status --topic orders
    """
    need("the tables of topics", *PACKAGES)
    from josefine_lake.writer.discovery import discover
    from josefine_lake.writer.lag_age import seconds
    from josefine_lake.writer.status import status as look

    with connect(bootstrap_of(bootstrap)) as client:
        found = discover(client, topics or [])
        states = list(look(client, found.tables, os.environ))
    if as_json:
        print_json([each.to_json() for each in states])
        return
    print_table(
        ("topic", "table", "format", "lag", "files", "bytes", "lag time", "state"),
        [
            (s.table.topic, s.table.location, s.table.format.value,
             "?" if s.lag is None else s.lag, s.files, s.bytes,
             seconds(s.lag_ms), "stopped" if s.stopped else "ok")
            for s in states
        ],
    )  # fmt: skip
    # A verdict is a paragraph with its commands: too long for a column.
    for each in states:
        if each.stopped:
            print(each.stopped)
    for topic, what in found.wrong.items():
        print(f"topic `{topic}`: {what}")
