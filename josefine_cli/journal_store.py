"""`josefine journal replicate` and `status`: what carries journals into their store, and how far
it is. The store is a folder; `--store` names it here and in the verbs that read journals.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from josefine_broker.base.durations import FORMS, duration_ms
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_asyncio import EARLIEST, AsyncClient
from josefine_cli.cluster_where import Bootstrap, bootstrap_of
from josefine_cli.errors import EXIT_SIGNAL, UsageError
from josefine_cli.extras import need
from josefine_cli.output import (
    JSON_HELP,
    PATIENCE,
    checked_addresses,
    note,
    plural,
    print_json,
    print_table,
)
from josefine_journal.failpoints import armed
from josefine_journal.topic import TopicLog

if TYPE_CHECKING:
    from josefine_journal.replicating import Replicating
    from josefine_journal.replicator import Replicator, Round

STORE_HELP = "The folder of the journals' store."
Topic = Annotated[str, typer.Argument(help="The topic; it must exist.")]
Store = Annotated[
    Path | None,
    typer.Option("--store", envvar="JOSEFINE_JOURNAL_STORE", help=STORE_HELP, metavar="DIRECTORY"),
]
TheStore = Annotated[
    Path,
    typer.Option("--store", envvar="JOSEFINE_JOURNAL_STORE", help=STORE_HELP, metavar="DIRECTORY"),
]
TELL_MS = 10_000
"""A replicator at work says so as often; one with nothing to do is silent."""


def check_store(store: Path | None) -> Path | None:
    """The same, where the packages are there that read it. Raises UserError."""
    if store is not None:
        need("the store of journals", "deltalake", "pyarrow")
    return store


def replicate(
    topic: Topic,
    store: TheStore,
    partitions: Annotated[
        str | None, typer.Option(help="Only these, like 0,2,5; default: all.", metavar="NUMBERS")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="End when everything is replicated.")
    ] = False,
    interval: Annotated[
        str, typer.Option(help=f"Between looks at a topic where nothing is new: {FORMS}.")
    ] = "1s",
    lost: Annotated[
        str,
        typer.Option(
            help="Records that left the topic before they were stored: 'stop', or 'skip' them.",
            metavar="stop|skip",
        ),
    ] = "stop",
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help="One object per commit.")] = False,
) -> None:
    """Carry a topic's journals into their store, until stopped.

    Each event is stored once, however often this dies; several of these for the same partitions do
    no harm. Start it again after any error: it goes on where the store ends.

    \b
    josefine journal replicate accounts --store data/journals
    """
    check_store(store)
    asked = _Asked(
        topic=topic,
        store=store,
        partitions=None if partitions is None else _numbers(partitions),
        once=once,
        interval_ms=_interval_ms(interval),
        passes_lost=_passes_lost(lost),
        at=_failpoint(),
        as_json=as_json,
    )
    number = asyncio.run(_replicate(checked_addresses(bootstrap_of(bootstrap)), asked))
    if number == signal.SIGINT:
        raise typer.Exit(EXIT_SIGNAL + number)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What the command line of `replicate` says."""

    topic: str
    store: Path
    partitions: Sequence[int] | None
    once: bool
    interval_ms: int
    passes_lost: bool
    at: Callable[[str], None]
    as_json: bool


async def _replicate(bootstrap: str, asked: _Asked) -> int | None:
    """Until it ends; the signal that ended it."""
    from josefine_journal.delta_store import DeltaStore
    from josefine_journal.replicating import Replicating
    from josefine_journal.replicator import EMPTY_COMMIT_MS, Replicator

    async with AsyncClient(bootstrap, client_id="josefine-replicator", policy=PATIENCE) as client:
        log = TopicLog(client, asked.topic)
        topic_id = await _topic_id(log, asked.partitions)
        store = DeltaStore(asked.store, asked.topic, topic_id, at=asked.at)
        replicator = Replicator(
            log,
            store,
            asked.partitions or range(await log.partition_count()),
            passes_lost=asked.passes_lost,
            empty_commit_ms=0 if asked.once else EMPTY_COMMIT_MS,
            at=asked.at,
        )
        telling = _Telling(asked.topic, replicator, asked.as_json)
        work = Replicating(
            replicator,
            store,
            tell_round=telling.round,
            tell_trouble=telling.trouble,
            interval_ms=asked.interval_ms,
        )
        return await _until_signal(work, asked.once, telling)


def _interval_ms(text: str) -> int:
    found = duration_ms(text)
    if not found:
        raise UsageError(f"--interval {text}: a time is like {FORMS}")
    return found


def _passes_lost(text: str) -> bool:
    if text not in ("stop", "skip"):
        raise UsageError(f"--lost {text}: it is stop or skip")
    return text == "skip"


def _failpoint() -> Callable[[str], None]:
    try:
        return armed(os.environ.get("JOSEFINE_FAIL"))
    except ValueError as error:
        raise UsageError(str(error)) from error


def _numbers(text: str) -> Sequence[int]:
    found = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() for part in found):
        raise UsageError(f"--partitions {text}: numbers with commas between them, like 0,2,5")
    return sorted({int(part) for part in found})


async def _topic_id(log: TopicLog, partitions: Sequence[int] | None) -> Any:
    """Which is known with the topic's partitions. Raises UsageError for one that is not there."""
    count = await log.partition_count()
    for partition in partitions or ():
        if partition >= count:
            raise UsageError(
                f"topic '{log.topic}' has {plural(count, 'partition')}: 0 to {count - 1}"
            )
    return log.topic_id


async def _until_signal(work: Replicating, once: bool, telling: _Telling) -> int | None:
    """The signal that ended it: between two commits, or behind one that was under way."""
    running = asyncio.ensure_future(work.run(until_caught_up=once))
    came: list[int] = []

    def stop(number: int) -> None:
        came.append(number)
        running.cancel()
        loop.remove_signal_handler(number)  # the second one acts as if nobody listened

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    telling.say()
    return came[0] if came else None


class _Telling:
    """Says what a replicator did: on stderr for people, an object per commit for scripts."""

    def __init__(self, topic: str, replicator: Replicator, as_json: bool) -> None:
        self._topic = topic
        self._replicator = replicator
        self._as_json = as_json
        self._rows = self._records = 0
        self._told: set[int] = set()
        self._next_s = 0.0
        self._said = ""
        self._last: Round | None = None

    def round(self, found: Round) -> None:
        now_s = asyncio.get_running_loop().time()
        self._rows += found.rows
        self._records += found.records if found.committed else 0
        self._last = found
        for lost in found.lost:
            note(f"{lost}; passed over")
        for partition, error in self._replicator.stalled.items():
            if partition not in self._told:
                self._told.add(partition)
                note(f"partition {self._topic}-{partition} stopped at a record: {error}")
        if found.committed and self._as_json:
            ends = {str(p): end for p, end in sorted(found.replicated.items())}
            print_json(
                {"topic": self._topic, "rows": found.rows, "replicated": ends, "lag": found.lag}
            )
            sys.stdout.flush()
        if found.committed and now_s >= self._next_s:
            self._next_s = now_s + TELL_MS / 1_000
            self.say()

    def trouble(self, error: Exception, wait_ms: int) -> None:
        note(f"{error}; again in {wait_ms / 1_000:.0f} s")

    def say(self) -> None:
        if self._last is None:
            return
        lag = "nothing" if not self._last.lag else plural(self._last.lag, "record")
        said = f"{plural(self._records, 'record')}, {plural(self._rows, 'row')} stored"
        sentence = f"{self._topic}: {said}, {lag} to be replicated"
        if sentence != self._said:
            self._said = sentence
            note(sentence)


def status(
    topic: Topic,
    store: TheStore,
    bootstrap: Bootstrap = None,
    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
) -> None:
    """Show how far a topic's journals are in their store, and what retention may take."""
    check_store(store)
    where = checked_addresses(bootstrap_of(bootstrap))
    rows = asyncio.run(_status(where, topic, store))
    if as_json:
        print_json({"topic": topic, "store": str(store), "partitions": rows})
        return
    columns = ("partition", "log from", "log to", "stored to", "to do", "lost", "files", "rows")
    print_table(columns, [tuple(row.values()) for row in rows])


async def _status(where: str, topic: str, store: Path) -> list[dict[str, int]]:
    from josefine_journal.delta_store import DeltaStore

    async with AsyncClient(where, client_id="josefine-cli", policy=PATIENCE) as client:
        log = TopicLog(client, topic)
        partitions = range(await log.partition_count())
        delta = DeltaStore(store, topic, log.topic_id)
        snapshot = await asyncio.to_thread(delta.snapshot, partitions)
        ends = await log.end_offsets(partitions)
        asked = {TopicPartition(topic, partition): EARLIEST for partition in partitions}
        starts = await client.list_offsets(asked)
    rows = []
    for partition in partitions:
        start = starts[TopicPartition(topic, partition)].offset
        stored = snapshot.replicated(partition) or 0
        files = snapshot.files(partition)
        rows.append(
            {
                "partition": partition,
                "log_start": start,
                "log_end": ends[partition],
                "stored_end": stored,
                "lag": max(0, ends[partition] - max(start, stored)),
                "lost": max(0, start - stored),
                "files": len(files),
                "rows": sum(each.rows for each in files),
            }
        )
    return rows
