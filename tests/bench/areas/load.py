"""Latency percentiles against offered load: an open loop of one-record requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each
from tests.bench.brokers import client

RATES = (100, 1_000, 2_000, 5_000, 10_000, 15_000, 20_000)
QUICK_RATES = (1_000, 5_000, 10_000)
CONNECTIONS = 10


def cases(options: Options) -> list[Case]:
    return [
        Case(name=str(rate), x=rate, run=partial(measure, rate=rate, options=options))
        for rate in (QUICK_RATES if options.quick else RATES)
    ]


def measure(served: Served, _: Path, *, rate: int, options: Options) -> Iterator[Sample]:
    topic, seconds = served.topic(), options.of(5, 2)
    found = json.loads(
        client("offered_load", served.bootstrap, topic, rate, seconds, CONNECTIONS, 100, 1)
    )
    for name in ("p50", "p99", "p999"):
        yield f"{rate:,} requests/s", name, "ms", found[f"{name}_us"] / 1e3


AREA = Area(
    name="load",
    title="Latency against offered load",
    peer="Apache Kafka",
    row_title="offered",
    settings=(
        "One broker with its defaults, acks=1, one record of 100 B per request, 10 connections, an "
        "open loop: a request's latency counts from the moment when it was due, so a pause is "
        "charged to every request in it. The client is one Python process of raw frames; where it "
        "cannot keep up (beyond about 15,000 requests/s on two cores) both columns grow."
    ),
    open=one_each,
    cases=cases,
    matrix=True,
)
