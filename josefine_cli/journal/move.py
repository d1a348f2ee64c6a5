"""`josefine journal move`: the move of a widened topic's journals to their new partitions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Annotated

import typer

from josefine_cli.base.errors import UsageError
from josefine_cli.base.output import JSON_HELP, checked_addresses, plural, print_json
from josefine_cli.cluster.target import Bootstrap, bootstrap_of
from josefine_cli.journal.client import journal_client
from josefine_cli.journal.replicate import Store, check_store
from josefine_journal.failpoints import MOVE_PLACES, armed
from josefine_journal.moving import Moved, Mover
from josefine_journal.topic import TopicLog


def move(
    topic: Annotated[str, typer.Argument(help="The topic, which has got more partitions.")],
    count_before: Annotated[
        int | None,
        typer.Option(
            "--from",
            min=1,
            metavar="COUNT",
            help="The old partition count, if records of older programs do not have it.",
        ),
    ] = None,
    store: Store = None,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Move the journals of a widened topic to the partitions to which their ids map now.

    Stop its writers and set its retention to -1 before; name its store if it has one. After a
    failure run it again: it continues where it ended. Replicate the topic afterwards.

    \b
    josefine topics alter accounts --partitions 8
    josefine journal move accounts --store data/journals
    """
    check_store(store)
    where = checked_addresses(bootstrap_of(bootstrap))
    # Tests kill the move at named places through this variable; a misspelt one must not pass as a
    # run without failures.
    try:
        at = armed(os.environ.get("JOSEFINE_FAIL"), MOVE_PLACES)
    except ValueError as error:
        raise UsageError(str(error)) from error
    done = asyncio.run(_move(where, topic, store, count_before, at))
    if as_json:
        print_json(
            {
                "topic": topic,
                "partitions_before": done.count_before,
                "partitions": done.count,
                "journals": done.journals,
                "records": done.records,
            }
        )
    elif done.count_before is None:
        print(f"{topic}: its journals are where they belong, over {done.count} partitions")
    else:
        moved = f"{plural(done.journals, 'journal')} moved, {plural(done.records, 'record')} copied"
        print(f"{topic}: {moved}, from {done.count_before} to {done.count} partitions")


async def _move(
    where: str,
    topic: str,
    root: str | None,
    count_before: int | None,
    at: Callable[[str], None],
) -> Moved:
    async with journal_client(where, "josefine-move") as client:
        log = TopicLog(client, topic, holds_journals=False)
        count = await log.partition_count()
        if count_before is not None and count_before > count:
            raise UsageError(f"--from {count_before}: topic '{topic}' has {count} partitions")
        store, stored_count = None, None
        if root is not None:
            from josefine_journal.delta_store import DeltaStore

            store = DeltaStore(root, topic, log.topic_id)
            stored_count = await asyncio.to_thread(store.recorded_partition_count)
        mover = Mover(
            log, store, count, stored_count=stored_count, count_before=count_before, at=at
        )
        return await mover.run()
