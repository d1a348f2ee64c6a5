"""`josefine journal`: append to, read, delete from and purge journals of a topic.

All events of one input are one append, which is atomic. Events without numbers continue after the
journal's last one, and are refused if another writer appends in between. A verb that deletes events
asks for confirmation on a terminal and needs `--yes` without one.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from josefine_cli.base.client_config import configured_security
from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import (
    JSON_HELP,
    PATIENCE,
    agree,
    checked_addresses,
    note,
    parse_headers,
    plural,
    print_json,
)
from josefine_cli.base.waiting import waits
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.journal import snapshots
from josefine_cli.journal.events import FIELDS, as_line, as_object, parse_events
from josefine_cli.journal.move import move
from josefine_cli.journal.replicate import Store, check_store, is_stop, replicate
from josefine_cli.journal.snapshots import forget
from josefine_cli.journal.status import ids, status, tagged
from josefine_journal.blocking import BlockingJournal, BlockingJournals
from josefine_journal.durations import read_duration
from josefine_journal.events import SEQ_NR_MAX, SEQ_NR_MIN, Event, PayloadMetadata, SeqNr
from josefine_journal.records import PartitionOffset, RecordMetadata

app = typer.Typer(
    help="Append to, read, delete from and purge journals of events in a topic.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

INPUT_BYTES_MAX = 64 * 1024 * 1024
"""One append is one record; the default limit of a topic is a megabyte."""


Topic = Annotated[str, typer.Argument(help="The topic; it must exist.")]
Id = Annotated[str, typer.Argument(help="The journal's id.", metavar="ID")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@app.command()
def append(
    topic: Topic,
    journal_id: Id,
    file: Annotated[
        Path | None, typer.Argument(help="Events, one a line; stdin without one, or with '-'.")
    ] = None,
    expect: Annotated[
        int | None,
        typer.Option("--expect", min=0, help="The last number that you expect; 0: no event."),
    ] = None,
    expire_after: Annotated[
        str | None, typer.Option("--expire-after", help="Expiry of the journal, like '1 day'.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="Of the record; repeatable."),
    ] = None,
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Append events, all of them or none.

    A line is an object with any of seq_nr, tags and one of payload, text and payload_base64. Lines
    without seq_nr continue after the last number, and are refused if another writer was faster.

    \b
    echo '{"payload": {"deposit": 5}}' | josefine journal append accounts alice
    """
    lines = _lines(file)
    try:
        found = parse_events(lines)
    except ValueError as error:
        raise UserError(str(error)) from error
    if not found:
        raise UserError(f"there is no event in the input: a line is an object of {FIELDS[0]}, …")
    metadata = RecordMetadata(
        payload=PayloadMetadata(
            expire_after=None if expire_after is None else read_duration(expire_after)
        )
    )
    headers = parse_headers(header)
    with _journal(bootstrap, store, topic, journal_id, "appending to") as (journal, _):
        # Numbers that were derived from the last one are only valid if nobody appends in between:
        # then `expect` is set, and the append is refused.
        events, expect = _numbered(journal, found, expect)
        at = journal.append(events, metadata, headers, expect)
        if (warning := journal.retention_warning()) is not None:
            note(f"warning: {warning}")
    first, last = events[0].seq_nr, events[-1].seq_nr
    if as_json:
        print_json({**_place(topic, journal_id, at), "first_seq_nr": first, "last_seq_nr": last})
    else:
        summary = f"appended {plural(len(events), 'event')} to {journal_id}: "
        numbers = f"{first}" if first == last else f"{first} to {last}"
        print(f"{summary}{numbers}, partition {at.partition} offset {at.offset}")


@app.command()
def read(
    topic: Topic,
    journal_id: Id,
    start: Annotated[
        int, typer.Option("--from", min=SEQ_NR_MIN, help="The first sequence number.")
    ] = SEQ_NR_MIN,
    duplicates: Annotated[
        str,
        typer.Option(
            help="Where the store has two events of a number: 'stop', or 'skip' the later one.",
            metavar="stop|skip",
        ),
    ] = "stop",
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per event.")] = False,
) -> None:
    """Print a journal's events in order: all that exist at the time of the call.

    \b
    josefine journal read accounts alice
    josefine journal read accounts alice --from 100 --store data/store
    """
    stops = is_stop("--duplicates", duplicates)
    if sys.stdout is None:  # closed by the parent process, which typeshed does not know
        raise UserError("stdout is closed: there is nowhere to print events to")
    with _journal(bootstrap, store, topic, journal_id, "reading", unique_seq_nrs=stops) as (
        journal,
        moved,
    ):
        for record in journal.read(start):
            moved()
            if as_json:
                print_json(as_object(record))
            else:
                print(as_line(record))


@app.command()
def pointer(
    topic: Topic,
    journal_id: Id,
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Print a journal's last sequence number, also if its events are deleted.

    \b
    josefine journal pointer accounts alice
    """
    with _journal(bootstrap, store, topic, journal_id, "reading") as (journal, _):
        found = journal.pointer()
    if as_json:
        print_json({"topic": topic, "journal": journal_id, "pointer": found})
    elif found is None:
        note(f"journal '{journal_id}' is empty")
    else:
        print(found)


@app.command()
def delete(
    topic: Topic,
    journal_id: Id,
    to: Annotated[
        int | None, typer.Option("--to", min=SEQ_NR_MIN, help="The last event to delete.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All existing events; numbering continues.")
    ] = False,
    yes: Yes = False,
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete a journal's events up to one of them.

    \b
    josefine journal delete accounts alice --to 100
    josefine journal delete accounts alice --all --yes
    """
    # Deleting everything has to be said: a forgotten --to must not mean "all".
    if (to is None) != everything:
        raise UsageError("give either --to NUMBER or --all")
    which = "all events" if to is None else f"the events up to {to}"
    agree(f"Delete {which} of journal '{journal_id}'?", yes, "deleting")
    with _journal(bootstrap, store, topic, journal_id, "deleting from") as (journal, _):
        at = journal.delete(SEQ_NR_MAX if to is None else to)
    if as_json:
        place = {} if at is None else _place(topic, journal_id, at)
        print_json({"topic": topic, "journal": journal_id, "deleted": at is not None, **place})
    else:
        print(f"deleted {which} of {journal_id}" if at else f"{journal_id} is empty")


@app.command()
def purge(
    topic: Topic,
    journal_id: Id,
    yes: Yes = False,
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: AsJson = False,
) -> None:
    """Delete a whole journal; it may start again from 1. With a store its snapshots are deleted
    too.

    \b
    josefine journal purge accounts alice
    """
    agree(f"Purge journal '{journal_id}', its number with it?", yes, "purging")
    with _journal(bootstrap, store, topic, journal_id, "purging") as (journal, _):
        at = journal.purge()
    if store is not None:
        forget(store, topic, journal_id)
    if as_json:
        print_json(_place(topic, journal_id, at))
    else:
        print(f"purged {journal_id}")


app.command()(replicate)
app.command()(move)
app.command()(status)
app.command()(ids)
app.command()(tagged)
app.add_typer(snapshots.app, name="snapshot")


@contextlib.contextmanager
def _journal(
    bootstrap: str | None,
    store: str | None,
    topic: str,
    journal_id: str,
    doing: str,
    **options: Any,
) -> Iterator[tuple[BlockingJournal, Callable[[], None]]]:
    """The journal, with a wait registered for the block; the yielded function marks progress."""
    where = checked_addresses(bootstrap_of(bootstrap))
    with (
        BlockingJournals(
            where,
            topic,
            origin=socket.gethostname(),
            policy=PATIENCE,
            security=configured_security(os.environ, where),
            store=check_store(store),
            **options,
        ) as journals,
        waits(lambda: f"{doing} journal '{journal_id}' of topic '{topic}'") as moved,
    ):
        yield journals.journal(journal_id), moved


def _numbered(
    journal: BlockingJournal, found: Sequence[tuple[int | None, Event]], expect: int | None
) -> tuple[list[Event], int | None]:
    """The events with their numbers, and what they expect. Raises UserError."""
    events = [event for _, event in found]
    named = [number is not None for number, _ in found]
    if all(named):
        return events, expect
    if any(named):
        which = named.index(not named[0]) + 1
        raise UserError(f"event {which} of the input: give seq_nr in all events or in none")
    last = (journal.pointer() or 0) if expect is None else expect
    try:
        return [replace(each, seq_nr=SeqNr(last + each.seq_nr)) for each in events], last
    except ValueError as error:
        raise UserError(str(error)) from error


def _place(topic: str, journal_id: str, at: PartitionOffset) -> dict[str, Any]:
    place = {"partition": at.partition, "offset": at.offset}
    return {"topic": topic, "journal": journal_id, **place}


def _lines(file: Path | None) -> list[bytes]:
    """The whole input, which is one append. Raises UserError if it is larger than any record."""
    if file is not None and str(file) != "-":
        with file.open("rb") as stream:
            data = stream.read(INPUT_BYTES_MAX + 1)
    elif sys.stdin is None:  # which typeshed does not know
        raise UserError("stdin is closed: name an input file")
    else:
        data = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise UserError(
            f"the input has more than {INPUT_BYTES_MAX:,} bytes: one append is a record"
        )
    return data.split(b"\n")
