"""`josefine archive`: the archives of topics, for which retention waits."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

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

Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", "-t", help="Only this topic; repeatable.", autocompletion=topic_names),
]


@app.callback()
def archive() -> None:
    """Keep every record of a topic with `remote.storage.enable` in a Delta table.

    \b
    josefine topics create orders --config remote.storage.enable=true \\
      --config josefine.archive.location=/lake/orders-archive \\
      --config retention.ms=-1 --config local.retention.ms=86400000
    josefine archive run
    """


@app.command()
def run(
    topics: Topics = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when every archive has what its topic has now.")
    ] = False,
    trust: Annotated[
        str,
        typer.Option(
            help="`archive`: continue at the archive's end after a verdict; once, for one topic.",
            metavar="neither|archive",
        ),
    ] = "neither",
    target_lag: Annotated[
        str,
        typer.Option(
            "--target-lag", help=f"Largest time from the read of a record to its commit: {FORMS}."
        ),
    ] = "10s",
    admin: Annotated[
        str,
        typer.Option(
            envvar="JOSEFINE_ARCHIVE_ADMIN",
            help="Serve /health and /metrics here, without --once; port 0 is any free port.",
            metavar="HOST:PORT",
        ),
    ] = "127.0.0.1:0",
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Write the committed records of archived topics into their archives, each once.

    While it runs, brokers delete local segments that the archive has, by `local.retention.*`.
    After it ends they wait: within a minute nothing is deleted any more.

    \b
    josefine archive run
    josefine archive run --topic orders --once
    """
    if trust not in ("neither", "archive"):
        raise UsageError(f"--trust {trust}: expected neither or archive")
    if trust == "archive" and not (topics and len(topics) == 1 and once):
        raise UsageError("--trust archive is for one --topic, with --once: read its verdict first")
    # Before anything is opened: a writer with a wrong option must not start.
    lag_ms = duration_ms(target_lag)
    if not lag_ms:
        raise UsageError(f"--target-lag {target_lag}: expected a time such as {FORMS}")
    need("the archive's writer", *PACKAGES)
    from josefine_lake.writer import failpoints
    from josefine_lake.writer.little_memory import use_little_memory

    failpoints.arm(os.environ)
    use_little_memory(os.environ)
    where = checked_addresses(bootstrap_of(bootstrap))
    if once:
        _once(where, topics or [], trusts=trust == "archive", as_json=as_json)
    else:
        _always(where, topics or [], lag_ms, admin)


def _always(where: str, topics: list[str], lag_ms: int, admin: str) -> None:
    """Until Ctrl-C or SIGTERM. Raises UserError, UsageError for a wrong address."""
    from josefine_cli.base.writer_admin import admin_address, admin_of
    from josefine_lake.archive.process import archives
    from josefine_lake.report.metric_table import ARCHIVE
    from josefine_lake.report.table_stats import ProcessStats
    from josefine_lake.writer.little_memory import unmap_code
    from josefine_lake.writer.process import Process, Wanted

    unmap_code()
    listen_at = admin_address(admin)
    with StopSignals() as signals:
        ended = signals.event()
        security = configured_security(os.environ, where)

        def open_client() -> BlockingClient:
            return BlockingClient(where, client_id="josefine-archive", security=security)

        wanted = Wanted(topics=tuple(topics), env=os.environ, service=archives(lag_ms))
        stats = ProcessStats()
        with admin_of(listen_at, stats, ARCHIVE) as at:
            note(f"health and metrics: http://{at}/health, http://{at}/metrics")
            Process(wanted, open_client, note, stats).run(ended)
    if signals.number == signal.SIGINT:
        raise typer.Exit(EXIT_SIGNAL + signal.SIGINT)


def _found(client: BlockingClient, topics: list[str]) -> Any:
    """The archives of these topics, or all. Raises UserError for a topic without one."""
    from josefine_lake.archive.config import archive_topic
    from josefine_lake.writer.discovery import discover

    found = discover(client, topics, parse=archive_topic)
    missing = [each for each in topics if each not in {**found.tables, **found.wrong}]
    if missing:
        raise UserError(
            f"topic '{missing[0]}' has no archive: set remote.storage.enable=true and "
            f"josefine.archive.location with 'josefine topics alter {missing[0]} --config'"
        )
    return found


@contextmanager
def _archive_errors() -> Iterator[None]:
    """Report an archive that cannot be read as the user's error."""
    from deltalake.exceptions import DeltaError

    from josefine_lake.writer.verdicts import StoppedTable

    try:
        yield
    except StoppedTable as error:
        raise UserError(f"archive not read: {error}") from error
    except DeltaError as error:
        # The lines after the first one are places in the code of delta-rs.
        first = str(error).partition("\n")[0]
        raise UserError(f"archive not read: {first}") from error


def _once(where: str, topics: list[str], *, trusts: bool, as_json: bool) -> None:
    """Raises UserError if an archive stopped."""
    from josefine_lake.archive.once import run_once
    from josefine_lake.writer.little_memory import unmap_code

    unmap_code()

    stops = 0
    with StopSignals() as signals, connect(where) as client:
        found = _found(client, topics)
        for topic, what in found.wrong.items():
            stops += 1
            note(f"topic '{topic}': {what}")
        ended = lambda: signals.number is not None  # noqa: E731 - two words
        for done in run_once(client, found.tables, os.environ, ended, trust=trusts):
            stops += bool(done.stopped)
            if as_json:
                named = {"topic": done.table.topic, "location": done.table.location}
                print_json({**named, "records": done.rows, "stopped": done.stopped})
            elif done.stopped:
                note(done.stopped)
            else:
                print(f"{done.table.topic}: {done.rows} records into {done.table.location}")
    if stops:
        raise UserError(f"{stops} of {len(found.tables) + len(found.wrong)} archives stopped")


@app.command()
def verify(topics: Topics = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Read archives, and compare them with their logs' offsets and with what brokers still have.

    Each offset must be there once and below the archive's end, and each record that brokers have
    too must be the same. Fails with the first offset that is not.

    \b
    Example: josefine archive verify --topic orders
    """
    need("the archives of topics", *PACKAGES)
    from josefine_lake.archive.verify import verify as check

    bad = 0
    with connect(bootstrap_of(bootstrap)) as client:
        found = _found(client, topics or [])
        with _archive_errors():
            for each in check(client, found.tables, os.environ):
                bad += bool(each.wrong)
                if as_json:
                    print_json(each.to_json())
                elif each.wrong:
                    note(f"{each.topic}-{each.partition}: {each.wrong}")
                else:
                    print(
                        f"{each.topic}-{each.partition}: {each.records} records from offset "
                        f"{each.start} to {each.end}, {each.compared} of them also on brokers"
                    )
    if bad:
        raise UserError(f"{bad} archived partitions are not as they should be")


@app.command()
def serve(
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port on this machine; 0: any free one.")
    ] = 9650,
    bootstrap: Bootstrap = None,
) -> None:
    """Serve the records below the local log start to the brokers of this machine.

    Brokers read from it with `log.archive_reader_port` set to its port. It listens on 127.0.0.1
    alone, because it asks nobody who they are.

    \b
    Example: josefine archive serve --port 9650
    """
    need("the archive reader", *PACKAGES)
    from josefine_lake.writer.little_memory import use_no_pandas

    use_no_pandas()
    from josefine_lake.archive.serve import Archives
    from josefine_lake.archive.serve import serve as listen

    where = checked_addresses(bootstrap_of(bootstrap))
    security = configured_security(os.environ, where)
    with StopSignals() as signals:
        # The listener has threads of its own, so this one waits for an event.
        ended = signals.event()

        def open_client() -> BlockingClient:
            return BlockingClient(where, client_id="josefine-archive-reader", security=security)

        started = lambda at: print(f"serving archives on 127.0.0.1:{at}", flush=True)  # noqa: E731
        try:
            listen(port, Archives(open_client, os.environ), ended, started, note)
        except OSError as error:
            reason = f"{error.strerror}; choose another --port, or 0 for any free one"
            raise UserError(f"cannot listen on 127.0.0.1:{port}: {reason}") from error
    if signals.number == signal.SIGINT:
        raise typer.Exit(EXIT_SIGNAL + signal.SIGINT)


@app.command()
def status(topics: Topics = None, bootstrap: Bootstrap = None, as_json: AsJson = False) -> None:
    """Show each partition's local start, the archive's end, and why retention waits.

    Reads archives, topics and the group's offsets; no writer has to run.

    \b
    Example: josefine archive status --topic orders
    """
    need("the archives of topics", *PACKAGES)
    from josefine_lake.archive.status import hole
    from josefine_lake.archive.status import status as look
    from josefine_lake.writer.lag_age import seconds

    with connect(bootstrap_of(bootstrap)) as client:
        found = _found(client, topics or [])
        with _archive_errors():
            states = list(look(client, found.tables, os.environ))
    if as_json:
        print_json([each.to_json() for each in states])
        return
    print_table(
        ("partition", "local start", "archived", "reported", "stable end", "state"),
        [
            (f"{s.topic}-{p.partition}", p.local_start, p.archived,
             "-" if p.reported is None else p.reported, p.stable_end,
             "stopped" if s.stopped else "ok")
            for s in states
            for p in s.partitions
        ],
    )  # fmt: skip
    # A verdict is a paragraph with its commands: too long for a column.
    for each in states:
        print(f"{each.topic}: {each.files} files, {each.bytes} bytes in {each.location}")
        print(f"{each.topic}: lag of {each.lag} records, {seconds(each.lag_ms)}")
        if each.stopped:
            print(each.stopped)
        for p in each.partitions:
            if lost := hole(p):
                print(f"{each.topic}-{p.partition}: offsets {lost[0]} to {lost[1]} are in neither")
    for topic, what in found.wrong.items():
        print(f"topic `{topic}`: {what}")
