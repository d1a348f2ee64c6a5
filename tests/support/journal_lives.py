"""A life of some journals: writers, deleters, readers, replicators that die, and retention, in an
order drawn from a seed; what readers are told is compared with models without a log or a store.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from random import Random
from typing import Any

from josefine_broker.records.builder import Record
from josefine_journal.actions import Append, Delete, Purge
from josefine_journal.errors import ConcurrentWriter
from josefine_journal.events import Event, Json, PayloadMetadata, SeqNr
from josefine_journal.expiring import expire
from josefine_journal.journals import Journal, Journals
from josefine_journal.records import RecordMetadata, action_record, headers_of
from josefine_journal.replicator import Replicator
from tests.support.journal import Model
from tests.support.journal_world import MemoryLog

PARTITIONS = 2
KEYS = ("a", "b", "c", "d")


class _AtOnce(ThreadPoolExecutor):
    """Runs what a thread would at its caller's: a life's order is its seed's alone."""

    def submit(self, call: Callable[..., Any], /, *given: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(call(*given, **named))
        except Exception as error:
            done.set_exception(error)
        return done


def run_life(life: Life, steps: int) -> dict[str, int]:
    """How often each kind of step was done. Raises AssertionError."""
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(_AtOnce(1))
        return runner.run(life.run(steps))


class Killed(Exception):
    """A replicator that is no more."""


class Life:
    """One run. `store` has `at`, which is called where a replicator may die; `expired` says which
    journals of a partition are over; `tidy` merges its files."""

    def __init__(
        self,
        seed: int,
        store: Any,
        expired: Callable[[int, int], Iterator[tuple[str, int]]],
        tidy: Callable[[int], object] | None = None,
    ) -> None:
        self.rng = Random(seed)
        self.expired = expired
        self.now_ms = 0
        self.store = store
        self.tidy = tidy
        self.log = MemoryLog(PARTITIONS, per_fetch=self.rng.choice((1, 3, 100)))
        self.models = {key: Model() for key in KEYS}
        self.log.written = self._written
        self._appending: tuple[Model, int | None] | None = None
        """What is appended next, if it counts: the model that knows, and when it expires."""
        self.seen: dict[str, int] = {}
        self.replicators = [self._replicator(), self._replicator()]
        kept = self.rng.choice((0, 600, 10**6))
        self.readers = [
            Journals(
                None,
                "t",
                log=self.log,
                store=store,
                rng=self.rng,
                clock_ms=lambda: self.now_ms,
                kept_bytes_max=kept,
                head_cache_bytes_max=self.rng.choice((0, 1_500, 4_000, 10**6)),
            )
            for _ in range(2)
        ]

    def _replicator(self) -> Replicator:
        size = self.rng.choice((1, 500, 10**6))
        partitions = self.rng.choice(((0, 1), (0, 1), (1, 0), (0,), (1,)))
        return Replicator(self.log, self.store, partitions, batch_bytes_max=size)

    async def run(self, steps: int) -> dict[str, int]:
        """How often each kind of step was done. Raises AssertionError."""
        for step in range(steps):
            self.now_ms = step
            kind = self.rng.choice("aaaaeeddfpmrrrccRRRRkKtttTxx")
            self.seen[kind] = self.seen.get(kind, 0) + 1
            await self._step(kind, step)
        await self._compare_all()
        await self._settle()
        await self._compare_all()
        return self.seen

    async def _compare_all(self) -> None:
        for key in KEYS:
            for reader in self.readers:
                await self._compare(reader.journal(key), self.models[key], 1)

    async def _step(self, kind: str, step: int) -> None:
        rng = self.rng
        key = rng.choice(KEYS)
        journal, model = rng.choice(self.readers).journal(key), self.models[key]
        pointer = model.pointer or 0
        match kind:
            case "a" | "e":
                if rng.random() < 0.3:  # replicated before its writer knows that it is written
                    self.log.meanwhile = lambda: self._round(step)
                await self._append(journal, model, step, expects=kind == "e")
                self.log.meanwhile = None
            case "d":
                to = max(1, pointer + rng.randint(-4, 3))
                await journal.delete(to)
                model.delete(to)
            case "f":
                await self._foreign_delete(key, SeqNr(pointer + rng.randint(1, 3)))
                model.delete(pointer)
            case "c":
                await self._read_meanwhile(journal, model, step)
            case "p":
                await journal.purge()
                model.purge()
            case "m":
                await journal.mark("m")
            case "r":
                await self._compare(journal, model, rng.choice((1, 1, pointer, pointer + 1)) or 1)
            case "R":
                await rng.choice(self.replicators).round(step * rng.choice((1, 60_000)))
            case "T":
                rounds = (each.round(step * 60_000) for each in self.replicators)
                await asyncio.gather(*rounds)
            case "k" | "K":
                await self._killed("before_commit" if kind == "k" else "after_commit", step)
            case "t":
                await self._retain()
            case "x":
                await self._expire()

    async def _append(self, journal: Journal, model: Model, step: int, *, expects: bool) -> None:
        pointer = model.pointer or 0
        first = pointer + self.rng.randint(1, 3)
        numbers = range(first, first + self.rng.randint(1, 4))
        given = [Event(seq_nr=SeqNr(n), payload=Json([step, n])) for n in numbers]
        expected = max(0, pointer - self.rng.choice((0, 0, 1))) if expects else None
        expires = self.rng.choice((None, None, 1, 4))
        is_taken = model.append(given, expected)
        self._appending = (model, expires) if is_taken else None
        after = None if expires is None else timedelta(milliseconds=expires)
        metadata = RecordMetadata(payload=PayloadMetadata(expire_after=after))
        try:
            await journal.append(given, metadata, expected_seq_nr=expected)
            assert is_taken, f"step {step}: a writer was late and was not told"
        except ConcurrentWriter:
            assert not is_taken, f"step {step}: a writer in time was refused"

    def _written(self, record: Record, offset: int) -> None:
        """A record is in the log: what that means for the models."""
        found = action_record("t", 0, record)
        assert found is not None
        assert record.key is not None
        model = self.models[record.key.decode()]
        match found.action:
            case Append() if self._appending is not None:
                assert self._appending[0] is model
                expires = self._appending[1]
                model.last_offset = offset
                model.expire_on_ms = None if expires is None else self.now_ms + expires
            case Purge(expected_offset=int(expected)) if model.last_offset == expected:
                assert model.is_over(self.now_ms), "it is no journal that expired"
                self.seen["expired"] = self.seen.get("expired", 0) + 1
                model.purge()
            case _:
                pass

    async def _expire(self) -> None:
        """The purge job, while another one writes."""

        async def write() -> None:
            key = self.rng.choice(KEYS)
            other = self.rng.choice(self.readers).journal(key)
            if self.rng.random() < 0.3:
                await other.purge()
                self.models[key].purge()
            await self._append(other, self.models[key], self.now_ms, expects=False)

        if self.rng.random() < 0.5:
            self.log.meanwhile = write
        order = self.rng.sample(range(PARTITIONS), PARTITIONS)
        await expire(
            self.rng.choice(self.readers), lambda each: self.expired(each, self.now_ms), order
        )
        self.log.meanwhile = None

    async def _settle(self) -> None:
        """In the end all is replicated, and what is over is gone."""
        whole = Replicator(self.log, self.store, range(PARTITIONS))
        while (await whole.round(0, is_last=True)).lag:
            pass
        await self._expire()
        while (await whole.round(0, is_last=True)).lag:
            pass

    async def _foreign_delete(self, key: str, to: SeqNr) -> None:
        """Of a writer that does not look what is there: its number is ahead."""
        headers = headers_of(Delete(to=to), ())
        partition = await self.log.partition_of(key.encode())
        await self.log.write(partition, Record(key.encode(), None, headers, 0))

    async def _read_meanwhile(self, journal: Journal, model: Model, step: int) -> None:
        """While it reads, another one writes, and that is replicated: it sees that, or does not."""
        other = self.rng.choice(self.readers).journal(journal.key)
        before = model.read(), model.pointer

        async def write() -> None:
            match self.rng.choice("aep"):
                case "p":
                    await other.purge()
                    model.purge()
                case kind:
                    await self._append(other, model, step, expects=kind == "e")
            await self.replicators[0].round(step * 60_000)

        self.log.meanwhile = write
        asked = self.rng.choice("rp")
        if asked == "r":
            found = [each.event async for each in journal.read()]
            assert found in (before[0], model.read())
        else:
            assert await journal.pointer() in (before[1], model.pointer)

    async def _compare(self, journal: Journal, model: Model, begin: int) -> None:
        found = [each.event async for each in journal.read(begin)]
        assert found == model.read(begin)
        assert await journal.pointer() == model.pointer

    async def _round(self, step: int) -> None:
        await self.replicators[0].round(step * 60_000)

    async def _killed(self, where: str, step: int) -> None:
        """A replicator dies at its commit; another one begins in its place."""

        def die(place: str) -> None:
            if place == where:
                raise Killed

        self.store.at = die
        try:
            await self.replicators[0].round(step * 60_000)
        except Killed:
            if self.rng.random() < 0.5:  # the other half: it goes on after an error
                self.replicators[0] = self._replicator()
        finally:
            self.store.at = lambda place: None

    async def _retain(self) -> None:
        """The topic loses a part of what the store has; perhaps the store's files are merged."""
        partition = self.rng.randrange(PARTITIONS)
        stored = self.store.snapshot((partition,)).replicated(partition) or 0
        begin = await self.log.start_offset(partition)
        if stored > begin:
            self.log.retain(partition, self.rng.randint(begin, stored))
        if self.tidy is not None:
            self.tidy(partition)
