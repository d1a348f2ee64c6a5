"""Spark reading from and writing to a topic: our connector and Spark's own Kafka connector."""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.areas.area import Area, Case, Opened, Options, Sample
from tests.bench.brokers import client, create_topic
from tests.bench.peer_jars import peer_jars
from tests.bench.processes import Meter
from tests.bench.spark_cpu_bench import CONF
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

OURS, THEIRS = "josefine", "kafka"
ROWS = {100: 2_000_000, 1_000: 300_000}
LABELS = {100: "100 B", 1_000: "1 KB"}
QUICK_SHARE = 0.5
PARTITIONS = 4
WARM_UPS = 1
"""Rounds of each case that come first and are not counted: a JVM compiles itself meanwhile."""

_numbers = itertools.count()


@dataclass(slots=True)
class Source:
    """One connector in the session that both share. Mutable: the cases that it is warm for."""

    name: str
    spark: Any
    bootstrap: str
    meter: Meter
    topics: dict[int, str]
    warm: set[str]


@contextmanager
def session_with_both(directory: Path, options: Options) -> Iterator[Opened]:
    from josefine_spark.sessions.session import session

    names, conf, missing = [OURS], dict(CONF), ""
    try:
        conf["spark.jars"] = ",".join(peer_jars())
        names.append(THEIRS)
    except NoJarsError as error:
        missing = str(error)
    with BrokerProcess(directory / "broker") as broker:
        spark = session("josefine-bench", conf=conf, master="local[2]")
        spark.sparkContext.setLogLevel("ERROR")
        meter = Meter(spark.sparkContext._gateway.proc.pid, broker.pid)
        try:
            topics = {size: fill(broker.bootstrap, size, options) for size in ROWS}
            sides = {
                name: Source(name, spark, broker.bootstrap, meter, topics, set()) for name in names
            }
            yield Opened(sides=sides, missing=missing)
        finally:
            spark.stop()


def rows_of(size: int, options: Options) -> int:
    return int(ROWS[size] * options.of(1, QUICK_SHARE))


def fill(bootstrap: str, size: int, options: Options) -> str:
    topic = f"rows-{size}"
    create_topic(bootstrap, topic, PARTITIONS)
    settings = f"partitions={PARTITIONS}"
    client("librdkafka", "produce", bootstrap, topic, rows_of(size, options), size, settings)
    return topic


def cases(options: Options) -> list[Case]:
    found = []
    for name, work in {"read": read, "delta": stream, "write": write}.items():
        for size in ROWS:
            if options.quick and name == "delta" and size == 100:
                continue
            run = partial(measure, name=name, work=work, size=size, options=options)
            found.append(Case(name=f"{name}-{LABELS[size].replace(' ', '')}", x=size, run=run))
    return found


def measure(
    source: Source, directory: Path, *, name: str, work: Any, size: int, options: Options
) -> Iterator[Sample]:
    rows = rows_of(size, options)
    key = f"{name}-{size}"
    for number in range(WARM_UPS if key not in source.warm else 0):
        work(source, size, rows, directory / f"warm-{number}")
    source.warm.add(key)
    before, began = source.meter.spent(), time.perf_counter()
    work(source, size, rows, directory / "counted")
    seconds = time.perf_counter() - began
    cost = source.meter.spent().since(before).total
    row = f"{TITLES[name]}, {LABELS[size]}"
    yield row, "rate", "rows/s", rows / seconds
    yield row, "CPU", "s per million rows", cost / rows * 1e6


def read(source: Source, size: int, rows: int, _: Path) -> None:
    frame = options_of(source.spark.read.format(source.name), source, source.topics[size]).load()
    frame.write.format("noop").mode("overwrite").save()


def stream(source: Source, size: int, rows: int, folder: Path) -> None:
    reader = source.spark.readStream.format(source.name)
    frame = options_of(reader, source, source.topics[size]).load()
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as scratch:
        query = frame.writeStream.format("delta").option("checkpointLocation", f"{scratch}/c")
        query.trigger(availableNow=True).start(f"{scratch}/table").awaitTermination()


def write(source: Source, size: int, rows: int, _: Path) -> None:
    """Ours exactly once, theirs at least once: it has no other."""
    topic = f"written-{next(_numbers)}"
    create_topic(source.bootstrap, topic, PARTITIONS)
    value = f"rpad(CAST(id AS STRING), {size}, 'x') AS value"
    frame = source.spark.range(0, rows, numPartitions=PARTITIONS).selectExpr(value)
    writer = frame.write.format(source.name).mode("append")
    writer = writer.option("kafka.bootstrap.servers", source.bootstrap).option("topic", topic)
    if source.name == OURS:
        writer = writer.option("delivery", "exactly_once")
    writer.save()


def options_of(reader: Any, source: Source, topic: str) -> Any:
    return (
        reader.option("kafka.bootstrap.servers", source.bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )


TITLES = {
    "read": "batch read",
    "delta": "stream into a Delta table",
    "write": "batch written to a topic",
}

AREA = Area(
    name="spark",
    title="Spark",
    peer="Spark's own Kafka connector",
    row_title="what, record size",
    settings=(
        "Both connectors in one session (local[2], 3 GB), on the same topics of the same broker, "
        "four partitions, warmed up once per case. Written rows are exactly once with ours and at "
        "least once with Spark's, which has no other. CPU is that of the JVM, of all Python "
        "processes and of the broker together."
    ),
    open=session_with_both,
    cases=cases,
)
