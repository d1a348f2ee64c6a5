"""Throughput and CPU against the size of a record: librdkafka writes and reads one partition."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each

SIZES = {10: "10 B", 100: "100 B", 1_000: "1 KB", 10_000: "10 KB", 100_000: "100 KB",
         1_000_000: "1 MB"}  # fmt: skip
QUICK_SIZES = (10, 100, 1_000, 100_000)
BYTES, QUICK_BYTES = 600e6, 200e6
RECORDS_MAX, QUICK_RECORDS_MAX = 4_000_000, 1_500_000
"""Of small records, whose time is that of records and not of bytes."""
RECORDS_MIN = 60


def cases(options: Options) -> list[Case]:
    found = []
    for size in QUICK_SIZES if options.quick else SIZES:
        records = min(options.of(BYTES, QUICK_BYTES) // size,
                      options.of(RECORDS_MAX, QUICK_RECORDS_MAX))  # fmt: skip
        run = partial(measure, size=size, count=max(RECORDS_MIN, int(records)))
        found.append(Case(name=SIZES[size].replace(" ", ""), x=size, run=run))
    return found


def measure(served: Served, _: Path, *, size: int, count: int) -> Iterator[Sample]:
    label, topic = SIZES[size], served.topic()
    settings = ("message.max.bytes=1048588",) if size > 900_000 else ()
    cpu = served.cpu_seconds()
    done = served.produce(topic, count, size, "acks=1", *settings)
    yield f"{label}, written", "produce", "MB/s", done["bytes"] / done["seconds"] / 1e6
    used = served.cpu_seconds()
    yield f"{label}, written", "produce CPU", "s/GB", (used - cpu) / done["bytes"] * 1e9
    done = served.consume(topic, count, size)
    yield f"{label}, read", "consume", "MB/s", done["bytes"] / done["seconds"] / 1e6
    yield (
        f"{label}, read", "consume CPU", "s/GB",
        (served.cpu_seconds() - used) / done["bytes"] * 1e9,
    )  # fmt: skip
    served.delete(topic)


AREA = Area(
    name="records",
    title="Throughput and CPU against the size of a record",
    peer="Apache Kafka",
    row_title="record size",
    settings=(
        "One broker with its defaults (page cache), one partition, one copy, acks=1, no "
        "compression; the client is librdkafka with linger.ms=5 and batches of up to 1 MB. Apache "
        "Kafka has the JVM options of its own scripts (1 GB of heap, G1). CPU is the broker "
        "process's alone."
    ),
    open=one_each,
    cases=cases,
)
