"""Throughput and latency per acks, replication factor and size of a record (checklist row 95)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, three_each
from tests.bench.brokers import client

ACKS = {"0": 0, "1": 1, "all": -1}
COPIES = (1, 3)
SIZES = {100: "100 B", 1_000: "1 KB", 10_000: "10 KB"}
BYTES, QUICK_BYTES = 200e6, 30e6
RECORDS_MAX = 1_000_000
RATE = 1_000
"""Requests a second while latency is measured: a load that every cell carries."""
WINDOWS_MAX, AGREE = 20, 1.2


def cases(options: Options) -> list[Case]:
    found = []
    for copies, (acks, code), size in product(COPIES, ACKS.items(), SIZES):
        if options.quick and (size == 10_000 or acks == "0"):
            continue
        run = partial(measure, copies=copies, acks=(acks, code), size=size, options=options)
        name = f"rf{copies}-acks-{acks}-{SIZES[size].replace(' ', '')}"
        found.append(Case(name=name, x=size, run=run))
    return found


def measure(
    served: Served, _: Path, *, copies: int, acks: tuple[str, int], size: int, options: Options
) -> Iterator[Sample]:
    name, code = acks
    row = f"RF {copies}, acks={name}, {SIZES[size]}"
    topic = served.topic(copies=copies)
    count = int(min(options.of(BYTES, QUICK_BYTES) // size, RECORDS_MAX))
    done = served.produce(topic, count, size, f"acks={code}")
    yield row, "throughput", "records/s", done["records"] / done["seconds"]
    yield row, "throughput", "MB/s", done["bytes"] / done["seconds"] / 1e6
    if not code:
        return  # nothing is answered, so there is no latency
    leader, seconds = served.address(served.leader(topic)), options.of(4, 2)
    windows: list[float] = []
    while not settled(windows):
        found = json.loads(client("offered_load", leader, topic, RATE, seconds, 4, size, code))
        windows.append(found["p50_us"])
    for percentile in ("p50", "p99", "p999"):
        yield row, percentile, "ms", found[f"{percentile}_us"] / 1e3
    windows.clear()
    while not settled(windows):
        alone = json.loads(client("load", leader, topic, 1, seconds, size, code))
        windows.append(alone["p50_us"])
    yield row, "p50, one at a time", "ms", windows[-1] / 1e3


def settled(windows: Sequence[float]) -> bool:
    """Whether the medians of the last windows agree, so that the last one is a warm server's.

    Three JVMs on two cores need up to a minute of requests before theirs do. Who has not settled
    after `WINDOWS_MAX` is measured as it is.
    """
    last = windows[-3:]
    return len(windows) == WINDOWS_MAX or (len(last) == 3 and max(last) <= AGREE * min(last))


AREA = Area(
    name="acks",
    title="Throughput and latency per acks, replication factor and record size",
    peer="Apache Kafka",
    row_title="replication factor, acks, record size",
    settings=(
        "Three brokers a side with their defaults, min.insync.replicas=2, all on this machine; one "
        "partition with one or three copies. Throughput is librdkafka's (linger.ms=5, batches of "
        f"up to 1 MB), latency that of one-record requests in an open loop of {RATE:,} a second, "
        "in the first of the windows of 2 or 4 s whose median is within 20 % of two before it; "
        "one at a time is a connection that sends the next request when the last is answered. "
        "acks=0 has no answer, so no latency. Apache Kafka's heaps are 512 MB each, its other JVM "
        "options those of its scripts."
    ),
    open=three_each,
    cases=cases,
    matrix=True,
)
