"""Journals whose topic and store lose things, in an order drawn from a seed: after each step a
reader is given exactly what is there, or an error that says what is not.

The truth is what was written to the log, folded without a store: for a store that passed over lost
records, without those. An error is right only where its reason holds: RecordsLost where the topic
has none of its offsets, TopicWidened and JournalMoved before a move is done, TopicCompacted while
compaction is on, StoreError for a topic that was made again.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from uuid import UUID

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from josefine_broker.records.builder import Record
from josefine_journal.actions import Action, Append, Delete, Mark, Purge
from josefine_journal.delta_store import DeltaStore
from josefine_journal.errors import (
    ConcurrentWriter,
    JournalError,
    JournalMoved,
    RecordsLost,
    StoreError,
    TopicCompacted,
    TopicWidened,
)
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.lost_ranges import lost_ranges
from josefine_journal.merging import merge
from josefine_journal.moved import moved_of
from josefine_journal.moving import Mover
from josefine_journal.records import action_record, event_records
from josefine_journal.replicator import Replicator
from tests.support.journal_world import MemoryLog

KEYS = ("a", "b", "c")
PARTITIONS_MAX = 3
LOSSES = "tgcvoKVWN"
"""Steps that take something away: see `_lose`."""
STEPS = {False: "aaaaeeldp" + "RRRR" + LOSSES, True: "eeeeeed" + "RRRR" + "tgcvoKV"}
"""By whether lost records are passed over: a late writer, a purge or a move among lost records
leaves nothing by which anybody could tell what they did."""

Place = tuple[int, int]


class Killed(Exception):
    """A mover that is no more."""


@dataclass(frozen=True, slots=True)
class Done:
    """An action that counted when it was written."""

    place: Place
    action: Action
    events: tuple[Event, ...]


class Truth:
    """What the log said of each journal."""

    def __init__(self) -> None:
        self.done: dict[str, list[Done]] = {key: [] for key in KEYS}

    def take(self, partition: int, record: Record, lost: frozenset[Place]) -> None:
        """A record was written."""
        found = action_record("t", partition, record)
        if found is None or moved_of(record.headers) is not None or isinstance(found.action, Mark):
            return
        assert record.key is not None
        key = record.key.decode()
        action = found.action
        events: tuple[Event, ...] = ()
        if isinstance(action, Append):
            if action.expected_seq_nr not in (None, self.fold(key, lost)[0] or 0):
                return
            events = tuple(each.event for each in event_records(found))
        self.done[key].append(Done((partition, record.offset), action, events))

    def fold(self, key: str, lost: frozenset[Place]) -> tuple[int | None, list[Event]]:
        """The journal's last number and its events, without what is lost."""
        pointer: int | None = None
        events: dict[int, Event] = {}
        for each in self.done[key]:
            if each.place in lost:
                continue
            match each.action:
                case Append():
                    events |= {one.seq_nr: one for one in each.events}
                    pointer = max(pointer or 0, each.events[-1].seq_nr)
                case Delete(to=to):
                    events = {n: one for n, one in events.items() if n > min(to, pointer or 0)}
                case Purge():
                    pointer, events = None, {}
                case _:
                    pass
        return pointer, [events[n] for n in sorted(events)]


class LossLife:
    """One run. `passes_lost`: its replicators pass over what is lost."""

    def __init__(self, seed: int, root: Path, *, passes_lost: bool) -> None:
        self.rng = Random(seed)
        self.root = root
        self.passes_lost = passes_lost
        self.log = MemoryLog(1, per_fetch=self.rng.choice((1, 3, 100)))
        self.log.placed = lambda p, record: self.truth.take(p, record, self.lost)
        self.truth = Truth()
        self.count = 1
        self.is_widened = False
        self.is_over = False
        self.lost: frozenset[Place] = frozenset()
        """What the store passed over, as it is now."""
        self.lost_at: dict[int, frozenset[Place]] = {}
        """The same by the table's version."""
        self.copy: dict[int, frozenset[Place]] | None = None
        self.seen: dict[str, int] = {}
        self.at_work = self._journals(self.root)

    # -- who looks

    def _journals(self, root: Path | None, log: MemoryLog | None = None) -> Journals:
        """Of a process that starts now."""
        return Journals(
            None, "t", log=log or self.log.opened_again(), store=root, rng=self.rng,
            kept_bytes_max=self.rng.choice((0, 10**6)),
            head_cache_bytes_max=self.rng.choice((0, 10**6)),
        )  # fmt: skip

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.root / "t")

    def _store(self) -> DeltaStore:
        return DeltaStore(
            self.root, "t", self.log.topic_id,
            partition_count=None if self.is_widened else self.count,
        )  # fmt: skip

    def _count_seen(self, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1

    def _justified(self, error: JournalError) -> None:
        """Raises AssertionError for an error whose reason does not hold."""
        self._count_seen(type(error).__name__)
        match error:
            case RecordsLost(partition=partition, begin=begin, end=end):
                assert begin < end, error
                there = [n for n in range(begin, end) if self.log.has(partition, n)]
                assert not there, f"{error}, but the topic has {there}"
            case TopicWidened() | JournalMoved():
                assert self.is_widened, error
            case _:
                raise error

    async def _check(self, key: str, journals: Journals, lost: frozenset[Place]) -> None:
        journal = journals.journal(key)
        pointer, events = self.truth.fold(key, lost)
        try:
            found = [each.event async for each in journal.read()]
            last = await journal.pointer()
        except (RecordsLost, TopicWidened, JournalMoved) as error:
            self._justified(error)
            return
        assert (found, last) == (events, pointer), key
        self._count_seen("exact")

    async def check_all(self) -> None:
        for key in KEYS:
            await self._check(key, self._journals(self.root), self.lost)
            await self._check(key, self._journals(None), frozenset())
            await self._check(key, self.at_work, self.lost)

    # -- what happens

    async def run(self, steps: int) -> dict[str, int]:
        """How often each step was done, and each answer given. Raises AssertionError."""
        for step in range(steps):
            kind = self.rng.choice(STEPS[self.passes_lost])
            self._count_seen(kind)
            await self._step(kind, step)
            if self.is_over:
                break
            await self.check_all()
        return self.seen

    async def _step(self, kind: str, step: int) -> None:
        if kind == "R":
            await self._replicate()
        elif kind in LOSSES:
            await self._lose(kind)
        else:
            try:
                await self._write(kind, step)
            except (RecordsLost, TopicWidened) as error:
                self._justified(error)

    async def _write(self, kind: str, step: int) -> None:
        rng, key = self.rng, self.rng.choice(KEYS)
        journals = self.at_work if rng.random() < 0.5 else self._journals(self.root)
        journal = journals.journal(key)
        pointer = await journal.pointer() or 0
        event = Event(seq_nr=SeqNr(pointer + 1), payload=Json([step, key]))
        match kind:
            case "a":
                await journal.append([event])
            case "e":
                await journal.append([event], expected_seq_nr=pointer)
            case "l" if pointer:
                try:
                    await journal.append([event], expected_seq_nr=pointer - 1)
                except ConcurrentWriter:
                    return
                raise AssertionError("a late writer was not told")
            case "d":
                await journal.delete(max(1, pointer - rng.randint(0, 2)))
            case "p":
                await journal.purge()

    async def _replicate(self) -> None:
        if self.is_widened:
            return
        store = self._store()
        log = self.log.opened_again()
        one = Replicator(
            log, store, range(self.count), passes_lost=self.passes_lost,
            batch_bytes_max=self.rng.choice((1, 10**6)), empty_commit_ms=0,
        )  # fmt: skip
        try:
            for _ in range(self.rng.randint(1, 6)):
                found = await one.round(0)
                assert self.passes_lost or not found.lost, "nobody asked to pass over them"
                for lost in found.lost:
                    self._justified(lost)
                    self.lost |= {(lost.partition, n) for n in range(lost.begin, lost.end)}
                for partition in range(self.count):
                    merge(store, partition)
                self._versions()
        except RecordsLost as error:
            self._justified(error)
            lost = error
        else:
            return
        told = await lost_ranges(log, lost.partition, lost.begin, lost.end)
        assert told == [(lost.begin, lost.end)], "status reports something else"

    def _versions(self) -> None:
        """Remember what is lost by the table's version."""
        if (self.root / "t").exists():
            for version in range(max(self.lost_at, default=-1) + 1, self.table.version() + 1):
                self.lost_at[version] = self.lost

    async def _lose(self, kind: str) -> None:
        rng = self.rng
        partition = rng.randrange(self.count)
        start = await self.log.start_offset(partition)
        end = (await self.log.end_offsets((partition,)))[partition]
        has_table = (self.root / "t").exists()
        match kind:
            case "t" if has_table:  # retention, of what is stored
                stored = self._store().snapshot((partition,)).replicated(partition) or 0
                self.log.retain(partition, min(rng.randint(start, max(start, stored)), end - 1))
            case "g" if rng.random() < 0.3:  # retention, of whatever there is
                self.log.retain(partition, rng.randint(start, max(start, end - 1)))
            case "c" if rng.random() < 0.3:
                await self._compact(partition)
            case "v" if has_table:
                self._store().vacuum(0)
            case "o" if has_table:
                self._restore()
                await self._move_again_if_due()
            case "K" if has_table:
                shutil.rmtree(self.root / "copy", ignore_errors=True)
                shutil.copytree(self.root / "t", self.root / "copy")
                self.copy = dict(self.lost_at)
            case "V" if self.copy is not None and rng.random() < 0.5:
                self._put_back()
                await self._move_again_if_due()
            case "W" if rng.random() < 0.5:
                await self._widen()
            case "N" if rng.random() < 0.15:
                await self._make_again()

    async def _compact(self, partition: int) -> None:
        self.log.configured["cleanup.policy"] = "compact"
        for root in (self.root, None):
            try:
                await self._journals(root).journal("a").pointer()
                raise AssertionError("a compacted topic was opened")
            except TopicCompacted:
                pass
        self.log.compact(partition)
        del self.log.configured["cleanup.policy"]

    def _restore(self) -> None:
        """To a version whose files are there. One from before a loss that was passed over had other
        journals: what was appended since cannot be judged by it."""
        table = self.table
        chosen = self.rng.choice([v for v, lost in self.lost_at.items() if lost == self.lost])
        try:
            table.restore(chosen)
        except DeltaError:  # vacuumed
            self._count_seen("cannot restore")
        self._versions()

    def _put_back(self) -> None:
        """An older copy of the store, under those who have it open."""
        assert self.copy is not None
        if self.copy[max(self.copy)] != self.lost:
            return
        shutil.rmtree(self.root / "t", ignore_errors=True)
        shutil.copytree(self.root / "copy", self.root / "t")
        self.lost_at = dict(self.copy)

    async def _widen(self) -> None:
        if self.count == PARTITIONS_MAX or not any(self.log._records[0]):
            return
        self.log.widen(self.count + 1)
        self.count += 1
        await self._move()

    async def _move(self) -> None:
        """By movers that die; until one does not, the topic or its store are refused."""
        self.is_widened = True
        await self.check_all()
        for hits in range(self.rng.randint(0, 3), 100):
            store = DeltaStore(self.root, "t", self.log.topic_id)
            mover = Mover(
                self.log.opened_again(), store, self.count,
                stored_count=store.recorded_partition_count(), batch_records=2, at=_dying(hits),
            )  # fmt: skip
            try:
                await mover.run()
                break
            except Killed:
                await self.check_all()
            except RecordsLost as error:
                self._justified(error)
                self.is_over = True  # refused, whole as it is
                return
        self.is_widened = False
        self.at_work = self._journals(self.root)
        self._versions()

    async def _move_again_if_due(self) -> None:
        """A store from before a move has the count of then."""
        stored = DeltaStore(self.root, "t", self.log.topic_id).recorded_partition_count()
        if stored not in (None, self.count):
            self._count_seen("moved again")
            await self._move()

    async def _make_again(self) -> None:
        had_table = (self.root / "t").exists() and self.log.topic_id is not None
        self.log.make_again(1, UUID(int=self.rng.getrandbits(100)))
        self.truth, self.count = Truth(), 1
        if had_table:
            try:
                await self._journals(self.root).journal("a").pointer()
                raise AssertionError("another topic's store was read")
            except StoreError:
                self._count_seen("StoreError")
        for name in ("t", "copy"):
            shutil.rmtree(self.root / name, ignore_errors=True)
        self.copy, self.lost_at, self.lost = None, {}, frozenset()


def _dying(hits: int) -> Callable[[str], None]:
    left = iter(range(hits, -1, -1))

    def at(place: str) -> None:
        if next(left, None) == 0:
            raise Killed(place)

    return at


def run_life(seed: int, root: Path, steps: int, *, passes_lost: bool) -> dict[str, int]:
    return asyncio.run(LossLife(seed, root, passes_lost=passes_lost).run(steps))
