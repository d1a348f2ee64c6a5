"""Every way to append one to five events, at every state of store and topic: one answer.

After kafka-journal's JournalSpec. Its state "pointer behind the events" cannot be here: rows and
offset are one commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from josefine_broker.records.builder import Record
from josefine_journal.actions import Mark
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.head_cache import BYTES_MAX
from josefine_journal.journals import Journal, Journals
from josefine_journal.records import RecordMetadata, encode_append, headers_of
from josefine_journal.replicator import Replicator
from tests.support.journal import Model
from tests.support.journal_world import MemoryLog, MemoryStore

EVENTS_MAX = 5


def compositions(total: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a sum of numbers in an order.

    >>> sorted(compositions(3))
    [(1, 1, 1), (1, 2), (2, 1), (3,)]
    """
    if total == 0:
        yield ()
    for first in range(1, total + 1):
        for rest in compositions(total - first):
            yield (first, *rest)


def appends(composition: Sequence[int], first: int = 1) -> list[list[Event]]:
    made, number = [], first
    for size in composition:
        made.append([Event(seq_nr=SeqNr(n), payload=Json(n)) for n in range(number, number + size)])
        number += size
    return made


async def state(kind: str, log: MemoryLog, store: MemoryStore) -> None:
    """Replicate and retain: `behind` leaves the last appends to the topic, `marks` only marks."""
    if kind == "empty":
        return
    behind = int(kind[0]) if kind[0].isdigit() else 0
    size = 1 if behind else 10**6
    log.per_fetch = 1
    replicator = Replicator(log, store, (0,), batch_bytes_max=size, empty_commit_ms=0)
    end = (await log.end_offsets((0,)))[0]
    until = max(0, end - behind)
    while store.newest.ends.get(0, 0) < until:
        await replicator.round(0)
    if kind == "marks":
        for n in range(3):
            await log.write(0, Record(b"other", None, headers_of(Mark(id=str(n)), ()), 0))
    if kind.endswith("truncated"):
        log.retain(0, store.newest.ends.get(0, 0))


async def answers(journal: Journal, model: Model) -> None:
    for begin in (1, 2, EVENTS_MAX, EVENTS_MAX + 3):
        assert [each.event async for each in journal.read(begin)] == model.read(begin)
    assert await journal.pointer() == model.pointer


@pytest.mark.long_proof(share=5)
@pytest.mark.parametrize("cache", [0, BYTES_MAX], ids=["no cache", "cache"])
@pytest.mark.parametrize("copies", [1, 2], ids=["once", "duplicates"])
@pytest.mark.parametrize(
    "kind", ["empty", "consistent", "truncated", "marks", "1 behind", "3 behind", "2 truncated"]
)
def test_every_way_to_append_reads_the_same(kind: str, copies: int, cache: int) -> None:
    """Checklist row 58. The states of kafka-journal: empty, consistent, truncated below the store,
    some offsets behind, some actions behind."""

    async def run() -> None:
        for total in range(1, EVENTS_MAX + 1):
            for composition, deleted in product(compositions(total), {None, 1, total}):
                await one_case(kind, copies, cache, composition, deleted)

    asyncio.run(run())


async def one_case(
    kind: str, copies: int, cache: int, composition: tuple[int, ...], deleted: int | None
) -> None:
    log, store, model = MemoryLog(1), MemoryStore(), Model()

    async def write(given: list[Event]) -> None:
        action, value = encode_append(
            given, RecordMetadata(), origin=None, version=None, expected_seq_nr=None
        )
        for _ in range(copies):
            await log.write(0, Record(b"id", value, headers_of(action, ()), 0))

    def journal() -> Journal:
        return Journals(None, "t", log=log, store=store, head_cache_bytes_max=cache).journal("id")

    for given in appends(composition):
        await write(given)
        model.append(given)
    await state(kind, log, store)
    await answers(journal(), model)
    if deleted is not None:
        await journal().delete(deleted)
        model.delete(deleted)
        await answers(journal(), model)
        await state(kind, log, store)
    (more,) = appends((2,), first=sum(composition) + 1)
    await write(more)
    model.append(more)
    await answers(journal(), model)
    await state(kind, log, store)
    await answers(journal(), model)
    await journal().purge()
    model.purge()
    await answers(journal(), model)
    (anew,) = appends((1,))
    await write(anew)
    model.append(anew)
    await state(kind, log, store)
    await answers(journal(), model)
