"""What a journal costs: appends, reads with and without its store, replication, a large store.

One broker, one partition: the worst case, for readers share the partition with all others. A value
is the median over BENCH_ROUNDS; BENCH_SCALE makes the counts smaller; BENCH_JOURNAL chooses
measures, like `append,replicate`. CPU seconds are this process's, the broker's apart. Goals (issue
15): a warm read of a short journal under 20 ms p50, no read of the topic where the store is up to
date, one journal a small read however large the table.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from josefine_broker.client.io_asyncio import AsyncClient
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_broker.records.builder import Record
from josefine_journal.delta_store import DeltaStore
from josefine_journal.events import Event, Json, SeqNr
from josefine_journal.journals import Journals
from josefine_journal.merging import merge
from josefine_journal.ports import Batch
from josefine_journal.records import (
    ActionRecord,
    RecordMetadata,
    action_record,
    encode_append,
    headers_of,
)
from josefine_journal.replicator import Replicator
from josefine_journal.topic import TopicLog
from tests.support.broker import BrokerProcess

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
TOPIC = "journals"
APPENDS = max(50, int(2_000 * SCALE))
WRITERS = 32
REPLICATED = max(1_000, int(200_000 * SCALE))
REPLICATED_JOURNALS = 10_000
READS = 50
LENGTHS = (1, 100, 10_000)
BEHIND = 100
"""Actions of others that are in the topic and not in the store."""
FOREIGN = max(1_000, int(1_000_000 * SCALE))
LARGE_ROWS = max(10_000, int(10_000_000 * SCALE))
LARGE_BATCH = 100_000
LARGE_JOURNALS = max(100, LARGE_ROWS // 10)

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def event(number: int) -> Event:
    return Event(seq_nr=SeqNr(number), tags=("tag",), payload=Json({"amount": number, "of": "x"}))


def appended(number: int) -> tuple[Any, bytes]:
    return encode_append(
        [event(number)], RecordMetadata(), origin="bench", version=None, expected_seq_nr=None
    )


def create(bootstrap: str) -> None:
    with BlockingClient(bootstrap) as client:
        client.create_topics([NewTopic(name=TOPIC, partitions=1)])


def fill(bootstrap: str, count: int, journals: int, prefix: str = "j") -> None:
    """Appends of one event, journal after journal in turn."""
    with BlockingClient(bootstrap) as client:
        producer = BlockingProducer(client)
        for n in range(count):
            action, value = appended(n // journals + 1)
            key = f"{prefix}{n % journals}".encode()
            producer.send(TOPIC, key, value, headers_of(action, ()))
        producer.flush()


@asynccontextmanager
async def opened(bootstrap: str, store: Path | None = None) -> AsyncIterator[Journals]:
    async with AsyncClient(bootstrap) as client:
        yield Journals(client, TOPIC, store=store)


class Timed:
    """Calls one after the other: seconds by the clock have a busy machine's other work in them, CPU
    seconds of this process have not."""

    def __init__(self) -> None:
        self._taken_ms: list[float] = []
        self._cpu_ms = 0.0

    @contextmanager
    def one(self) -> Iterator[None]:
        begun, cpu = time.perf_counter(), time.process_time()
        yield
        self._taken_ms.append(1_000 * (time.perf_counter() - begun))
        self._cpu_ms += 1_000 * (time.process_time() - cpu)

    def measured(self, name: str) -> Measured:
        taken = sorted(self._taken_ms)
        yield f"{name} p50", "ms", taken[len(taken) // 2]
        yield f"{name} p99", "ms", taken[min(len(taken) - 1, len(taken) * 99 // 100)]
        yield f"{name} mean", "CPU ms", self._cpu_ms / len(taken)


def append(directory: Path) -> Measured:
    """One writer after the other, with and without an expectation; then many at once."""

    async def run(bootstrap: str) -> list[tuple[str, str, float]]:
        async with opened(bootstrap) as journals:
            one = journals.journal("one")
            found: list[tuple[str, str, float]] = []
            for name, expects in (("append", False), ("append expecting", True)):
                last = await one.pointer() or 0
                timed = Timed()
                for n in range(last + 1, last + 1 + APPENDS):
                    with timed.one():
                        await one.append([event(n)], expected_seq_nr=n - 1 if expects else None)
                found += timed.measured(name)

            async def write(name: str) -> None:
                journal = journals.journal(name)
                for n in range(1, APPENDS // WRITERS + 1):
                    await journal.append([event(n)], expected_seq_nr=n - 1)

            begun = time.perf_counter()
            await asyncio.gather(*(write(f"w{n}") for n in range(WRITERS)))
            rate = APPENDS // WRITERS * WRITERS / (time.perf_counter() - begun)
            return [*found, (f"append expecting, {WRITERS} journals at once", "per s", rate)]

    with BrokerProcess(directory) as broker:
        create(broker.bootstrap)
        yield from asyncio.run(run(broker.bootstrap))


def replicate(directory: Path) -> Measured:
    """A topic of journals into an empty store, merges and all."""
    with BrokerProcess(directory / "broker") as broker:
        create(broker.bootstrap)
        fill(broker.bootstrap, REPLICATED, REPLICATED_JOURNALS)
        begun, cpu = time.perf_counter(), time.process_time()
        asyncio.run(catch_up(broker.bootstrap, directory / "store"))
        seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    yield "replicate", "events per s", REPLICATED / seconds
    yield "replicate", "events per CPU second", REPLICATED / cpu


async def catch_up(bootstrap: str, folder: Path) -> None:
    async with AsyncClient(bootstrap) as client:
        log = TopicLog(client, TOPIC)
        await log.partition_count()
        store = DeltaStore(folder, TOPIC, log.topic_id)
        replicator = Replicator(log, store, (0,), empty_commit_ms=0)
        while (await replicator.round(0)).behind:
            await asyncio.to_thread(merge, store, 0)


async def read(journals: Journals, key: str, begin: int = 1) -> int:
    count = 0
    async for chunk in journals.journal(key).chunks(begin):
        count += len(chunk)
    return count


def reading(directory: Path) -> Measured:
    """Journals among others: the store up to date, some actions behind, and not there."""
    with BrokerProcess(directory / "broker") as broker:
        create(broker.bootstrap)
        fill(broker.bootstrap, FOREIGN, 1_000, "foreign")
        for length in LENGTHS:
            fill(broker.bootstrap, length, 1, f"of{length}-")
        yield from asyncio.run(consumer(broker.bootstrap))
        yield from asyncio.run(recovery(broker.bootstrap, None, "topic alone"))
        yield from asyncio.run(reads(broker.bootstrap, None, "topic alone"))
        folder = directory / "store"
        asyncio.run(catch_up(broker.bootstrap, folder))
        yield from asyncio.run(recovery(broker.bootstrap, folder, "store up to date"))
        yield from asyncio.run(reads(broker.bootstrap, folder, "store up to date"))
        asyncio.run(catch_up(broker.bootstrap, folder))
        fill(broker.bootstrap, BEHIND, BEHIND, "late")
        yield from asyncio.run(reads(broker.bootstrap, folder, f"store {BEHIND} behind"))


async def consumer(bootstrap: str) -> list[tuple[str, str, float]]:
    """What a read of the topic is made of, each apart: a client that knows the topic, its first
    record from the middle of the log, then record after record."""
    middle = FOREIGN // 2
    timed = {name: Timed() for name in ("init", "seek", "poll")}
    for _ in range(READS):
        with timed["init"].one():
            client = AsyncClient(bootstrap)
            await client.__aenter__()
            log = TopicLog(client, TOPIC)
            await log.partition_count()
        try:
            parts = log.read(0, middle, FOREIGN)
            for name in ("seek", "poll"):
                with timed[name].one():
                    assert await anext(parts)
            await parts.aclose()
        finally:
            await client.__aexit__(None, None, None)
    polled = "consumer poll (a fetch of 1 MiB)"
    return [
        *timed["init"].measured("consumer init"),
        *timed["seek"].measured("consumer seek (first fetch of 1 MiB)"),
        *timed["poll"].measured(polled),
    ]


async def recovery(bootstrap: str, store: Path | None, name: str) -> list[tuple[str, str, float]]:
    """The first read of a process."""
    async with opened(bootstrap, store) as journals:
        begun = time.perf_counter()
        assert await read(journals, "of1-0") == 1
        taken = 1_000 * (time.perf_counter() - begun)
    return [(f"first read among {FOREIGN:,} others, {name}", "ms", taken)]


async def reads(bootstrap: str, store: Path | None, name: str) -> list[tuple[str, str, float]]:
    found: list[tuple[str, str, float]] = []
    async with opened(bootstrap, store) as journals:
        for length in LENGTHS:
            key = f"of{length}-0"
            assert await read(journals, key) == length
            count = READS if length < 1_000 else 5
            count = count if store else 3  # each goes through the whole partition
            timed = Timed()
            for _ in range(count):
                with timed.one():
                    await read(journals, key)
            found += timed.measured(f"read {length:,} events, {name}, warm")
    return found


def large(directory: Path) -> Measured:
    """One journal of a large store: no broker, only the table."""
    store = DeltaStore(directory, TOPIC, None)
    end: int | None = None
    cpu = time.process_time()
    for begin in range(0, LARGE_ROWS, LARGE_BATCH):
        until = min(LARGE_ROWS, begin + LARGE_BATCH)
        rows = [(f"j{n % LARGE_JOURNALS}", row(n)) for n in range(begin, until)]
        store.commit([Batch(partition=0, begin=end, end=until, records=rows)])
        end = until
        while merge(store, 0):
            pass
    yield (
        f"store of {LARGE_ROWS:,} events written",
        "events per CPU second",
        (LARGE_ROWS / (time.process_time() - cpu)),
    )
    files = store.snapshot((0,)).files(0)
    yield f"store of {LARGE_ROWS:,} events", "files", float(len(files))
    yield f"store of {LARGE_ROWS:,} events", "MB", sum(each.size for each in files) / 1e6
    again = DeltaStore(directory, TOPIC, None)
    for name, count in (("cold", 1), ("warm", READS)):
        timed = Timed()
        for n in range(count):
            key = f"j{n * 7919 % LARGE_JOURNALS}"
            with timed.one():
                snapshot = again.snapshot((0,))
                outline = snapshot.outline(0, key)
                events = sum(len(part) for part in snapshot.appends(0, key, outline, 1))
            assert events == LARGE_ROWS // LARGE_JOURNALS, (key, events)
        yield from timed.measured(f"read 10 of {LARGE_ROWS:,} events, {name}")


def row(offset: int) -> ActionRecord:
    action, value = appended(offset // LARGE_JOURNALS + 1)
    found = action_record(TOPIC, 0, Record(b"x", value, headers_of(action, ()), 0, offset))
    assert found is not None
    return found


MEASURES: dict[str, Callable[[Path], Measured]] = {
    "append": append,
    "replicate": replicate,
    "read": reading,
    "large": large,
}


def main() -> None:
    wanted = os.environ.get("BENCH_JOURNAL", ",".join(MEASURES)).split(",")
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(ROUNDS):
        for measure in wanted:
            with tempfile.TemporaryDirectory(prefix="josefine-journal-") as directory:
                for name, unit, value in MEASURES[measure](Path(directory)):
                    values[name, unit].append(value)
                    say(f"round {number + 1}: {name} {unit} {value:.3f}")
    for (name, unit), each in values.items():
        line = {"bench": "journal", "measure": name, "unit": unit, "value": round(median(each), 3)}
        print(json.dumps(line | {"rounds": len(each)}), flush=True)
