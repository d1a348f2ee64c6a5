"""A replicator's rounds over a log and a store in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest

from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER, Mark
from josefine_journal.dead_letters import letter
from josefine_journal.errors import JournalError, RecordsLost, StoreError
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.records import RecordMetadata, encode_append, headers_of
from josefine_journal.replicator import EMPTY_COMMIT_MS, Replicator, Round
from josefine_journal.taking import DeadLetter
from tests.support.journal_world import MemoryLog, MemoryStore


def appended(key: str, number: int, expected: int | None = None) -> Record:
    event = Event(seq_nr=SeqNr(number), payload=Json(number))
    action, value = encode_append(
        [event], RecordMetadata(), origin=None, version=None, expected_seq_nr=expected
    )
    return Record(key.encode(), value, headers_of(action, ()), 0)


MARK = Record(b"a", None, headers_of(Mark(id="m"), ()), 0)


def log_of(*partitions: Sequence[Record]) -> MemoryLog:
    log = MemoryLog(len(partitions))
    write(log, *partitions)
    return log


def write(log: MemoryLog, *partitions: Sequence[Record]) -> None:
    async def run() -> None:
        for partition, records in enumerate(partitions):
            for record in records:
                await log.write(partition, record)

    asyncio.run(run())


def rounds(replicator: Replicator, *times_ms: int) -> list[Round]:
    return [asyncio.run(replicator.round(now_ms)) for now_ms in times_ms]


def pointer(store: MemoryStore, partition: int, key: str) -> int | None:
    return store.newest.outline(partition, key).pointer


def test_who_is_overtaken_in_one_partition_forgets_what_it_did_not_store_of_the_others() -> None:
    log, store = log_of([appended("a", 1, 0)], [appended("b", 1, 0)]), MemoryStore()
    both, other = Replicator(log, store, (0, 1)), Replicator(log, store, (0,))
    store.at = lambda place: None
    rounds(both, 0)
    write(log, [appended("a", 2, 1)], [appended("b", 2, 1)])

    async def race() -> list[Round]:
        return list(await asyncio.gather(other.round(0), both.round(0)))

    overtaken = [each.overtaken for each in asyncio.run(race())]
    rounds(both, 0)

    assert any(overtaken), "nobody was overtaken: this shows nothing"
    assert (pointer(store, 0, "a"), pointer(store, 1, "b")) == (2, 2)


def test_marks_alone_are_committed_once_a_minute() -> None:
    log, store = log_of([MARK, MARK]), MemoryStore()
    replicator = Replicator(log, store, (0,))

    at_once, soon, late = rounds(replicator, 0, EMPTY_COMMIT_MS - 1, EMPTY_COMMIT_MS)

    assert (at_once.committed, at_once.behind, at_once.lag) == ((), 0, 2)
    assert (soon.records, soon.committed) == (0, ())  # and are not read again meanwhile
    assert (late.committed, store.newest.ends) == ((0,), {0: 2})


def test_a_round_takes_what_fits_and_tells_what_is_left() -> None:
    log = log_of([appended("a", n) for n in range(1, 7)])
    store = MemoryStore()

    first, second, third = rounds(Replicator(log, store, (0,), batch_bytes_max=1), 0, 0, 0)

    assert [(each.rows, each.behind) for each in (first, second, third)] == [(3, 3), (3, 0), (0, 0)]


def test_a_record_that_cannot_be_read_stops_its_partition_before_it() -> None:
    """Checklist row 81."""
    poison = Record(b"a", None, ((ACTION_HEADER, b"{"),), 0)
    log = log_of([appended("a", 1), poison, appended("b", 1)], [appended("c", 1)])
    store = MemoryStore()
    replicator = Replicator(log, store, (0, 1))

    first, second = rounds(replicator, 0, 0)

    assert store.newest.ends == {0: 1, 1: 1}
    assert "t-0 offset 1" in str(replicator.stalled[0])
    assert (first.behind, second.records, second.lag) == (0, 0, 2)


def test_damaged_record_of_nobody_is_passed_over() -> None:
    """No journal's reader can ask for it."""
    keys = (None, b"", b"\xff")
    log = log_of([Record(key, b"", ((ACTION_HEADER, b"{"),), 0) for key in keys])
    store = MemoryStore()
    rounds(Replicator(log, store, (0,), empty_commit_ms=0), 0)
    assert store.newest.ends == {0: 3}


def test_records_that_are_gone_are_an_error_with_their_offsets_or_told_and_passed_over() -> None:
    """Checklist row 83."""
    log, store = log_of([appended("a", n) for n in range(1, 6)]), MemoryStore()
    log.retain(0, 3)

    with pytest.raises(RecordsLost, match="partition t-0: the records from 0 to 2 left the topic"):
        rounds(Replicator(log, store, (0,)), 0)
    assert store.newest.ends == {}
    passing = Replicator(log, store, (0,), passes_lost=True)
    first, second = rounds(passing, 0, 0)

    assert [(each.begin, each.end) for each in first.lost] == [(0, 3)]
    assert (second.lost, second.rows, store.newest.ends) == ((), 2, {0: 5})


def test_log_that_ends_before_its_store_is_another_one() -> None:
    log, store = log_of([appended("a", 1), appended("a", 2)]), MemoryStore()
    rounds(Replicator(log, store, (0,)), 0)
    with pytest.raises(StoreError, match="t-0 ends at 1, its store at 2"):
        rounds(Replicator(log_of([appended("a", 1)]), store, (0,)), 0)


@pytest.mark.parametrize("where", ["before_commit", "after_commit"])
def test_a_commit_of_which_nobody_knows_is_found_out_by_the_next_round(where: str) -> None:
    """Checklist row 77."""
    log, store = log_of([appended("a", 1, 0), appended("a", 2, 1)]), MemoryStore()
    replicator = Replicator(log, store, (0,))

    def fail(place: str) -> None:
        if place == where:
            raise OSError("the disk is full")

    store.at = fail
    with pytest.raises(OSError, match="full"):
        rounds(replicator, 0)
    store.at = lambda place: None
    rounds(replicator, 0)

    assert [each.offset for each in store.newest.rows[0, "a"]] == [0, 1]


def test_store_is_asked_for_no_number_that_nobody_needs() -> None:
    log, store = log_of([appended("a", 1), appended("b", 1, 0)]), MemoryStore()
    asked: list[Sequence[str]] = []
    plain = store.newest.lasts

    def lasts(partition: int, keys: Sequence[str]) -> object:
        asked.append(keys)
        return plain(partition, keys)

    store.newest.lasts = lasts  # type: ignore[method-assign, assignment]
    replicator = Replicator(log, store, (0,))
    rounds(replicator, 0)
    write(log, [appended("b", 2, 1)])
    store.newest.lasts = lasts  # type: ignore[method-assign, assignment]
    rounds(replicator, 0)

    assert asked == [["b"]]
    assert pointer(store, 0, "b") == 2


def test_a_dead_letter_goes_its_way_and_stops_nobody() -> None:
    """Checklist rows 81 and 82. Its place is stored behind it, and so are all other journals."""
    poison = Record(b"a", b"x", ((ACTION_HEADER, b"{"),), 0)
    log = log_of([appended("a", 1), poison, appended("b", 1), appended("a", 2)])
    store, buried = MemoryStore(), []

    async def bury(letter: DeadLetter) -> None:
        assert store.newest.ends.get(0, 0) <= letter.record.offset, "it was stored before"
        buried.append((letter.partition, letter.record.offset, str(letter.error)))

    (first,) = rounds(Replicator(log, store, (0,), bury=bury), 0)

    assert [each[:2] for each in buried] == [(0, 1)]
    assert "t-0 offset 1" in buried[0][2]
    assert (store.newest.ends, first.rows, len(first.dead)) == ({0: 4}, 3, 1)
    assert (pointer(store, 0, "a"), pointer(store, 0, "b")) == (2, 1)


def test_a_dead_letter_that_cannot_be_written_is_not_passed_over() -> None:
    """Checklist row 81."""
    poison = Record(b"a", b"x", ((ACTION_HEADER, b"{"),), 0)
    log, store = log_of([appended("a", 1), poison]), MemoryStore()

    async def bury(letter: DeadLetter) -> None:
        raise OSError("no broker")

    with pytest.raises(OSError, match="no broker"):
        rounds(Replicator(log, store, (0,), bury=bury), 0)
    assert store.newest.ends == {}


def test_a_value_that_cannot_be_read_harms_its_own_journal_only() -> None:
    """Checklist row 82. It is stored as it is."""
    broken = appended("a", 1)._replace(value=b'{"expireAfter": broken')
    log, store = log_of([broken, appended("b", 1)]), MemoryStore()
    rounds(Replicator(log, store, (0,)), 0)
    assert store.newest.rows[0, "a"][0].value == broken.value
    assert pointer(store, 0, "b") == 1


def test_the_last_round_stores_what_only_marks_reached() -> None:
    log, store = log_of([MARK, MARK]), MemoryStore()
    replicator = Replicator(log, store, (0,))
    rounds(replicator, 0)
    assert store.newest.ends == {}
    asyncio.run(replicator.round(1, is_last=True))
    assert store.newest.ends == {0: 2}


def test_a_dead_letter_is_the_record_with_its_place_and_the_reason() -> None:
    """Checklist row 81."""
    record = Record(b"a", b"x", ((ACTION_HEADER, b"{"),), 7, 3)
    dead = DeadLetter(topic="t", partition=1, record=record, error=JournalError("no JSON"))

    found = letter(dead)

    assert (found.key, found.value, found.headers[0]) == (b"a", b"x", (ACTION_HEADER, b"{"))
    said = json.loads(found.headers[1][1] or b"")
    assert said == {"topic": "t", "partition": 1, "offset": 3, "error": "no JSON"}
