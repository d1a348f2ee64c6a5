"""Spark writing rows into a topic of one josefine broker: our sink, exactly once and at least once,
and Spark's own, which is at least once.

All in one session, turn about, each warmed up once; medians of the rounds and of their ratios. The
rows are the same numbers each time, made in the tasks, a fresh topic per write.
"""

import itertools
import json
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.brokers import create_topic
from tests.bench.peer_jars import peer_jars
from tests.bench.spark_bench import label_of, say
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
ROWS = {100: 3_000_000, 1000: 400_000}
PARTITIONS = 4
ONCE, AT_LEAST_ONCE, PEER = "exactly_once", "at_least_once", "kafka"

_numbers = itertools.count()


def write(spark: Any, sink: str, bootstrap: str, size: int, rows: int) -> float:
    """Rows per second."""
    topic = f"sink-{next(_numbers)}"
    create_topic(bootstrap, topic, PARTITIONS)
    value = f"rpad(CAST(id AS STRING), {size}, 'x')"
    frame = spark.range(0, rows, numPartitions=PARTITIONS).selectExpr(f"{value} AS value")
    writer = frame.write.format("kafka" if sink == PEER else "josefine").mode("append")
    writer = writer.option("kafka.bootstrap.servers", bootstrap).option("topic", topic)
    if sink != PEER:
        writer = writer.option("delivery", sink)
    started = time.perf_counter()
    writer.save()
    return rows / (time.perf_counter() - started)


def measure(spark: Any, sinks: list[str], bootstrap: str, size: int) -> dict[str, Any]:
    rows = int(ROWS[size] * SCALE)
    rates: dict[str, list[float]] = {sink: [] for sink in sinks}
    for number in range(ROUNDS + 1):
        for sink in sinks if number % 2 else sinks[::-1]:
            rate = write(spark, sink, bootstrap, size, rows)
            say(f"round {number} {sink:13} {label_of(size):6} {rate:14,.0f} rows/s")
            if number:
                rates[sink].append(rate)
    line: dict[str, Any] = {
        "measure": f"spark_sink_{label_of(size)}",
        "unit": "rows_per_s",
        **{sink: round(median(found)) for sink, found in rates.items()},
        "rounds": ROUNDS,
    }
    for sink in sinks[1:]:
        pairs = zip(rates[ONCE], rates[sink], strict=True)
        line[f"ratio_{sink}"] = round(median(ours / theirs for ours, theirs in pairs), 3)
    return line


def run(bootstrap: str) -> Iterator[dict[str, Any]]:
    from josefine_spark.sessions.session import session

    sinks = [ONCE, AT_LEAST_ONCE]
    conf = {"spark.driver.memory": "2g"}
    try:
        conf["spark.jars"] = ",".join(peer_jars())
        sinks.append(PEER)
    except NoJarsError as error:
        say(f"bench: only josefine is measured, nothing to compare with: {error}")
    spark = session("josefine-bench", conf=conf, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        for size in ROWS:
            yield measure(spark, sinks, bootstrap, size)
    finally:
        spark.stop()


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory,
        BrokerProcess(Path(directory)) as broker,
    ):
        for line in run(broker.bootstrap):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
