"""A pipeline's whole run against rows and against sinks, and the same job written by hand."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from josefine_cli.dev.demo_flights import InputTotals, data_set, read_events
from tests.bench import whole_runs
from tests.bench.areas.area import Area, Case, Opened, Options, Sample
from tests.bench.brokers import create_topic
from tests.bench.peer_jars import peer_jars
from tests.bench.pipelines_lab import SINKS, Lab, check, commits, write_pipeline
from tests.bench.whole_runs import Ran
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

OURS, BY_HAND = "josefine", "by_hand"
ROWS = (10_000, 100_000, 336_776, 1_347_104)
QUICK_ROWS = (10_000, 100_000)
SINK_COUNTS = (1, 10, 50, 200)
QUICK_SINK_COUNTS = (1, 10)
SINK_ROWS = 5_000
PARTITIONS = 4


@dataclass(slots=True)
class Job:
    """Who runs it: `run(folder, topic, sinks)`. The lab is shared by both sides."""

    lab: Lab
    topics: dict[int, str]
    run: Callable[[Path, str, Sequence[str]], Ran]


@contextmanager
def lab_with_both(directory: Path, _: Options) -> Iterator[Opened]:
    missing = ""
    try:
        peer_jars()
    except NoJarsError as error:
        missing = str(error)
    topics: dict[int, str] = {}
    with BrokerProcess(directory / "broker") as broker:
        lab = Lab(directory, broker)
        ours = Job(lab, topics, lambda folder, topic, sinks: run_ours(lab, folder, topic, sinks))
        by_hand = Job(lab, topics, lambda folder, topic, sinks: lab.by_hand(folder, topic, sinks))
        yield Opened(sides={OURS: ours} | ({} if missing else {BY_HAND: by_hand}), missing=missing)


def run_ours(lab: Lab, folder: Path, topic: str, sinks: Sequence[str]) -> Ran:
    file = write_pipeline(folder, topic, SINKS, "dead_letter")
    if sinks != SINKS:
        file.write_text(with_copies(file.read_text(), sinks))
    command = [sys.executable, "-m", "josefine_cli.main", "pipeline", "run", str(file), "--json"]
    return whole_runs.run(command, folder, lab.environment(folder))


def with_copies(text: str, names: Sequence[str]) -> str:
    """The file with copies of its first sink under these names, each with a table of its own."""
    said: dict[str, Any] = yaml.safe_load(text)
    sink = said["sinks"]["flights"]
    said["sinks"] = {
        name: {**sink, "path": sink["path"].rpartition("/")[0] + f"/{name}"} for name in names
    }
    return yaml.safe_dump(said, sort_keys=False)


def topic_of(job: Job, rows: int) -> str:
    """A topic with so many flights, the year again and again; made when it is first asked for."""
    if rows in job.topics:
        return job.topics[rows]
    from confluent_kafka import Producer

    name = job.topics[rows] = f"flights-{rows}"
    create_topic(job.lab.bootstrap, name, PARTITIONS)
    producer = Producer({"bootstrap.servers": job.lab.bootstrap, "linger.ms": 20,
                         "queue.buffering.max.messages": 2_000_000,
                         "compression.type": "zstd"})  # fmt: skip
    years = itertools.chain.from_iterable(
        read_events(data_set(), InputTotals()) for _ in itertools.count()
    )
    for number, event in enumerate(itertools.islice(years, rows)):
        producer.produce(name, event.value, event.key)
        if number % 10_000 == 0:
            producer.poll(0)
    if producer.flush(120):
        raise RuntimeError(f"not all flights were written to {name}")
    return name


def cases(options: Options) -> list[Case]:
    return [
        Case(name=f"{rows}", x=rows, run=partial(measure, rows=rows), rounds_max=3)
        for rows in (QUICK_ROWS if options.quick else ROWS)
    ]


def sink_cases(options: Options) -> list[Case]:
    rounds_max = 1 if options.quick else 3
    return [
        Case(
            name=f"{count}", x=count, run=partial(measure_sinks, count=count), rounds_max=rounds_max
        )
        for count in (QUICK_SINK_COUNTS if options.quick else SINK_COUNTS)
    ]


def measure(job: Job, folder: Path, *, rows: int) -> Iterator[Sample]:
    ran = job.run(folder, topic_of(job, rows), SINKS)
    check(folder, rows)
    yield from of_run(f"{rows:,} rows", ran)


def measure_sinks(job: Job, folder: Path, *, count: int) -> Iterator[Sample]:
    names = [f"flights_{number}" for number in range(count)]
    ran = job.run(folder, topic_of(job, SINK_ROWS), names)
    check(folder, SINK_ROWS, names)
    row = f"{count:,} sink{'s' if count > 1 else ''}"
    yield from of_run(row, ran)
    yield row, "CPU per sink", "s", ran.cpu_s / count
    yield row, "commits", "commits", sum(len(commits(folder, name)) for name in names)


def of_run(row: str, ran: Ran) -> Iterator[Sample]:
    yield row, "time", "s", ran.wall_s
    yield row, "CPU", "s", ran.cpu_s
    yield row, "peak memory", "MB", ran.peak_mb
    yield row, "peak memory, shared pages once", "MB", ran.peak_share_mb


SETTINGS = (
    "conf/pipelines/flights.yaml as shipped (local[2], batches of 120,000, C1 compiler only), from "
    "the start of the process to its end, sessions and JVM included; the other side is "
    "`tests/bench/pipelines_by_hand.py` with Spark's own Kafka source and the same JVM options, "
    "without dead letters and anchored offsets. CPU and memory are of all processes. "
)

AREA = Area(
    name="pipelines",
    title="A pipeline's time against rows",
    peer="by hand",
    row_title="rows",
    settings=SETTINGS + "Both sinks: an append and a merge with sums.",
    open=lab_with_both,
    cases=cases,
)
SINKS_AREA = Area(
    name="sinks",
    title="A pipeline's time against sinks",
    peer="by hand",
    row_title="sinks",
    settings=SETTINGS + f"{SINK_ROWS:,} rows go into each of so many Delta tables. "
    "Commits are those of all tables, their creation included.",
    open=lab_with_both,
    cases=sink_cases,
)
