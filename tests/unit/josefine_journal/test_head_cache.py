"""The head cache against the log that it is read from, and readers that share it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.records.builder import Record
from josefine_journal.actions import ACTION_HEADER
from josefine_journal.calls import Calls
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.head_cache import BYTES_MAX, IDLE_MS_MAX, RECORD_BYTES, HeadCache
from josefine_journal.heads import WAIT_S_MAX, Heads
from josefine_journal.journals import Journals
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog, MemoryStore

KEYS = (b"a", b"b", b"c")


def record(offset: int, key: bytes | None, value: bytes = b"") -> Record:
    return Record(key, value, ((ACTION_HEADER, b"whatever it says"),), 0, offset)


@settings(deadline=None, max_examples=400)
@given(seed=st.integers(0, 2**32))
def test_what_the_cache_says_is_what_the_log_has(seed: int) -> None:
    """Checklist row 69. It may know less, never something else; its memory is bounded."""
    rng = Random(seed)
    log: dict[int, list[Record]] = {0: [], 1: []}
    bytes_max = rng.choice((600, 6_000, 8_000, 20_000, BYTES_MAX))
    cache = HeadCache(bytes_max)
    for now_ms in range(100):
        partition = rng.randrange(2)
        records = log[partition]
        match rng.choice("wwwwwrraaR"):
            case "w":
                foreign = Record(rng.choice(KEYS), b"", (), 0, len(records))
                mine = record(len(records), rng.choice(KEYS), b"x" * rng.randrange(300))
                records.append(rng.choice((mine, mine, foreign)))
            case "R":
                cache.replicated(partition, rng.randint(0, len(records)))
            case "a":
                begin = rng.randint(0, len(records))
                at = cache.resume(partition, None, begin, now_ms, rewinds=rng.random() < 0.5)
                until = rng.randint(at, max(at, len(records)))
                if rng.random() < 0.2:  # while it is read
                    cache.replicated(partition, rng.randint(0, len(records)))
                cache.take(partition, records[at:until])
                if until == len(records):
                    cache.reach(partition, until)
            case _:
                begin, end = sorted(rng.choices(range(len(records) + 1), k=2))
                key = rng.choice(KEYS)
                found, reached = cache.head(partition, key, begin, end)
                own = [r for r in records[begin:reached] if r.key == key and r.headers]
                assert begin <= reached <= end
                assert found == own
        assert cache.size <= bytes_max


def test_the_oldest_tenth_makes_room_and_is_missed() -> None:
    """Checklist row 69."""
    cache = HeadCache(20 * (RECORD_BYTES + 2))
    cache.resume(0, None, 0, 0, rewinds=True)
    cache.take(0, [record(n, b"%02d" % n) for n in range(20)])
    assert cache.head(0, b"00", 0, 20) == ([record(0, b"00")], 20)

    cache.take(0, [record(20, b"20")])

    misses = [n for n in range(21) if cache.head(0, b"%02d" % n, 0, 21)[1] == 0]
    assert misses == [0, 1, 2]
    assert cache.head(0, b"never written", 0, 21) == ([], 0)  # perhaps it was, and was put out
    assert cache.head(0, b"never written", 3, 21) == ([], 21)


def test_a_journal_that_was_put_out_and_written_again_is_missed_from_its_beginning() -> None:
    cache = HeadCache(4 * (RECORD_BYTES + 1))
    cache.resume(0, None, 0, 0, rewinds=True)
    for n, key in enumerate((b"a", b"b", b"c", b"d", b"e", b"a")):
        cache.take(0, [record(n, key)])
    assert cache.head(0, b"a", 0, 6) == ([], 0)
    assert cache.head(0, b"a", 5, 6) == ([record(5, b"a")], 6)


def test_a_long_journal_takes_no_room_from_others() -> None:
    cache = HeadCache(40 * (RECORD_BYTES + 1))
    cache.resume(0, None, 0, 0, rewinds=True)
    cache.take(0, [record(0, b"a"), *(record(n, b"b") for n in range(1, 100))])
    assert cache.head(0, b"a", 0, 100) == ([record(0, b"a")], 100)
    assert cache.head(0, b"b", 0, 100) == ([], 0)


def test_what_is_replicated_is_dropped_and_what_nobody_asks_for_too() -> None:
    """Checklist row 69."""
    cache = HeadCache()
    cache.resume(0, None, 0, 0, rewinds=True)
    cache.take(0, [record(n, b"a") for n in range(10)])
    cache.replicated(0, 8)
    assert cache.size == 2 * (RECORD_BYTES + 1)
    assert cache.head(0, b"a", 8, 10)[1] == 10
    assert cache.head(0, b"a", 7, 10) == ([], 7)
    cache.resume(1, None, 0, IDLE_MS_MAX + 1, rewinds=True)
    assert cache.size == 0


def events(*numbers: int) -> list[Event]:
    return [Event(seq_nr=SeqNr(n), payload=Json(n)) for n in numbers]


def test_readers_of_a_partition_read_its_head_once_together() -> None:
    """Checklist row 70."""
    log, store = MemoryLog(1, per_fetch=1_000), MemoryStore()
    read: list[tuple[int, int]] = []
    plain = log.read
    log.read = lambda p, begin, end: (read.append((begin, end)), plain(p, begin, end))[1]  # type: ignore[method-assign, func-returns-value]

    async def scenario() -> None:
        writer = Journals(None, "t", log=log, store=store, head_cache_bytes_max=0)
        for n in range(1, 4):
            for key in "abcd":
                await writer.journal(key).append(events(n))
        reader = Journals(None, "t", log=log, store=store)
        read.clear()  # of the check when the topic was opened
        for key in "abcd":
            found = [each.event.seq_nr async for each in reader.journal(key).read()]
            assert found == [1, 2, 3]
        # The head of twelve records with the first mark, then each mark but the reader's own.
        assert read == [(0, 12), (12, 13), (13, 14), (14, 15)]
        await Replicator(log, store, (0,), empty_commit_ms=0).round(0)
        read.clear()
        found = [each.event.seq_nr async for each in reader.journal("a").read()]
        assert (found, read) == ([1, 2, 3], [])  # the store is up to date: no topic is read

    asyncio.run(scenario())


def test_damaged_record_of_one_journal_stops_no_other() -> None:
    """Checklist row 69."""
    log = MemoryLog(1)

    async def scenario() -> None:
        journals = Journals(None, "t", log=log, store=MemoryStore())
        await log.write(0, Record(b"bad", None, ((ACTION_HEADER, b"{"),), 0))
        await journals.journal("a").append(events(1))
        assert [each.event.seq_nr async for each in journals.journal("a").read()] == [1]

    asyncio.run(scenario())


def test_who_waits_for_the_cache_too_long_reads_by_itself() -> None:
    """Checklist row 69. A second; here the cache's turn is never over."""
    assert (WAIT_S_MAX, IDLE_MS_MAX) == (1.0, 600_000)
    log = MemoryLog(1)

    async def scenario() -> None:
        await Journals(None, "t", log=log).journal("a").append(events(1))
        heads = Heads(log, HeadCache(), wait_s=0.01)
        plain, never = log.read, asyncio.Event()

        async def hangs(partition: int, begin: int, end: int) -> AsyncGenerator[list[Record], None]:
            await never.wait()
            yield []

        log.read = hangs  # type: ignore[method-assign]
        assert await heads.records(0, b"a", 0, 1, rewinds=True) == ([], 0)
        log.read = plain  # type: ignore[method-assign]
        found, end = await heads.records(0, b"a", 0, 1, rewinds=True)
        assert (len(found), end) == (1, 1)

    asyncio.run(scenario())


def test_a_failure_of_the_log_fails_no_reader_and_the_cache_begins_anew() -> None:
    """Checklist row 69."""
    log, failures = MemoryLog(1), [KafkaError(ErrorCode.network_exception, "it is gone")]
    plain = log.read

    async def fails_once(
        partition: int, begin: int, end: int
    ) -> AsyncGenerator[list[Record], None]:
        if failures:
            raise failures.pop()
        async for part in plain(partition, begin, end):
            yield part

    async def scenario() -> None:
        await Journals(None, "t", log=log).journal("a").append(events(1, 2))
        log.read = fails_once  # type: ignore[method-assign]
        calls = Calls()
        journals = Journals(None, "t", log=log, store=MemoryStore(), calls=calls)
        for _ in range(2):
            assert [each.event.seq_nr async for each in journals.journal("a").read()] == [1, 2]
        for result in ("miss", "hit"):
            assert f'headcache_get_result_total{{result="{result}",topic="t"}} 1.0' in calls.text()

    asyncio.run(scenario())
