"""End-to-end latency at 1,000 records a second, the first record apart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each
from tests.bench.brokers import client

RATES = (100, 1_000)


def cases(options: Options) -> list[Case]:
    return [
        Case(name=str(rate), x=rate, run=partial(measure, rate=rate, options=options))
        for rate in (RATES[1:] if options.quick else RATES)
    ]


def measure(served: Served, _: Path, *, rate: int, options: Options) -> Iterator[Sample]:
    topic, row = served.topic(), f"{rate:,} records/s"
    found = json.loads(client("end_to_end", served.bootstrap, topic, rate, options.of(10, 4)))
    for name in ("p50", "p99", "p999"):
        yield row, name, "ms", found[f"{name}_us"] / 1e3
    yield row, "first record", "ms", found["first_us"] / 1e3


AREA = Area(
    name="latency",
    title="End-to-end latency",
    peer="Apache Kafka",
    row_title="rate",
    settings=(
        "One broker with its defaults, a new topic of one partition; one confluent-kafka producer "
        "(linger.ms=0, acks=all) and one consumer, both in one process, records of 100 B. Counted "
        "from when a record was due to when the consumer has it. The first record of the topic "
        "pays for connections and is not in the percentiles."
    ),
    open=one_each,
    cases=cases,
    matrix=True,
)
