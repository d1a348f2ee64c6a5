"""Starts, memory and first reads against the size of one partition's log, 1 to 100 GB."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.recovery import serves_after_kill, serves_after_stop
from tests.bench.areas.servers import Served, Start, start_one
from tests.bench.sparse_logs import fill

GIGABYTES = (1.0, 10.0, 100.0)
QUICK = (0.25, 1.0)
READ_S = 60.0


def cases(options: Options) -> list[Case]:
    sizes = QUICK if options.quick else GIGABYTES
    if options.log_gb is not None:
        sizes = tuple(each for each in GIGABYTES if each <= options.log_gb)
    return [
        Case(name=f"{size:g}GB", x=size, run=partial(measure, gigabytes=size), rounds_max=3)
        for size in sizes
    ]


def measure(start: Start, directory: Path, *, gigabytes: float) -> Iterator[Sample]:
    row = f"{gigabytes:g} GB"
    with start(directory) as served:
        topic = served.topic()
        (broker,) = served.brokers.values()
        log = broker.directory / "data" / f"{topic}-0"
        count = fill(served.bootstrap, topic, log, gigabytes)
        yield row, "back after a clean stop", "s", serves_after_stop(served, topic, 0)
        yield row, "back after kill -9", "s", serves_after_kill(served, topic, 0)
        yield row, "CPU of that start", "s", served.cpu_seconds()
        yield row, "resident", "MB", served.resident_mb()
        yield from first_reads(served, topic, count, row)
        yield row, "on the disk", "MB", disk_mb(log)


def first_reads(served: Served, topic: str, count: int, row: str) -> Iterator[Sample]:
    """By a consumer whose connection is there: it has read the newest record before."""
    settings = {
        "bootstrap.servers": served.bootstrap, "group.id": "big-logs", "log_level": 0,
        "enable.auto.commit": False, "fetch.wait.max.ms": 10,
    }  # fmt: skip
    consumer = Consumer(settings)
    try:
        read_at(consumer, topic, count)
        for name, offset in (("oldest", 0), ("middle", count // 2)):
            yield row, f"first read, {name}", "ms", read_at(consumer, topic, offset)[0] * 1e3
        _, moment_ms = read_at(consumer, topic, count // 3)
        began = time.perf_counter()
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, moment_ms)], timeout=READ_S)
        yield row, "offset of a moment", "ms", (time.perf_counter() - began) * 1e3
        if not 0 < found.offset <= count // 3:
            raise RuntimeError(f"{served.name} has offset {found.offset} for the moment of a later")
    finally:
        consumer.close()


def read_at(consumer: Consumer, topic: str, offset: int) -> tuple[float, int]:
    """Seconds until the record at this offset is here, and its timestamp in ms."""
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, 0, offset)])
    message = consumer.poll(READ_S)
    if message is None or message.error() or message.offset() != offset:
        raise RuntimeError(f"{topic}: no record at offset {offset} within {READ_S:g} s")
    return time.perf_counter() - began, message.timestamp()[1]


def disk_mb(log: Path) -> float:
    """What the segments take; the values of their records are holes."""
    with os.scandir(log) as entries:
        return sum(each.stat().st_blocks * 512 for each in entries) / 1e6


AREA = Area(
    name="big_logs",
    title="Starts and first reads of large logs",
    peer="Apache Kafka",
    row_title="log",
    settings=(
        "One broker with its defaults, freshly started for each row and round; one partition, "
        "written as records of 1 MB whose zeros are then made holes in the files (*on the disk*), "
        "so that 100 GB need no 100 GB. *Back*: from the new process's start until it has "
        "acknowledged a record. A read is of one record by a consumer that is connected; *offset "
        "of a moment*: the search for a timestamp in the first third. Reads of holes need no disk: "
        "the times are those of finding the record."
    ),
    open=start_one,
    cases=cases,
)
