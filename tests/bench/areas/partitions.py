"""What partitions cost on one broker: made, held idle, and found again after kill -9."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.recovery import serves_after_kill
from tests.bench.areas.servers import Served, Start, start_one
from tests.support.waiting import wait_until

PARTITIONS = (1, 100, 1_000, 5_000, 10_000)
QUICK = (1, 1_000)
SETTLE_S, LOOK_S, BUSY = 60.0, 1.0, 0.1
"""Idle CPU counts once a broker has used less than a tenth of a core for a second, or a minute
after the topic was there: its logs may be made after its leaders are known."""
IDLE_S = 8.0
SIZE, WRITTEN_S = 100, 300.0


def cases(options: Options) -> list[Case]:
    return [
        Case(name=str(count), x=count, run=partial(measure, count=count, options=options))
        for count in (QUICK if options.quick else PARTITIONS)
    ]


def measure(start: Start, directory: Path, *, count: int, options: Options) -> Iterator[Sample]:
    row = f"{count:,} partition{'s' if count > 1 else ''}"
    with start(directory) as served:
        ready = served.resident_mb()
        began = time.perf_counter()
        topic = served.topic(partitions=count)
        yield row, "created", "s", time.perf_counter() - began
        settle(served)
        cpu, began = served.cpu_seconds(), time.perf_counter()
        wait(options.of(IDLE_S, 4))
        seconds = time.perf_counter() - began
        yield row, "idle CPU", "% of a core", (served.cpu_seconds() - cpu) / seconds * 100
        yield row, "resident", "MB", served.resident_mb()
        yield row, "more than when ready", "MB", max(0.0, served.resident_mb() - ready)
        yield row, "back after kill -9", "s", serves_after_kill(served, topic, count - 1)
        write_to_each(served, topic, count)
        settle(served)
        yield row, "back, each written", "s", serves_after_kill(served, topic, count - 1)
        yield row, "CPU of that start", "s", served.cpu_seconds()


def write_to_each(served: Served, topic: str, count: int) -> None:
    """One record to each partition: a log that was never written has no files to open."""
    settings = {"bootstrap.servers": served.bootstrap, "acks": 1, "linger.ms": 50, "log_level": 0}
    producer = Producer(settings)
    for partition in range(count):
        producer.produce(topic, b"x" * SIZE, partition=partition)
        producer.poll(0)
    if producer.flush(WRITTEN_S):
        raise RuntimeError(f"not every partition was written within {WRITTEN_S:g} s")


def settle(served: Served) -> None:
    end = time.monotonic() + SETTLE_S
    while time.monotonic() < end:
        cpu = served.cpu_seconds()
        wait(LOOK_S)
        if served.cpu_seconds() - cpu < BUSY * LOOK_S:
            return


def wait(seconds: float) -> None:
    """Let a broker be idle for so long, on purpose."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + 30, "an idle while")


AREA = Area(
    name="partitions",
    title="Memory, idle CPU and restarts against partitions",
    peer="Apache Kafka",
    row_title="partitions",
    settings=(
        "One broker with its defaults, freshly started for each row and round; one topic of so "
        "many partitions, one copy. *Created* counts until every partition has a leader in the "
        "metadata, *back after kill -9* from the new process's start until the last partition "
        "has acknowledged a record; *each written*: the same once every partition has a record of "
        "100 B, so that as many logs are opened, with the CPU of that process until then. 10,000 "
        "are asked for in two requests, since Apache Kafka's controller refuses more than 10,000 "
        "metadata records at once, and with `ulimit -n 100000`, since it keeps all files open."
    ),
    open=start_one,
    cases=cases,
)
