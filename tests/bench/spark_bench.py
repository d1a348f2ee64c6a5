"""Spark reading the same topics of one josefine broker through our source and through Spark's own.

Both run in one session, turn about, each warmed up once; what is told is the median of the rounds
and of their ratios. `noop` takes every row and keeps none; Delta is a new table each time.
"""

import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.brokers import client, create_topic
from tests.bench.peer_jars import peer_jars
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ROWS = {100: 6_000_000, 1000: 500_000}
PARTITIONS = 4
OURS, THEIRS = "josefine", "kafka"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def label_of(size: int) -> str:
    return "100B" if size == 100 else "1KB"


def fill(bootstrap: str, size: int, rows: int) -> str:
    topic = f"rows-{size}"
    create_topic(bootstrap, topic, PARTITIONS)
    client("librdkafka", "produce", bootstrap, topic, rows, size, f"partitions={PARTITIONS}")
    return topic


def read(spark: Any, source: str, bootstrap: str, topic: str) -> Any:
    return (
        spark.read.format(source)
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )


def write(frame: Any, sink: str, directory: str) -> float:
    """Seconds of the whole read and write."""
    writer = frame.write.format(sink).mode("overwrite")
    started = time.perf_counter()
    writer.save(directory) if sink == "delta" else writer.save()
    return time.perf_counter() - started


def measure(
    spark: Any, sources: list[str], bootstrap: str, topic: str, rows: int, sink: str
) -> dict[str, list[float]]:
    """{source: rows per second of each round}."""
    rates: dict[str, list[float]] = {source: [] for source in sources}
    for number in range(ROUNDS + 1):
        for source in sources if number % 2 else sources[::-1]:
            with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
                frame = read(spark, source, bootstrap, topic)
                seconds = write(frame, sink, f"{directory}/table")
                if sink == "delta" and number == 0:
                    found = spark.read.format("delta").load(f"{directory}/table").count()
                    if found != rows:
                        raise RuntimeError(f"{source} brought {found} of {rows} rows")
            say(f"round {number} {source:9} {topic:10} -> {sink:6} {rows / seconds:14,.0f} rows/s")
            if number:
                rates[source].append(rows / seconds)
    return rates


def report(name: str, rates: dict[str, list[float]]) -> dict[str, object]:
    line: dict[str, object] = {
        "measure": name,
        "unit": "rows_per_s",
        "josefine": round(median(rates[OURS])),
        "rounds": len(rates[OURS]),
    }
    if THEIRS in rates:
        line["spark_sql_kafka_0_10"] = round(median(rates[THEIRS]))
        pairs = zip(rates[OURS], rates[THEIRS], strict=True)
        line["ratio"] = round(median(ours / theirs for ours, theirs in pairs), 3)
    return line


def run(bootstrap: str) -> Iterator[dict[str, object]]:
    from josefine_spark.sessions.session import session

    sources = [OURS]
    conf = {"spark.driver.memory": "3g"}
    try:
        conf["spark.jars"] = ",".join(peer_jars())
        sources.append(THEIRS)
    except NoJarsError as error:
        say(f"bench: only josefine is measured, nothing to compare with: {error}")
    spark = session("josefine-bench", conf=conf, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for size, all_rows in ROWS.items():
            rows = int(all_rows * SCALE)
            topic = fill(bootstrap, size, rows)
            for sink in ("noop", "delta"):
                rates = measure(spark, sources, bootstrap, topic, rows, sink)
                yield report(f"spark_source_{sink}_{label_of(size)}", rates)
    finally:
        spark.stop()


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory,
        BrokerProcess(Path(directory)) as broker,
    ):
        for line in run(broker.bootstrap):
            print(json.dumps(line), flush=True)
