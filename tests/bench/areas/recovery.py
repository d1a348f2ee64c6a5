"""Time from the start of a killed broker to its first acknowledged record, against its log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from confluent_kafka import Producer

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Served, Start, start_one

GIGABYTES = (0.064, 0.256, 1.0, 4.0)
QUICK = (0.064, 0.256)
MORE = (10.0, 30.0, 100.0)
"""With --log-gb, up to which size: real records, so the disk needs as much room."""
SIZE = 1_000
BACK_S = 600.0
FAST = {
    "acks": 1, "linger.ms": 0, "retry.backoff.ms": 20, "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 50, "log_level": 0,
    "topic.metadata.refresh.fast.interval.ms": 50,
}  # fmt: skip
"""A client that tries again at once, so that its own pauses are small against the broker's."""


def cases(options: Options) -> list[Case]:
    sizes = [*(QUICK if options.quick else GIGABYTES)]
    if options.log_gb is not None:
        sizes = [each for each in (*sizes, *MORE) if each <= options.log_gb]
    return [
        Case(name=f"{size:g}GB", x=size, run=partial(measure, gigabytes=size), rounds_max=3)
        for size in dict.fromkeys(sizes)
    ]


def measure(start: Start, directory: Path, *, gigabytes: float) -> Iterator[Sample]:
    with start(directory) as served:
        topic = served.topic()
        served.produce(topic, int(gigabytes * 1e9 / SIZE), SIZE, "acks=1")
        yield f"{gigabytes:g} GB", "back after kill -9", "s", serves_after_kill(served, topic, 0)


def serves_after_kill(served: Served, topic: str, partition: int) -> float:
    """Seconds from the start of the killed process until a record is acknowledged."""
    ((number, _),) = served.brokers.items()
    served.kill(number)
    return serves(served, topic, partition)


def serves_after_stop(served: Served, topic: str, partition: int) -> float:
    """The same after a clean stop."""
    (broker,) = served.brokers.values()
    broker.stop()
    return serves(served, topic, partition)


def serves(served: Served, topic: str, partition: int) -> float:
    """Start the process that has ended."""
    (broker,) = served.brokers.values()
    began = time.perf_counter()
    broker.spawn()
    acknowledged: list[float] = []

    def on_delivery(error: object, _: object) -> None:
        if error is None:
            acknowledged.append(time.perf_counter())

    producer = Producer({"bootstrap.servers": broker.bootstrap, **FAST})
    producer.produce(topic, b"back", partition=partition, on_delivery=on_delivery)
    if producer.flush(BACK_S) or not acknowledged:
        raise RuntimeError(f"{served.name} did not serve {topic} within {BACK_S:.0f} s")
    return acknowledged[0] - began


AREA = Area(
    name="recovery",
    title="Recovery after kill -9 against the size of the log",
    peer="Apache Kafka",
    row_title="log",
    settings=(
        "One broker with its defaults, freshly started for each row and round; one partition of "
        "records of 1 KB, the process killed right after the last acknowledgement. The time is "
        "from the new process's start until it has acknowledged a record; the page cache is warm. "
        "Apache Kafka waits until the killed process's session has ended (9 s) before it serves. "
        "`--log-gb 100` measures larger logs, and needs the disk for them."
    ),
    open=start_one,
    cases=cases,
)
