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
    Served,
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
SPENT = {
    "in AddPartitionsToTxn": 'josefine_request_seconds_sum{api="AddPartitionsToTxn"}',
    "in Produce": 'josefine_request_seconds_sum{api="Produce"}',
    "in EndTxn": 'josefine_request_seconds_sum{api="EndTxn"}',
    "in fdatasync": "josefine_fsync_seconds_sum",
}
"""Where the time of a transaction goes: seconds of our brokers, by their own metrics."""
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
            cpu, spent = served.cpu_seconds(), spent_seconds(served)
            arguments = ("transact", served.bootstrap, topic, count, SIZE)
            done = json.loads(client("librdkafka", *arguments, f"records={records}"))
            used_ms = (served.cpu_seconds() - cpu) * 1e3
            row = f"{records:,} records of 100 B, {copies} broker{'s' if copies > 1 else ''}"
            yield row, "rate", "transactions/s", count / done["seconds"]
            yield row, "CPU of all brokers", "ms each", used_ms / count
            for name, seconds in spent_seconds(served).items():
                yield row, name, "ms each", (seconds - spent[name]) * 1e3 / count


def spent_seconds(served: Served) -> dict[str, float]:
    """The sums of `SPENT` over all brokers; empty for Apache Kafka."""
    if served.name != OURS:
        return {}
    totals = dict.fromkeys(SPENT, 0.0)
    for broker in served.brokers.values():
        lines = broker.get("/metrics")[1].splitlines()
        values = dict(line.rsplit(" ", 1) for line in lines if line and not line.startswith("#"))
        for name, metric in SPENT.items():
            totals[name] += float(values.get(metric, 0))
    return totals


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
        "after a warm-up of half as many. *In* a request: from its arrival at our broker to its "
        "answer; the first and the last wait for one fdatasync each, a third one overlaps with the "
        "next transaction."
    ),
    open=start_either,
    cases=cases,
)
