"""Transactions a second of one producer, one broker and three."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Opened, Options, Sample
from tests.bench.areas.servers import (
    KAFKA,
    OURS,
    Start,
    kafka_missing,
    kafka_one,
    kafka_three,
    our_one,
    our_three,
)
from tests.bench.brokers import client

RECORDS = (1_000, 10)
SIZE = 100
TRANSACTIONS, QUICK_TRANSACTIONS = {1: 1_000, 3: 300}, {1: 150, 3: 50}
WARM_UP = 0.5
"""Of so many transactions: a JVM compiles itself meanwhile."""


def cases(options: Options) -> list[Case]:
    counts = QUICK_TRANSACTIONS if options.quick else TRANSACTIONS
    return [
        Case(name=f"{copies}-brokers", x=copies, run=partial(measure, copies=copies, count=count))
        for copies, count in counts.items()
    ]


def measure(
    starts: dict[int, Start], directory: Path, *, copies: int, count: int
) -> Iterator[Sample]:
    with starts[copies](directory) as served:
        warm = served.topic(copies=copies)
        arguments = ("transact", served.bootstrap, warm, int(count * WARM_UP), SIZE)
        client("librdkafka", *arguments, f"records={RECORDS[0]}")
        for records in RECORDS:
            topic = served.topic(copies=copies)
            cpu = served.cpu_seconds()
            arguments = ("transact", served.bootstrap, topic, count, SIZE)
            done = json.loads(client("librdkafka", *arguments, f"records={records}"))
            used_ms = (served.cpu_seconds() - cpu) * 1e3
            row = f"{records:,} records of 100 B, {copies} broker{'s' if copies > 1 else ''}"
            yield row, "rate", "transactions/s", count / done["seconds"]
            yield row, "CPU of all brokers", "ms each", used_ms / count


@contextmanager
def start_either(_: Path, __: Options) -> Iterator[Opened]:
    """Each side as a table: number of brokers → how that many are started."""
    missing = kafka_missing()
    sides = {OURS: {1: our_one, 3: our_three}}
    if not missing:
        sides[KAFKA] = {1: kafka_one, 3: kafka_three}
    yield Opened(sides=sides, missing=missing)


AREA = Area(
    name="transactions",
    title="Transactions",
    peer="Apache Kafka",
    row_title="transaction",
    settings=(
        "Brokers with their defaults, freshly started for each round; three brokers: three copies, "
        "min.insync.replicas=2. One librdkafka producer ends one transaction after the other, "
        "after a warm-up of half as many."
    ),
    open=start_either,
    cases=cases,
)
