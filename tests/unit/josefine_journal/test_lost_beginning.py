"""A topic that lost its beginning: that is an error with the offsets, never an empty journal, a
number that starts again or an append that is passed over.
"""

from __future__ import annotations

import asyncio
from itertools import product

import pytest

from josefine_journal.errors import RecordsLost
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journal, Journals
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog, MemoryStore

EVENTS = 5


def event(number: int) -> Event:
    return Event(seq_nr=SeqNr(number), payload=Json(number))


async def all_of(journal: Journal, begin: int = 1) -> list[int]:
    return [each.event.seq_nr async for each in journal.read(begin)]


CALLS = {
    "read": all_of,
    "pointer": lambda journal: journal.pointer(),
    "append expecting the last": lambda journal: journal.append([event(6)], expected_seq_nr=5),
    "append expecting none": lambda journal: journal.append([event(1)], expected_seq_nr=0),
    "delete": lambda journal: journal.delete(),
}


@pytest.mark.parametrize("call", CALLS)
def test_every_call_that_looks_is_told_unless_the_store_has_the_beginning(call: str) -> None:
    async def one_case(expects: bool, lost: int, stored: int | None) -> None:
        """The events are at offsets 0 to 4; the store, if there is one, has the first ones."""
        log, store = MemoryLog(1, per_fetch=1), None if stored is None else MemoryStore()
        writer = Journals(None, "t", log=log).journal("a")
        for n in range(1, EVENTS + 1):
            await writer.append([event(n)], expected_seq_nr=n - 1 if expects else None)
            if store is not None and n == stored:
                await Replicator(log, store, (0,)).round(0)
        log.retain(0, lost)
        count = (await log.end_offsets((0,)))[0]
        journal = Journals(None, "t", log=log, store=store).journal("a")
        if lost <= (stored or 0):
            if call == "read":
                assert await all_of(journal) == [1, 2, 3, 4, 5]
            return
        with pytest.raises(RecordsLost) as told:
            await CALLS[call](journal)
        assert (told.value.begin, told.value.end) == (stored or 0, lost)
        if "append" in call:
            assert (await log.end_offsets((0,)))[0] == count, "it was written all the same"

    async def run() -> None:
        for case in product((False, True), range(EVENTS + 1), (None, 0, 2, 5)):
            await one_case(*case)

    asyncio.run(run())


def test_a_purge_after_the_lost_part_makes_the_journal_certain_again() -> None:
    async def run() -> None:
        log = MemoryLog(1)
        old, other = (Journals(None, "t", log=log).journal(key) for key in "ab")
        for n in (1, 2):
            await old.append([event(n)])
            await other.append([event(n)])
        log.retain(0, 3)
        await Journals(None, "t", log=log).journal("a").purge()
        journal = Journals(None, "t", log=log).journal("a")
        await journal.append([event(1)], expected_seq_nr=0)
        assert (await all_of(journal), await journal.pointer()) == ([1], 1)
        with pytest.raises(RecordsLost):
            await Journals(None, "t", log=log).journal("b").pointer()

    asyncio.run(run())


def test_a_purge_for_an_append_that_may_not_be_the_last_makes_nothing_certain() -> None:
    async def run() -> None:
        log = MemoryLog(1)
        writer = Journals(None, "t", log=log).journal("a")
        await writer.append([event(1)])
        second = await writer.append([event(2)])
        await writer.append([event(3)], expected_seq_nr=2)
        await writer.purge(expected_offset=second.offset)  # void: event 3 followed
        log.retain(0, 1)
        with pytest.raises(RecordsLost):
            await all_of(Journals(None, "t", log=log).journal("a"))

    asyncio.run(run())


def test_a_process_that_read_the_journal_before_goes_on_from_there() -> None:
    async def run() -> None:
        log = MemoryLog(1)
        journal = Journals(None, "t", log=log).journal("a")
        await journal.append([event(1)], expected_seq_nr=0)
        log.retain(0, 1)
        await journal.append([event(2)], expected_seq_nr=1)
        assert (await journal.pointer(), await all_of(journal, 3)) == (2, [])
        with pytest.raises(RecordsLost):
            await all_of(journal)

    asyncio.run(run())


def test_an_append_whose_place_was_lost_meanwhile_is_told_with_the_offsets() -> None:
    async def run() -> None:
        log = MemoryLog(1)
        journal = Journals(None, "t", log=log).journal("a")
        await journal.append([event(1)], expected_seq_nr=0)
        await Journals(None, "t", log=log).journal("b").append([event(1)])
        log.retain(0, 2)
        with pytest.raises(RecordsLost, match=r"records from 1 to 1 .* it is unknown whether"):
            await journal.append([event(2)], expected_seq_nr=1)

    asyncio.run(run())
