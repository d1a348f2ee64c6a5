"""What transactions cost: how many a second one producer ends, and what readers pay for them.

The producer and the readers are librdkafka, without Python between the records. CPU is the brokers'
own: on a machine with other work seconds have that work in them, and CPU seconds have not. A value
is the median over BENCH_ROUNDS. Goals (issue 14): 330 transactions of 1,000 records of 100 B a
second on one broker, 85 on three (five times Apache Kafka's, as measured on such a machine), and
read_committed at least 0.95 of read_uncommitted. With BENCH_PEER=1 Apache Kafka is measured behind
ours in each round, with the JVM options that it ships (of three brokers: but for the heap), and how
many times its rate ours is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from tests.bench.brokers import Running, client
from tests.support.apache_kafka import ApacheKafka, cluster_of_three
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
PEER = os.environ.get("BENCH_PEER", "") not in ("", "0")
TRANSACTIONS = max(10, int(1_000 * SCALE))
RECORDS, SIZE = 1_000, 100
SMALL_RECORDS = 10
"""Of a transaction that costs hardly more than its beginning and its end."""
ABORTS = 10
"""In the log that is read, every so manieth transaction is aborted."""
READS = 3
"""Of each kind, in turn: the median of these is one round's."""
COPIES = (1, 3)
OURS, THEIRS = "josefine", "apache"

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


class Served:
    """One broker or several."""

    def __init__(self, bootstrap: str, pids: Sequence[int]) -> None:
        self.bootstrap = bootstrap
        self._running = [Running("", bootstrap, pid) for pid in pids]

    def cpu_seconds(self) -> float:
        return sum(each.cpu_seconds() for each in self._running)


@contextmanager
def josefine(directory: Path, copies: int) -> Iterator[Served]:
    if copies == 1:
        with BrokerProcess(directory) as one:
            yield Served(one.bootstrap, [one.pid])
        return
    with Cluster(directory, copies, **REPLICATED) as cluster:
        yield Served(cluster.bootstrap, [each.pid for each in cluster.brokers.values()])


@contextmanager
def apache(directory: Path, copies: int) -> Iterator[Served]:
    if copies == 1:
        with ApacheKafka(directory, begins_soon=False) as one:
            yield Served(one.bootstrap, [one.pid])
        return
    with cluster_of_three(directory) as brokers:
        yield Served(",".join(each.bootstrap for each in brokers), [each.pid for each in brokers])


def topic_of(served: Served, name: str, copies: int) -> str:
    topic = f"{name}-{time.time_ns()}"
    with BlockingClient(served.bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
        admin.create_topics([NewTopic(topic, 1, copies)])
    return topic


def transact(served: Served, what: str, copies: int) -> Measured:
    """One producer that ends one transaction after the other, behind as many that a JVM needs to
    compile itself."""
    warm = topic_of(served, "warm", copies)
    told(served, "transact", warm, TRANSACTIONS, f"records={RECORDS}")
    for label, records in (("100kB", RECORDS), ("1kB", SMALL_RECORDS)):
        topic = topic_of(served, f"transact-{label}", copies)
        before = served.cpu_seconds()
        done = told(served, "transact", topic, TRANSACTIONS, f"records={records}")
        after = served.cpu_seconds()
        name = f"{what}_transactions_of_{label}_{copies}_copies"
        yield name, "per_s", TRANSACTIONS / done
        yield name, "cpu_ms_each", 1_000 * (after - before) / TRANSACTIONS


def read(served: Served, what: str, copies: int) -> Measured:
    """The same log read both ways, in turn. Rates are of the records that the log has."""
    topic = topic_of(served, "read", copies)
    told(served, "transact", topic, TRANSACTIONS, f"records={RECORDS}", f"aborts={ABORTS}")
    aborted = (TRANSACTIONS - 1) // ABORTS
    there = TRANSACTIONS * RECORDS
    seen = {"read_uncommitted": there, "read_committed": there - aborted * RECORDS}
    rates: dict[str, list[float]] = defaultdict(list)
    costs: dict[str, list[float]] = defaultdict(list)
    for _ in range(READS):
        for level, count in seen.items():
            before = served.cpu_seconds()
            seconds = told(served, "consume", topic, count, f"isolation.level={level}")
            after = served.cpu_seconds()
            rates[level].append(there / seconds)
            costs[level].append(1e6 * (after - before) / there)
    for level, each in rates.items():
        yield f"{what}_{level}_{copies}_copies", "records_per_s", median(each)
        yield f"{what}_{level}_{copies}_copies", "cpu_us_each", median(costs[level])
    ratio = median(rates["read_committed"]) / median(rates["read_uncommitted"])
    yield f"{what}_read_committed_{copies}_copies", "of_read_uncommitted", ratio


def told(served: Served, verb: str, topic: str, count: int, *settings: str) -> float:
    """Seconds that librdkafka took."""
    said = client("librdkafka", verb, served.bootstrap, topic, count, SIZE, *settings)
    return float(json.loads(said)["seconds"])


PARTS: dict[str, Callable[[Served, str, int], Measured]] = {"transact": transact, "read": read}


def main() -> None:
    """BENCH_PARTS (default all, comma separated) chooses parts, BENCH_COPIES numbers of copies."""
    chosen = os.environ.get("BENCH_PARTS", ",".join(PARTS)).split(",")
    copies = os.environ.get("BENCH_COPIES", ",".join(map(str, COPIES))).split(",")
    brokers = {OURS: josefine} | ({THEIRS: apache} if PEER else {})
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    for number in range(1, ROUNDS + 1):
        for count in map(int, copies):
            for what, serve in brokers.items():
                with (
                    tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory,
                    serve(Path(directory), count) as served,
                ):
                    for part in chosen:
                        for name, unit, value in PARTS[part](served, what, count):
                            values[name, unit].append(value)
                            say(f"round {number} {name:48} {value:14,.3f} {unit}")
    for (name, unit), found in values.items():
        line = {"bench": "transactions", "measure": name, "unit": unit}
        print(json.dumps({**line, "value": round(median(found), 3), "rounds": len(found)}))
    for name, ratio in ratios(values).items():
        line = {"bench": "transactions", "measure": name, "unit": "of_apache"}
        print(json.dumps({**line, "value": ratio}))


def ratios(values: Mapping[tuple[str, str], Sequence[float]]) -> dict[str, float]:
    """Of rates that both have, ours by theirs: the median over the rounds."""
    found = {}
    for (name, unit), ours in values.items():
        theirs = values.get((name.replace(OURS, THEIRS, 1), unit))
        if name.startswith(OURS) and theirs and unit in ("per_s", "records_per_s"):
            found[name] = round(median(a / b for a, b in zip(ours, theirs, strict=True)), 2)
    return found


if __name__ == "__main__":
    main()
