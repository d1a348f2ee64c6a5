"""`josefine journal snapshot`: save, load, list and delete states of entities, without a broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_cli.base.errors import UsageError, UserError
from josefine_cli.base.output import JSON_HELP, agree, iso_time, note, plural, print_json
from josefine_cli.journal.events import parse_events, payload_fields, shown
from josefine_cli.journal.replicate import TheStore, check_store
from josefine_journal.events import SEQ_NR_MAX, SEQ_NR_MIN

if TYPE_CHECKING:
    from josefine_journal.entity_snapshots import EntitySnapshot
    from josefine_journal.snapshots import BlockingSnapshots

app = typer.Typer(
    help="Save, load, list and delete states of entities, stored next to their journals.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

INPUT_BYTES_MAX = 64 * 1024 * 1024

Topic = Annotated[str, typer.Argument(help="The journal's topic.")]
Id = Annotated[str, typer.Argument(help="The journal's id.", metavar="ID")]
From = Annotated[int, typer.Option("--from", min=SEQ_NR_MIN, help="The smallest number.")]
To = Annotated[int, typer.Option("--to", min=SEQ_NR_MIN, help="The largest number.")]
AsJson = Annotated[bool, typer.Option("--json", help=JSON_HELP)]


@app.command()
def save(
    topic: Topic,
    journal_id: Id,
    store: TheStore,
    file: Annotated[
        Path | None, typer.Argument(help="One line; stdin without one, or with '-'.")
    ] = None,
    keep: Annotated[int, typer.Option(min=1, help="Number of snapshots to keep.")] = 10,
) -> None:
    """Save a state: an object with seq_nr, the number of its last event, and one of payload, text
    and payload_base64.

    \b
    echo '{"seq_nr": 2, "payload": {"balance": 70}}' > state.json
    josefine journal snapshot save accounts alice state.json --store data/store
    """
    check_store(store)
    try:
        found = parse_events(_data(file).split(b"\n"))
    except ValueError as error:
        raise UserError(str(error)) from error
    if len(found) != 1 or found[0][0] is None or found[0][1].tags:
        raise UserError("the input must be one line: an object with seq_nr and a payload, no tags")
    event = found[0][1]
    _snapshots(store, topic, keep).save(journal_id, event.seq_nr, event.payload)
    print(f"saved the state of {journal_id} after event {event.seq_nr}")


@app.command()
def load(
    topic: Topic, journal_id: Id, store: TheStore, to: To = SEQ_NR_MAX, as_json: AsJson = False
) -> None:
    """Print the state with the largest number. Its entity continues with the events after it.

    \b
    josefine journal snapshot load accounts alice --store data/store
    """
    from josefine_journal.entity_snapshots import Criteria

    check_store(store)
    found = _snapshots(store, topic).load(journal_id, Criteria(max_seq_nr=to))
    if found is not None:
        _print(found, as_json)
    elif as_json:
        print_json(None)
    else:
        note(f"journal '{journal_id}' has no such snapshot")


@app.command("list")
def list_all(
    topic: Topic,
    journal_id: Id,
    store: TheStore,
    begin: From = SEQ_NR_MIN,
    to: To = SEQ_NR_MAX,
    as_json: Annotated[bool, typer.Option("--json", help="One object per state.")] = False,
) -> None:
    """Print a journal's states, the largest number first.

    \b
    josefine journal snapshot list accounts alice --store data/store
    """
    from josefine_journal.entity_snapshots import Criteria

    check_store(store)
    wanted = Criteria(min_seq_nr=begin, max_seq_nr=to)
    for each in _snapshots(store, topic).find(journal_id, wanted):
        _print(each, as_json)


@app.command()
def delete(
    topic: Topic,
    journal_id: Id,
    store: TheStore,
    begin: From = SEQ_NR_MIN,
    to: Annotated[
        int | None, typer.Option("--to", min=SEQ_NR_MIN, help="The largest number to delete.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Whatever their numbers.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a journal's states up to a number, or all.

    \b
    josefine journal snapshot delete accounts alice --store data/store --to 100
    """
    from josefine_journal.entity_snapshots import Criteria

    check_store(store)
    if (to is None) != everything:
        raise UsageError("give either --to NUMBER or --all")
    agree(f"Delete snapshots of journal '{journal_id}'?", yes, "deleting")
    wanted = Criteria(min_seq_nr=begin, max_seq_nr=SEQ_NR_MAX if to is None else to)
    count = _snapshots(store, topic).delete(journal_id, wanted)
    print(f"deleted {plural(count, 'snapshot')} of {journal_id}")


def forget(store: str, topic: str, journal_id: str) -> None:
    """Delete all snapshots of a purged journal."""
    _snapshots(store, topic).delete(journal_id)


def _snapshots(store: str, topic: str, keep: int = 10) -> BlockingSnapshots:
    from josefine_journal.snapshots import BlockingSnapshots

    return BlockingSnapshots(store, topic, kept_max=keep)


def _print(found: EntitySnapshot, as_json: bool) -> None:
    if not as_json:
        print(f"{found.seq_nr}\t{shown(found.payload)}")
        return
    fields: dict[str, Any] = {"seq_nr": found.seq_nr, **payload_fields(found.payload)}
    fields |= {"timestamp_ms": found.timestamp_ms, "time": iso_time(found.timestamp_ms)}
    if found.metadata is not None:
        fields["metadata"] = found.metadata
    print_json(fields)


def _data(file: Path | None) -> bytes:
    """The input. Raises UserError if it is too large."""
    if file is not None and str(file) != "-":
        with file.open("rb") as stream:
            data = stream.read(INPUT_BYTES_MAX + 1)
    elif sys.stdin is None:  # which typeshed does not know
        raise UserError("stdin is closed: name an input file")
    else:
        data = sys.stdin.buffer.read(INPUT_BYTES_MAX + 1)
    if len(data) > INPUT_BYTES_MAX:
        raise UserError(f"the input has more than {INPUT_BYTES_MAX:,} bytes")
    return data
