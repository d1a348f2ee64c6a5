"""One-record requests against the number of connections: closed loops, as many as connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each
from tests.bench.brokers import client

CONNECTIONS = (1, 10, 50, 200, 1_000, 5_000)
QUICK = (1, 50, 1_000)


def cases(options: Options) -> list[Case]:
    return [
        Case(name=str(count), x=count, run=partial(measure, count=count, options=options))
        for count in (QUICK if options.quick else CONNECTIONS)
    ]


def measure(served: Served, _: Path, *, count: int, options: Options) -> Iterator[Sample]:
    topic, seconds = served.topic(), options.of(4, 1.5)
    cpu = served.cpu_seconds()
    found = json.loads(client("load", served.bootstrap, topic, count, seconds, 100, 1))
    row = f"{count:,} connection{'s' if count > 1 else ''}"
    yield row, "rate", "requests/s", found["requests"] / found["seconds"]
    used_us = (served.cpu_seconds() - cpu) * 1e6
    yield row, "CPU", "µs/request", used_us / found["requests"]
    yield row, "p50", "ms", found["p50_us"] / 1e3
    yield row, "p99", "ms", found["p99_us"] / 1e3


AREA = Area(
    name="requests",
    title="One-record requests against connections",
    peer="Apache Kafka",
    row_title="connections",
    settings=(
        "One broker with its defaults (ours with limits of 6,000 connections), acks=1, one record "
        "of 100 B per request; each connection sends its next request when it has the answer. The "
        "client is one Python process of raw frames."
    ),
    open=one_each,
    cases=cases,
    matrix=True,
)
