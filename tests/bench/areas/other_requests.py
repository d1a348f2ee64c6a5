"""Small requests of the other kinds that applications send most, against connections."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each
from tests.bench.brokers import client

KINDS = {
    "fetch": "fetch of one record",
    "session": "fetch in a session",
    "heartbeat": "heartbeat",
    "commit": "offset commit",
}
CONNECTIONS = (1, 50)


def cases(options: Options) -> list[Case]:
    return [
        Case(
            name=f"{kind}-{count}",
            run=partial(measure, kind=kind, count=count, options=options),
        )
        for kind, count in product(KINDS, CONNECTIONS)
    ]


def measure(
    served: Served, _: Path, *, kind: str, count: int, options: Options
) -> Iterator[Sample]:
    topic, seconds = served.topic(partitions=count), options.of(4, 1.5)
    where = served.bootstrap, topic, kind, count, seconds, served.pid
    found = json.loads(client("request_load", *where))
    row = f"{KINDS[kind]}, {count:,} connection{'s' if count > 1 else ''}"
    yield row, "rate", "requests/s", found["requests"] / found["seconds"]
    yield row, "CPU", "µs/request", found["cpu_s"] * 1e6 / found["requests"]
    yield row, "p50", "ms", found["p50_us"] / 1e3
    yield row, "p99", "ms", found["p99_us"] / 1e3
    served.delete(topic)


AREA = Area(
    name="other_requests",
    title="Small requests of other kinds",
    peer="Apache Kafka",
    row_title="request, connections",
    settings=(
        "One broker with its defaults, raw frames of one Python process, one request in flight on "
        "each connection. A fetch reads one batch of one record of 100 B, with and without a fetch "
        "session; a heartbeat is that of the only member of a classic group, a commit that of one "
        "offset, each connection with a group of its own. Our commits are synced to disk before "
        "they are answered, Kafka's are in the page cache."
    ),
    open=one_each,
    cases=cases,
    matrix=True,
)
