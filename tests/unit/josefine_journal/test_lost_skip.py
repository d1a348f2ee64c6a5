"""What `replicate --lost skip` gives up: what is lost, and nothing that follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Purge
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import RecordsLost
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journal, Journals
from josefine_journal.merging import merge
from josefine_journal.ports import Store
from josefine_journal.records import RecordMetadata, encode_append, headers_of
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog, MemoryStore


def event(number: int, said: object = None) -> Event:
    return Event(seq_nr=SeqNr(number), payload=Json(said))


def appended(first: int, expected: int | None, said: object = None) -> Record:
    action, value = encode_append(
        [event(first, said)], RecordMetadata(), origin=None, version=None, expected_seq_nr=expected
    )
    return record(action, value)


def record(action: Action, value: bytes | None = None) -> Record:
    return Record(b"a", value, headers_of(action, (), 1), 0)


def write(log: MemoryLog, *records: Record) -> None:
    async def run() -> None:
        for each in records:
            await log.write(0, each)

    asyncio.run(run())


def round_of(log: MemoryLog, store: Store, **options: object) -> None:
    """Of a replicator that starts now."""
    one = Replicator(log, store, (0,), empty_commit_ms=0, **options)  # type: ignore[arg-type]
    while asyncio.run(one.round(0)).lag:
        pass


def journal(log: MemoryLog, store: Store, cache: int = 0) -> Journal:
    found = Journals(None, "t", log=log, store=store, head_cache_bytes_max=cache)
    return found.journal("a")


def read(log: MemoryLog, store: Store) -> list[tuple[int, object]]:
    async def run() -> list[tuple[int, object]]:
        found = [each.event async for each in journal(log, store).read()]
        last = await journal(log, store).pointer()
        assert last == (found[-1].seq_nr if found else None)
        return [(each.seq_nr, each.payload.value) for each in found]  # type: ignore[union-attr]

    return asyncio.run(run())


def lost_after(stored: Sequence[Record], lost: Sequence[Record], store: Store) -> MemoryLog:
    """A log that lost records before they were stored, and has another one of somebody."""
    log = MemoryLog(1)
    write(log, *stored)
    if stored:
        round_of(log, store)
    write(log, *lost, Record(b"x", b"y", (), 0))
    log.retain(0, len(stored) + len(lost))
    return log


STORES: list[Callable[[Path], Store]] = [
    lambda path: MemoryStore(),
    lambda path: DeltaStore(path, "t", None),
]


@pytest.mark.parametrize("opened", STORES, ids=["memory", "delta"])
@pytest.mark.parametrize("is_soon", [True, False], ids=["same round", "a later start"])
def test_later_events_continue_with_the_number_that_each_record_carries(
    opened: Callable[[Path], Store], is_soon: bool, tmp_path: Path
) -> None:
    store = opened(tmp_path)
    first = [appended(n, n - 1) for n in (1, 2, 3)]
    log = lost_after(first, [appended(n, n - 1) for n in (4, 5)], store)
    if not is_soon:
        round_of(log, store, passes_lost=True)
        assert read(log, store) == [(1, None), (2, None), (3, None)]
    write(log, appended(6, 5), appended(6, 5, "late"), appended(7, 6))
    if is_soon:
        with pytest.raises(RecordsLost, match="the records from 3 to 4 left"):
            round_of(log, store)
    else:
        assert [number for number, _ in read(log, store)] == [1, 2, 3, 6, 7]  # of the topic

    round_of(log, store, passes_lost=True)

    assert read(log, store) == [(1, None), (2, None), (3, None), (6, None), (7, None)]
    write(log, appended(7, 6, "late"), appended(8, 7))
    round_of(log, store)
    assert [number for number, _ in read(log, store)] == [1, 2, 3, 6, 7, 8]


def test_a_journal_whose_beginning_was_lost_begins_with_the_number_that_it_has() -> None:
    store = MemoryStore()
    log = lost_after([], [appended(1, 0), appended(2, 1)], store)
    write(log, appended(3, 2), appended(2, 1, "late"), appended(4, 3))
    round_of(log, store, passes_lost=True)
    assert read(log, store) == [(3, None), (4, None)]


def test_an_append_that_expected_less_than_was_there_stays_refused() -> None:
    store = MemoryStore()
    log = lost_after([appended(n, n - 1) for n in (1, 2, 3)], [appended(4, 3)], store)
    write(log, appended(3, 2, "late"), appended(5, 4))
    round_of(log, store, passes_lost=True)
    assert read(log, store) == [(1, None), (2, None), (3, None), (5, None)]


@pytest.mark.parametrize("opened", STORES, ids=["memory", "delta"])
def test_after_a_purge_the_number_is_known_again(
    opened: Callable[[Path], Store], tmp_path: Path
) -> None:
    """Also where merging has no row of it any more."""
    store = opened(tmp_path)
    log = lost_after([appended(1, 0)], [appended(2, 1)], store)
    write(log, record(Purge()))
    for _ in range(4):
        round_of(log, store, passes_lost=True)
        write(log, Record(b"b", *appended(1, None)[1:]))
    if isinstance(store, DeltaStore):
        merge(store, 0)
        assert len(store.snapshot((0,)).files(0)) == 1
    write(log, appended(3, 2, "late"))
    assert read(log, store) == []
    round_of(log, store)
    assert read(log, store) == []
    write(log, appended(1, 0))
    assert read(log, store) == [(1, None)]


def test_a_writer_that_knows_more_than_the_store_goes_on_from_there() -> None:
    store = MemoryStore()
    log = MemoryLog(1)

    async def run() -> None:
        before = journal(log, store)
        for n in (1, 2):
            await before.append([event(n)], expected_seq_nr=n - 1)
        log.retain(0, (await log.end_offsets((0,)))[0])
        passing = Replicator(log, store, (0,), passes_lost=True)
        while (await passing.round(0, is_last=True)).lag:
            pass
        await before.append([event(3)], expected_seq_nr=2)
        for cache in (0, 10**6):
            found = [each.event.seq_nr async for each in journal(log, store, cache).read()]
            assert found == [3]
        await journal(log, store).append([event(4)], expected_seq_nr=3)

    asyncio.run(run())


def test_a_replicator_at_work_forgets_the_numbers_that_it_knew_before_the_loss() -> None:
    log, store = MemoryLog(1), MemoryStore()
    at_work = Replicator(log, store, (0,), passes_lost=True)
    write(log, appended(1, 0))
    asyncio.run(at_work.round(0))
    write(log, appended(2, 1), Record(b"x", b"y", (), 0))
    log.retain(0, 2)
    write(log, appended(3, 2))
    for _ in range(2):
        asyncio.run(at_work.round(0, is_last=True))
    assert read(log, store) == [(1, None), (3, None)]


def test_a_purge_that_is_not_replicated_yet_makes_the_number_known_too() -> None:
    store = MemoryStore()
    log = lost_after([appended(1, 0)], [appended(2, 1)], store)
    round_of(log, store, passes_lost=True)
    write(log, record(Purge()), appended(3, 2, "late"), appended(1, 0))
    assert read(log, store) == [(1, None)]
    round_of(log, store)
    assert read(log, store) == [(1, None)]


def test_a_process_that_read_what_was_passed_over_agrees_with_those_that_did_not() -> None:
    """Else it would take an append for one that counts which all others refuse."""
    store, log = MemoryStore(), MemoryLog(1)

    async def run() -> None:
        at_work = journal(log, store)
        for n in (1, 2, 3):
            await at_work.append([event(n)], expected_seq_nr=n - 1)
            if n == 1:
                await Replicator(log, store, (0,)).round(0)
        log.retain(0, (await log.end_offsets((0,)))[0])
        passing = Replicator(log, store, (0,), passes_lost=True)
        while (await passing.round(0, is_last=True)).lag:
            pass
        assert await journal(log, store).pointer() == 1
        await journal(log, store).append([event(2)], expected_seq_nr=1)
        assert await at_work.pointer() == 2
        await at_work.append([event(3)], expected_seq_nr=2)
        found = [each.event.seq_nr async for each in journal(log, store).read()]
        assert found == [1, 2, 3]

    asyncio.run(run())
