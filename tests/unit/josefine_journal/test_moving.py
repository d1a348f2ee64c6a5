"""Journals of a widened topic are moved to their new partitions, whole, however often that dies."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from josefine_broker.client.partitioner import partition_for_key
from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import (
    ConcurrentWriter,
    JournalError,
    JournalMoved,
    RecordsLost,
    TopicCompacted,
    TopicWidened,
)
from josefine_journal.events import SEQ_NR_MAX, Binary, Event, Json, PayloadMetadata, SeqNr, Text
from josefine_journal.journals import Journal, Journals
from josefine_journal.merging import merge
from josefine_journal.moved import Copied, moved_of
from josefine_journal.moving import Moved, Mover
from josefine_journal.records import EventRecord, PartitionOffset, RecordMetadata
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog

KEYS = [f"id-{n}" for n in range(8)]
NOWHERE = PartitionOffset(partition=0, offset=0)
Contents = dict[str, tuple[int | None, list[EventRecord]]]


class Killed(Exception):
    """A mover that is no more."""


def dying(hits: int) -> Callable[[str], None]:
    """At its so many-th place."""
    left = itertools.count(hits, -1)

    def at(place: str) -> None:
        if next(left) == 0:
            raise Killed(place)

    return at


class World:
    """A topic of some partitions, and perhaps its store."""

    def __init__(self, root: Path | None, seed: int = 0, count: int = 1) -> None:
        self.rng = Random(seed)
        self.log = MemoryLog(count, per_fetch=7)
        self.count = count
        self.root = root
        self.places: dict[str, int] = {}

    def store(self) -> DeltaStore | None:
        if self.root is None:
            return None
        return DeltaStore(self.root, "t", None, partition_count=self.count)

    def journals(self) -> Journals:
        """Of a process that starts now."""
        log = self.log.opened_again()
        return Journals(None, "t", log=log, store=self.store(), origin="o", rng=self.rng)

    def journal(self, key: str) -> Journal:
        return self.journals().journal(key)

    def live(self, steps: int) -> None:
        for step in range(steps):
            key = self.rng.choice(KEYS)
            asyncio.run(self._step(step, key, self.journal(key)))

    async def _step(self, step: int, key: str, journal: Journal) -> None:
        rng = self.rng
        pointer = await journal.pointer() or 0
        match rng.choice("aaaeeeddlpxr"):
            case "a" | "e" as kind:
                payload = rng.choice((Json([step, "ä"]), Binary(b"\0\xff"), Text("t"), None))
                events = [
                    Event(seq_nr=SeqNr(n), tags=(f"t{n}",), payload=payload)
                    for n in range(pointer + 1, pointer + rng.randint(2, 4))
                ]
                said = PayloadMetadata(expire_after=timedelta(days=step + 1), data={"b": step})
                metadata = RecordMetadata(header={"a": step}, payload=said)
                expected = pointer if kind == "e" else None
                at = await journal.append(events, metadata, (("mine", b"\0"),), expected)
                self.places[key] = at.offset
            case "d":
                await journal.delete(max(1, pointer - rng.randint(0, 3)))
            case "l":
                late = Event(seq_nr=SeqNr(pointer + 9))
                with pytest.raises(ConcurrentWriter):
                    await journal.append([late], expected_seq_nr=pointer + 5)
            case "p" if rng.random() < 0.4:
                await journal.purge()
            case "x":
                await journal.purge(expected_offset=self.places.get(key, 0) - rng.choice((0, 1)))
            case "r" if self.root is not None:
                await self.replicate(rng.choice((None, 600)))

    async def replicate(self, size: int | None = None, log: MemoryLog | None = None) -> None:
        """All that is there, or as much as fits; the topic may lose what is stored."""
        store = self.store()
        assert store is not None
        one = Replicator(
            log or self.log.opened_again(), store, range(self.count),
            batch_bytes_max=size or 10**9, empty_commit_ms=0,
        )  # fmt: skip
        await one.round(0)
        for partition in range(self.count):
            merge(store, partition)
            stored = store.snapshot((partition,)).replicated(partition) or 0
            self.log.retain(partition, self.rng.randint(0, stored))

    def contents(self) -> Contents:
        """What readers of processes that start now are given; nothing of where it is."""

        async def run() -> Contents:
            found: Contents = {}
            for key in KEYS:
                read = [each async for each in self.journal(key).read()]
                plain = [replace(each, partition_offset=NOWHERE) for each in read]
                found[key] = await self.journal(key).pointer(), plain
            return found

        return asyncio.run(run())

    def move(self, **named: Any) -> Moved:
        """By a process that starts now."""
        store = None if self.root is None else DeltaStore(self.root, "t", None)
        count = len(self.log._records)
        stored = None if store is None else store.recorded_partition_count()
        log = self.log.opened_again()
        mover = Mover(log, store, count, stored_count=stored, batch_records=5, **named)
        return asyncio.run(mover.run())

    def widen(self, count: int) -> None:
        self.log.widen(count)
        self.count = count


@pytest.mark.parametrize("has_store", [False, True], ids=["topic", "store"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))])
def test_a_move_that_dies_anywhere_ends_as_one_that_did_not(
    seed: int, has_store: bool, tmp_path: Path
) -> None:
    """From one partition to three and on to five, so that ids come back to where they were."""
    world = World(tmp_path if has_store else None, seed)
    for count in (3, 5):
        world.live(45)
        before = world.contents()
        world.widen(count)
        with pytest.raises(TopicWidened):
            world.contents()
        for hits in itertools.count():
            try:
                done = world.move(at=dying(hits))
                break
            except Killed:
                pass
        assert hits > count, "it never died"
        assert world.contents() == before
        assert world.move(at=dying(0)).count_before is None, "there is more to do"
        assert len(copies := copies_in(world.log)) == len(set(copies)), "copied twice"
        if has_store:
            for _ in range(2):
                asyncio.run(world.replicate())
                assert world.contents() == before
        assert done.count == count


def test_an_old_replicator_may_be_at_work_meanwhile(tmp_path: Path) -> None:
    """It does not know the new partitions; what it stores of the old ones is what it finds."""
    world = World(tmp_path, 5)
    world.live(50)
    before = world.contents()
    old_log, old_store = world.log.opened_again(), world.store()
    assert old_store is not None
    asyncio.run(old_log.partition_count())
    old = Replicator(old_log, old_store, (0,), batch_bytes_max=300, empty_commit_ms=0)
    world.widen(4)
    for hits in itertools.count():
        asyncio.run(old.round(0))
        try:
            world.move(at=dying(hits))
            break
        except Killed:
            pass
    with pytest.raises(TopicWidened):
        asyncio.run(old.round(0))
    assert world.contents() == before
    asyncio.run(world.replicate())
    assert world.contents() == before


def test_a_store_from_before_a_move_is_moved_again_and_takes_nothing_from_the_journals(
    tmp_path: Path,
) -> None:
    """The topic has been moved twice; the purges of those moves are no part of any history."""
    world = World(tmp_path, 3)
    world.live(40)
    asyncio.run(world.replicate())
    version = DeltaTable(tmp_path / "t").version()
    before = world.contents()
    for count in (2, 3):
        world.widen(count)
        world.move()
    assert world.contents() == before

    DeltaTable(tmp_path / "t").restore(version)

    with pytest.raises(TopicWidened, match="as the store"):
        world.contents()
    assert world.move().journals == 0
    assert world.contents() == before
    asyncio.run(world.replicate())
    assert world.contents() == before


def copies_in(log: MemoryLog) -> list[object]:
    found = (moved_of(each.headers) for part in log._records for each in part if each)
    return [each for each in found if isinstance(each, Copied)]


def moving_key(count: int) -> str:
    return next(key for key in KEYS if partition_for_key(key.encode(), count) != 0)


@pytest.mark.parametrize("has_store", [False, True], ids=["topic", "store"])
def test_a_process_that_was_there_before_is_told_where_the_journal_went(
    has_store: bool, tmp_path: Path
) -> None:
    world = World(tmp_path if has_store else None)
    key = moving_key(4)
    old = world.journals().journal(key)

    async def write(journal: Journal, number: int) -> None:
        await journal.append([Event(seq_nr=SeqNr(number))], expected_seq_nr=number - 1)

    async def read() -> list[int]:
        return [each.event.seq_nr async for each in old.read()]

    asyncio.run(write(old, 1))
    if has_store:
        asyncio.run(world.replicate())
    world.widen(4)
    world.move()

    with pytest.raises(JournalMoved if not has_store else (JournalMoved, TopicWidened)):
        asyncio.run(read())
    with pytest.raises(JournalError):
        asyncio.run(write(old, 2))
    with pytest.raises(TopicWidened):  # for it wrote once more over the old count
        world.contents()
    world.move()
    assert [each.event.seq_nr for each in world.contents()[key][1]] == [1]


def test_a_write_during_the_move_is_moved_too() -> None:
    world = World(None)
    key = moving_key(4)
    old = world.journals().journal(key)

    async def write(number: int) -> None:
        await old.append([Event(seq_nr=SeqNr(number))])

    asyncio.run(write(1))
    world.widen(4)
    written = []

    async def meanwhile() -> None:
        written.append(2)
        await write(2)

    world.log.meanwhile = meanwhile  # behind the first copy, before its purge
    world.move()
    world.log.meanwhile = None

    assert written == [2]
    assert [each.event.seq_nr for each in world.contents()[key][1]] == [1, 2]


def test_a_journal_that_was_written_on_both_sides_is_named_and_nothing_is_moved() -> None:
    world = World(None)
    key = moving_key(4)
    asyncio.run(world.journal(key).append([Event(seq_nr=SeqNr(1))]))
    stray = world.log._records[0][-1]
    assert stray is not None
    world.widen(4)
    target = partition_for_key(key.encode(), 4)
    asyncio.run(world.log.write(target, stray))
    ends = asyncio.run(world.log.end_offsets(range(4)))

    with pytest.raises(JournalError, match=rf"'{key}' \(partitions 0 and {target}\)"):
        world.move()

    assert asyncio.run(world.log.end_offsets(range(4))) == ends


def test_what_cannot_be_moved_is_refused_before_anything_is_written() -> None:
    world = World(None)
    key = moving_key(2)
    for n in (1, 2):
        asyncio.run(world.journal(key).append([Event(seq_nr=SeqNr(n))]))
    assert world.move() == Moved(count_before=None, count=1)
    world.widen(2)
    ends = asyncio.run(world.log.end_offsets(range(2)))

    world.log.configured["retention.ms"] = "1000"
    with pytest.raises(
        JournalError, match=r"retention\.ms=1000: moved records keep their timestamps"
    ):
        world.move()
    world.log.configured = {"cleanup.policy": "compact"}
    with pytest.raises(TopicCompacted):
        world.move()
    world.log.configured = {}
    world.log.retain(0, 1)
    with pytest.raises(RecordsLost, match="the records from 0 to 0 left the topic"):
        world.move()

    assert asyncio.run(world.log.end_offsets(range(2))) == ends


def test_records_of_older_programs_are_moved_from_the_count_that_is_named() -> None:
    world = World(None)
    world.live(30)
    before = world.contents()
    partition = world.log._records[0]
    partition[:] = [None if each is None else without_count(each) for each in partition]
    world.widen(3)

    with pytest.raises(JournalError, match="pass it with --from COUNT"):
        world.move()
    world.move(count_before=1)

    assert world.contents() == before


def without_count(record: Record) -> Record:
    headers = tuple(
        (name, (value or b"").replace(b',"partitions":1', b"")) for name, value in record.headers
    )
    return record._replace(headers=headers)


def test_expired_journals_are_asked_for_in_their_new_partition_only(tmp_path: Path) -> None:
    from josefine_journal.queries import expired, ids

    world = World(tmp_path)
    soon = RecordMetadata(payload=PayloadMetadata(expire_after=timedelta(milliseconds=1)))
    for key in KEYS:
        asyncio.run(world.journal(key).append([Event(seq_nr=SeqNr(1))], soon))
    asyncio.run(world.replicate())
    world.widen(3)
    world.move()
    asyncio.run(world.replicate())
    store = world.store()
    assert store is not None
    snapshot = store.snapshot(range(3))

    for partition in range(3):
        here = sorted(key for key in KEYS if partition_for_key(key.encode(), 3) == partition)
        assert list(ids(snapshot, partition)) == here
        assert sorted(key for key, _ in expired(snapshot, partition, SEQ_NR_MAX)) == here
