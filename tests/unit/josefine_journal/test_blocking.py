"""The blocking journal: the same calls without an event loop, and streams that are closed."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest

from josefine_journal.blocking import BlockingJournal, BlockingJournals
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from tests.support.journal_world import MemoryLog, MemoryStore

EVENTS = [Event(seq_nr=SeqNr(number), payload=Json(number)) for number in range(1, 6)]


class Owner:
    """In place of `BlockingJournals`."""

    def retention_warning(self) -> None:
        return None


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as made:
        yield made


def journal_of(runner: asyncio.Runner, journal: Any = None) -> BlockingJournal:
    log = MemoryLog(1, per_fetch=1)
    made = journal or Journals(None, "t", log=log, store=MemoryStore()).journal("id")
    owner: Any = Owner()
    return BlockingJournal(runner, made, owner)


def test_what_is_appended_is_read_from_a_number_on(runner: asyncio.Runner) -> None:
    journal = journal_of(runner)

    journal.append(EVENTS)

    assert [each.event for each in journal.read()] == EVENTS
    assert [each.event.seq_nr for each in journal.read(4)] == [4, 5]
    assert journal.pointer() == 5


def test_deleted_and_purged_events_are_not_read(runner: asyncio.Runner) -> None:
    journal = journal_of(runner)
    journal.append(EVENTS)

    journal.delete(3)
    assert [each.event.seq_nr for each in journal.read()] == [4, 5]
    journal.purge()
    assert [*journal.read()] == []
    assert journal.pointer() is None


def test_a_stream_that_is_not_read_to_its_end_is_closed_with_its_generator(
    runner: asyncio.Runner,
) -> None:
    closed = []

    class Endless:
        async def chunks(self, begin: int) -> AsyncGenerator[list[int], None]:
            try:
                while True:
                    yield [begin]
            finally:
                closed.append(begin)

    events = journal_of(runner, Endless()).read(7)

    assert next(events) == 7  # type: ignore[comparison-overlap]
    assert closed == []
    events.close()  # type: ignore[attr-defined]
    assert closed == [7]


def test_an_address_that_is_none_is_refused_and_closing_needs_no_broker() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        BlockingJournals("nowhere", "t")
    with BlockingJournals("127.0.0.1:1", "t") as journals:
        assert isinstance(journals.journal("id"), BlockingJournal)
