"""`josefine journal status`, `ids` and `tagged`: queries over all journals of a store."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_cli.base.errors import UserError
from josefine_cli.base.output import JSON_HELP, checked_addresses, note, print_json, print_table
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.journal.client import journal_client
from josefine_cli.journal.events import as_line, as_object
from josefine_cli.journal.replicate import TheStore, check_store
from josefine_cli.journal.replicate_report import tell_restored
from josefine_journal.topic import TopicLog

if TYPE_CHECKING:
    from josefine_journal.store_snapshot import DeltaSnapshot

Topic = Annotated[str, typer.Argument(help="The topic; it must exist.")]
StoredTopic = Annotated[str, typer.Argument(help="The topic that was replicated.")]


def status(
    topic: Topic,
    store: TheStore,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show how far a topic's journals are replicated, and what retention may delete.

    \b
    josefine journal status accounts --store data/store
    """
    check_store(store)
    where = checked_addresses(bootstrap_of(bootstrap))
    rows, taken_back = asyncio.run(_status(where, topic, store))
    tell_restored(topic, taken_back)
    if as_json:
        print_json({"topic": topic, "store": str(store), "partitions": rows})
        return
    columns = ("partition", "log from", "log to", "stored to", "to do", "lost", "files", "rows")
    print_table(columns, [tuple(row.values())[: len(columns)] for row in rows])
    for row in rows:
        for begin, end in row["lost_ranges"]:
            note(f"partition {topic}-{row['partition']}: records {begin} to {end - 1} are lost")


async def _status(
    where: str, topic: str, store: str
) -> tuple[list[dict[str, Any]], Mapping[int, tuple[int, int]]]:
    from josefine_journal.delta_store import DeltaStore
    from josefine_journal.lost_ranges import lost_ranges

    async with journal_client(where, "josefine-cli") as client:
        log = TopicLog(client, topic)
        partitions = range(await log.partition_count())
        delta = DeltaStore(store, topic, log.topic_id, partition_count=len(partitions))
        snapshot = await asyncio.to_thread(delta.snapshot, partitions)
        taken_back = await asyncio.to_thread(delta.taken_back, partitions)
        # The store is read before the topic's ends: a commit in between makes the lag too large for
        # a moment, never negative.
        ends = await log.end_offsets(partitions)
        starts = await log.start_offsets(partitions)
        stored_ends = {p: snapshot.replicated(p) or 0 for p in partitions}
        lost = {p: await lost_ranges(log, p, stored_ends[p], ends[p]) for p in partitions}
    rows = []
    for partition in partitions:
        start, stored = starts[partition], stored_ends[partition]
        files = snapshot.files(partition)
        rows.append(
            {
                "partition": partition,
                "log_start": start,
                "log_end": ends[partition],
                "stored_end": stored,
                "lag": max(0, ends[partition] - max(start, stored)),
                "lost": sum(end - begin for begin, end in lost[partition]),
                "files": len(files),
                "rows": sum(each.rows for each in files),
                "lost_ranges": lost[partition],
            }
        )
    return rows, taken_back


def ids(
    topic: StoredTopic,
    store: TheStore,
    as_json: Annotated[bool, typer.Option("--json", help="One object per journal.")] = False,
) -> None:
    """Print the ids of a topic's replicated journals; needs no broker.

    \b
    josefine journal ids accounts --store data/store
    """
    check_store(store)
    from josefine_journal.queries import ids as ids_of

    for snapshot, partition in _stored(topic, store):
        for key in ids_of(snapshot, partition):
            if as_json:
                print_json({"topic": topic, "partition": partition, "journal": key})
            else:
                print(key)


def tagged(
    topic: StoredTopic,
    tag: Annotated[str, typer.Argument(help="The tag.")],
    store: TheStore,
    as_json: Annotated[bool, typer.Option("--json", help="One object per event.")] = False,
) -> None:
    """Print the replicated events that have a tag; needs no broker.

    \b
    josefine journal tagged accounts large --store data/store
    """
    check_store(store)
    from josefine_journal.queries import tagged as tagged_of

    for snapshot, partition in _stored(topic, store):
        for key, record in tagged_of(snapshot, partition, tag):
            if as_json:
                print_json({"journal": key, **as_object(record)})
            else:
                print(f"{key}  {as_line(record)}")


def _stored(topic: str, root: str) -> Iterator[tuple[DeltaSnapshot, int]]:
    """Each partition of the store. Raises UserError if there is no store."""
    from josefine_journal.delta_store import DeltaStore

    store = DeltaStore(root, topic, None)
    found = store.partitions()
    if not found:
        raise UserError(f"there is no store of topic '{topic}' in {root}")
    snapshot = store.snapshot(found)
    for partition in found:
        yield snapshot, partition
