"""Gaps between the offsets of a log, wherever they are, and what explains them."""

from __future__ import annotations

import asyncio

import pytest

from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.crc import crc32c
from josefine_journal.continuity import continuous
from josefine_journal.errors import RecordsLost
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.lost_ranges import lost_ranges
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog, MemoryStore


def batch(base: int, count: int, *, control: bool = False) -> bytes:
    records = [Record(b"k", b"%d" % n, (), 0) for n in range(count)]
    return bytes(build_batch(records, base_offset=base, control=control, transactional=control))


def cut(base: int, count: int, span: int) -> bytes:
    """A batch that spans more offsets than it has records, as compaction leaves it."""
    whole = bytearray(batch(base, count))
    whole[23:27] = (span - 1).to_bytes(4, "big")
    whole[17:21] = crc32c(bytes(whole[21:])).to_bytes(4, "big")
    return bytes(whole)


def found(*batches: bytes, begin: int = 0, end: int = 100) -> tuple[list[int], int, int | None]:
    answer = continuous(memoryview(b"".join(batches)), begin, end)
    return [each.offset for each in answer.records], answer.next_offset, answer.gap_end


def test_transaction_markers_are_no_gap() -> None:
    log = (batch(0, 2), batch(2, 1, control=True), batch(3, 1))
    assert found(*log) == ([0, 1, 3], 4, None)


def test_missing_batches_and_records_are_a_gap_where_they_begin() -> None:
    assert found(batch(0, 2), batch(5, 1)) == ([0, 1], 2, 5)
    assert found(batch(5, 1)) == ([], 0, 5)
    assert found(cut(0, 2, span=4), batch(4, 1)) == ([0, 1], 2, 4)


def test_nothing_before_the_beginning_and_after_the_end_is_missed() -> None:
    assert found(batch(0, 4), begin=2) == ([2, 3], 4, None)
    assert found(batch(0, 2), batch(5, 1), end=2) == ([0, 1], 2, None)
    assert found(batch(0, 2), batch(5, 1), end=4) == ([0, 1], 2, 4)
    assert found() == ([], 0, None)


def compacted(count: int) -> MemoryLog:
    log = MemoryLog(1)
    write(log, range(1, count + 1))
    log.compact(0)
    return log


def write(log: MemoryLog, numbers: range) -> None:
    async def run() -> None:
        journal = Journals(None, "t", log=log).journal("a")
        for n in numbers:
            await journal.append([Event(seq_nr=SeqNr(n), payload=Json(n))])

    asyncio.run(run())


def test_a_reader_of_a_topic_that_was_compacted_is_told_what_is_lost() -> None:
    log = compacted(10)

    async def read(store: MemoryStore | None) -> None:
        journal = Journals(None, "t", log=log, store=store).journal("a")
        assert [each async for each in journal.read()] == []

    for store in (None, MemoryStore()):
        with pytest.raises(
            RecordsLost, match=r"partition t-0: the records from 0 to 8 are missing"
        ):
            asyncio.run(read(store))


def test_a_replicator_stores_what_is_before_a_gap_and_stops_there() -> None:
    log, store = MemoryLog(1, per_fetch=1), MemoryStore()
    write(log, range(1, 3))
    replicator = Replicator(log, store, (0,))
    asyncio.run(replicator.round(0))
    write(log, range(3, 6))
    log.compact(0)

    with pytest.raises(RecordsLost) as lost:
        asyncio.run(replicator.round(0))

    assert (lost.value.begin, lost.value.end, store.newest.ends) == (2, 4, {0: 2})
    passing = Replicator(log, store, (0,), passes_lost=True)
    first, second = (asyncio.run(passing.round(0)) for _ in range(2))
    assert [(each.begin, each.end) for each in first.lost] == [(2, 4)]
    assert (second.rows, store.newest.ends) == (1, {0: 5})


def test_lost_ranges_are_the_beginning_and_each_gap() -> None:
    """What `journal status` shows."""
    log = MemoryLog(1)
    write(log, range(1, 11))
    log.compact(0)
    write(log, range(11, 14))

    assert asyncio.run(lost_ranges(log, 0, 0, 13)) == [(0, 9)]
    assert asyncio.run(lost_ranges(log, 0, 4, 13)) == [(4, 9)]
    log.compact(0)
    log.retain(0, 3)
    assert asyncio.run(lost_ranges(log, 0, 0, 13)) == [(0, 3), (3, 12)]
    assert asyncio.run(lost_ranges(log, 0, 12, 13)) == []
