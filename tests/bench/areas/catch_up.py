"""A follower that was away catches up: the rate at which it copies the log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tests.bench.areas.area import Area, Case, Options, Sample
from tests.bench.areas.servers import Start, start_three
from tests.support.waiting import wait_until

GIGABYTES, QUICK = (1.0,), (0.2,)
MORE = (10.0,)
SIZE = 1_000
SMALL_GIGABYTES = 0.1
SMALL_BATCHES = ("batch.size=2000", "linger.ms=0")
"""Of one or two records: what a follower spends on each batch, not on each byte, decides then."""
CAUGHT_UP_S = 900.0


def cases(options: Options) -> list[Case]:
    sizes = [*(QUICK if options.quick else GIGABYTES)]
    if options.log_gb is not None:
        sizes += [each for each in MORE if each <= options.log_gb]
    small = partial(measure, gigabytes=SMALL_GIGABYTES, settings=SMALL_BATCHES)
    return [
        *(
            Case(name=f"{size:g}GB", x=size, run=partial(measure, gigabytes=size), rounds_max=3)
            for size in sizes
        ),
        Case(name=f"{SMALL_GIGABYTES:g}GB-small-batches", run=small, rounds_max=3),
    ]


def measure(
    start: Start, directory: Path, *, gigabytes: float, settings: tuple[str, ...] = ()
) -> Iterator[Sample]:
    row = f"{gigabytes:g} GB of lag" + (", batches of 2 KB" if settings else "")
    with start(directory) as served:
        topic = served.topic(copies=3)
        everyone = served.in_sync(topic)
        follower = next(each for each in everyone if each != served.leader(topic))
        served.kill(follower)
        alone = [each for each in everyone if each != follower]
        wait_until(lambda: served.in_sync(topic) == alone, 60, "the ISR without it")
        served.produce(topic, int(gigabytes * 1e9 / SIZE), SIZE, "acks=-1", *settings)
        cpu = served.cpu_seconds()
        began = time.perf_counter()
        served.brokers[follower].spawn()
        log = served.brokers[follower].directory / "data" / f"{topic}-0"
        wait_until(lambda: size_of(log) > SIZE, CAUGHT_UP_S, "the first copied record")
        copying, before = time.perf_counter(), served.cpu_seconds()
        wait_until(
            lambda: served.in_sync(topic) == everyone, CAUGHT_UP_S, "the follower in the ISR"
        )
        seconds = time.perf_counter() - began
        yield row, "start, until the first copy", "s", copying - began
        yield row, "in sync after", "s", seconds
        yield row, "copying", "MB/s", gigabytes * 1e3 / (began + seconds - copying)
        used = served.cpu_seconds()
        yield row, "CPU of all brokers", "s/GB", (used - cpu) / gigabytes
        yield row, "CPU of all brokers while copying", "s/GB", (used - before) / gigabytes


def size_of(log: Path) -> int:
    """Bytes of a partition's segments."""
    return sum(path.stat().st_size for path in log.glob("*.log"))


AREA = Area(
    name="catch_up",
    title="A lagging follower catches up",
    peer="Apache Kafka",
    row_title="lag",
    settings=(
        "Three brokers a side with their defaults, freshly started for each round; one partition "
        "with three copies. A follower is killed, records of 1 KB are written with acks=all, and "
        "the time counts from the follower's new start until it is in the ISR again; *copying* "
        "from the first copied record. *Batches of 2 KB* have one or two records each. "
        "`--log-gb 10` measures 10 GB, and needs 30 GB of disk."
    ),
    open=start_three,
    cases=cases,
)
