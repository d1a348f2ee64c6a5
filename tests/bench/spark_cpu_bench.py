"""What a row costs: processor seconds per million rows, ours and those of Spark's own Kafka source.

`python -m tests.bench spark_cpu`: the JVM, the Python processes below it and the broker, each by
itself. Both sources read from and write to the same broker in one session, turn about; what is told
is the median of the rounds. BENCH_ROUNDS, BENCH_SCALE and BENCH_CODECS (`none,lz4` unless given, or
`all`) make it shorter or longer, BENCH_CASES (`read,delta,write,idle`) leaves out measures.
"""

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.brokers import client, create_topic
from tests.bench.peer_jars import peer_jars
from tests.bench.processes import Meter, Seconds
from tests.support.broker import BrokerProcess
from tests.support.maven import NoJarsError

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
ASKED = os.environ.get("BENCH_CODECS", "none,lz4").replace("all", ",".join(CODECS)).split(",")
CASES = os.environ.get("BENCH_CASES", "read,delta,write,idle").split(",")
ROWS = {100: 2_000_000, 1000: 300_000}
WRITTEN_ROWS = 1_000_000
PARTITIONS = 4
IDLE_S = 10.0
WARM_UPS = 2
OURS, THEIRS = "josefine", "kafka"
CONF = {
    "spark.driver.memory": "3g",
    # A machine that does something else too may be silent for long.
    "spark.executor.heartbeatInterval": "60s",
    "spark.network.timeout": "900s",
    "spark.python.authenticate.socketTimeout": "300s",
}


class Bench:
    """The session and the broker under measure."""

    def __init__(self, spark: Any, broker: BrokerProcess, sources: list[str]) -> None:
        self.spark, self.broker, self.sources = spark, broker, sources
        meter = Meter(spark.sparkContext._gateway.proc.pid, broker.pid)
        self.spent: Callable[[], Seconds] = meter.spent

    def compare(
        self, name: str, rows: int, work: Callable[[str], None], warm_ups: int = WARM_UPS
    ) -> dict[str, object]:
        """One line: seconds per million rows of `work` by each source, and theirs over ours."""
        found: dict[str, list[Seconds]] = {source: [] for source in self.sources}
        walls: dict[str, list[float]] = {source: [] for source in self.sources}
        for number in range(warm_ups + ROUNDS):
            for source in self.sources if number % 2 else self.sources[::-1]:
                before, started = self.spent(), time.perf_counter()
                work(source)
                wall, cost = time.perf_counter() - started, self.spent().since(before)
                if number >= warm_ups:
                    found[source].append(cost.over(rows / 1e6))
                    walls[source].append(wall)
        line: dict[str, object] = {"measure": name, "unit": "cpu_s_per_million_rows"}
        for source, costs in found.items():
            line[source] = _rounded(costs)
        if THEIRS in found:
            theirs, ours = _total(found[THEIRS]), _total(found[OURS])
            line["kafka_over_josefine"] = round(theirs / ours, 2)
            pairs = zip(walls[THEIRS], walls[OURS], strict=True)
            line["wall_kafka_over_josefine"] = round(median(a / b for a, b in pairs), 2)
        return line

    def read(self, source: str, topic: str) -> Any:
        return self._source(self.spark.read, source, topic).load()

    def stream(self, source: str, topic: str) -> Any:
        return self._source(self.spark.readStream, source, topic).load()

    def _source(self, reader: Any, source: str, topic: str) -> Any:
        return (
            reader.format(source)
            .option("kafka.bootstrap.servers", self.broker.bootstrap)
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
        )


def reads(bench: Bench) -> Iterator[dict[str, object]]:
    for size in ROWS:
        for codec in ASKED:
            rows, topic = fill(bench.broker, size, codec)

            def work(source: str, topic: str = topic) -> None:
                bench.read(source, topic).write.format("noop").mode("overwrite").save()

            yield bench.compare(f"batch_noop_{size}B_{codec}", rows, work)


def deltas(bench: Bench) -> Iterator[dict[str, object]]:
    for size in ROWS:
        rows, topic = fill(bench.broker, size, "none")

        def work(source: str, topic: str = topic) -> None:
            with tempfile.TemporaryDirectory(prefix="josefine-bench-") as folder:
                query = bench.stream(source, topic).writeStream.format("delta")
                query = query.option("checkpointLocation", f"{folder}/checkpoint")
                query.trigger(availableNow=True).start(f"{folder}/table").awaitTermination()

        yield bench.compare(f"stream_delta_{size}B_none", rows, work, warm_ups=1)


def writes(bench: Bench) -> Iterator[dict[str, object]]:
    rows = int(WRITTEN_ROWS * SCALE)
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as folder:
        for size in ROWS:
            count = rows if size == 100 else rows // 5
            topic = f"written-{size}"
            create_topic(bench.broker.bootstrap, topic, PARTITIONS)
            value = f"cast(rpad(cast(id as string), {size}, 'x') as binary) value"
            bench.spark.range(count, numPartitions=2).selectExpr(
                "cast(id as string) key", value
            ).write.parquet(f"{folder}/{size}")
            frame = bench.spark.read.parquet(f"{folder}/{size}")

            def work(source: str, frame: Any = frame, topic: str = topic) -> None:
                (
                    frame.write.format(source)
                    .option("kafka.bootstrap.servers", bench.broker.bootstrap)
                    .option("topic", topic)
                    .mode("append")
                    .save()
                )

            yield bench.compare(f"write_{size}B_none", count, work)


def idles(bench: Bench) -> Iterator[dict[str, object]]:
    """Percent of a core and requests per second of a query with nothing to do."""
    _, topic = fill(bench.broker, 100, "none")
    line: dict[str, object] = {"measure": "idle_query", "unit": "percent_of_a_core"}
    for source in bench.sources:
        with tempfile.TemporaryDirectory(prefix="josefine-bench-") as folder:
            stream = bench.stream(source, topic).writeStream.format("noop")
            query = stream.option("checkpointLocation", folder).start()
            query.processAllAvailable()
            # What the JVM still compiles and collects is the batch's cost.
            query.awaitTermination(3)
            before, asked, started = bench.spent(), requests(bench.broker), time.perf_counter()
            query.awaitTermination(IDLE_S)
            seconds = time.perf_counter() - started
            used = bench.spent().since(before).over(seconds / 100)
            line[source] = {name: round(value, 2) for name, value in used._asdict().items()}
            rate = (requests(bench.broker) - asked) / seconds
            line[f"{source}_requests_per_s"] = round(rate, 1)
            query.stop()
    yield line


def requests(broker: BrokerProcess) -> float:
    """Requests answered so far."""
    _, text = broker.get("/metrics")
    found = re.findall(r"^josefine_request_seconds_count\{.*\} (\S+)$", text, re.MULTILINE)
    return sum(map(float, found))


def fill(broker: BrokerProcess, size: int, codec: str) -> tuple[int, str]:
    """The rows and the name of a topic of records of `size` bytes; made when it is not there."""
    rows, topic = int(ROWS[size] * SCALE), f"rows-{size}-{codec}"
    marker = broker.directory / topic
    if not marker.exists():
        create_topic(broker.bootstrap, topic, PARTITIONS)
        settings = (f"partitions={PARTITIONS}", f"compression.codec={codec}")
        client("librdkafka", "produce", broker.bootstrap, topic, rows, size, *settings)
        marker.touch()
    return rows, topic


def _total(costs: list[Seconds]) -> float:
    return median(cost.total for cost in costs)


def _rounded(costs: list[Seconds]) -> dict[str, float]:
    told = {name: round(median(getattr(c, name) for c in costs), 3) for name in Seconds._fields}
    return told | {"total": round(_total(costs), 3)}


MEASURES = {"read": reads, "delta": deltas, "write": writes, "idle": idles}


def run(broker: BrokerProcess) -> Iterator[dict[str, object]]:
    from josefine_spark.sessions.session import session

    sources = [OURS]
    conf = dict(CONF)
    try:
        conf["spark.jars"] = ",".join(peer_jars())
        sources.append(THEIRS)
    except NoJarsError as error:
        print(f"bench: nothing to compare with: {error}", file=sys.stderr)
    more = os.environ.get("BENCH_CONF", "")
    conf |= dict(pair.split("=", 1) for pair in more.split() if pair)
    spark = session("josefine-bench", conf=conf, master="local[2]")
    spark.sparkContext.setLogLevel("ERROR")
    try:
        bench = Bench(spark, broker, sources)
        for name in CASES:
            yield from MEASURES[name](bench)
    finally:
        spark.stop()


def main() -> None:
    with (
        tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory,
        BrokerProcess(Path(directory)) as broker,
    ):
        for line in run(broker):
            print(json.dumps(line), flush=True)
