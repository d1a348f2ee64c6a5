"""Memory against idle connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, one_each
from tests.integration.raw import api_versions_request, connect, read_response

CONNECTIONS = (1, 100, 1_000, 2_000, 5_000)
QUICK = (1, 1_000)


def cases(options: Options) -> list[Case]:
    return [
        Case(name=str(count), x=count, run=partial(measure, count=count))
        for count in (QUICK if options.quick else CONNECTIONS)
    ]


def measure(served: Served, _: Path, *, count: int) -> Iterator[Sample]:
    """Each connection has asked once for the API versions, as every client does."""
    with ExitStack() as stack:
        for number in range(count):
            connection = stack.enter_context(connect(served.bootstrap, timeout_s=60))
            connection.sendall(api_versions_request(number))
            read_response(connection)
        yield f"{count:,}", "resident", "MB", served.resident_mb()


AREA = Area(
    name="connections",
    title="Memory against idle connections",
    peer="Apache Kafka",
    row_title="connections",
    settings=(
        "One broker with its defaults (ours with limits of 6,000 connections); resident memory "
        "of the process while so many connections are open, each after one ApiVersions request. "
        "Apache Kafka's heap is 1 GB from the start, as its scripts have it."
    ),
    open=one_each,
    cases=cases,
)
