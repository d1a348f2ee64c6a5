"""Three real brokers on one machine: what replication costs, and what a loss costs.

Three copies, acks=all, two of them must have a record. Throughput is librdkafka's, one-record round
trips are raw frames of `load.py`, for the gaps see `cluster_gap.py`. A value is the median over
BENCH_ROUNDS; of times also the longest is told.
"""

import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from tests.bench.brokers import client
from tests.bench.cluster_gap import longest_gaps
from tests.support.cluster import DEFAULT_TIMINGS, FAST_TIMINGS, REPLICATED, Cluster

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
RECORDS = {100: 1_000_000, 1000: 150_000}
LOAD_SECONDS = 3.0
SETTLE_SECONDS = 3.0
"""Until followers' fetch sessions name no partition any more."""
IDLE_SECONDS = 10.0
KILLS = 3
"""Of each kind in one cluster: a client's own timers make single gaps differ."""
MANY = 1_000
IDLE_PARTITIONS = (1, 500)
PROFILES = {"default": DEFAULT_TIMINGS, "fast": FAST_TIMINGS}
BROKERS = 3

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def label(size: int) -> str:
    return "100B" if size == 100 else "1KB"


def create(cluster: Cluster, topic: str, partitions: int) -> float:
    """Seconds until the request is answered."""
    with BlockingClient(cluster.bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
        admin.metadata()
        began = time.perf_counter()
        admin.create_topics([NewTopic(topic, partitions)])
        return time.perf_counter() - began


def throughput(directory: Path) -> Measured:
    """Records as fast as they go, and one at a time."""
    with Cluster(directory, BROKERS, timings=DEFAULT_TIMINGS, **REPLICATED) as cluster:
        for size, records in RECORDS.items():
            for partitions in (1, 3):
                topic = f"stream-{size}-{partitions}"
                create(cluster, topic, partitions)
                cluster.wait_settled()
                count = int(records * SCALE)
                done = json.loads(
                    client(
                        "librdkafka", "produce", cluster.bootstrap, topic, count, size,
                        "acks=all", f"partitions={partitions}",
                    )
                )  # fmt: skip
                name = f"produce_{label(size)}_acks_all_{partitions}_partitions"
                yield name, "records_per_s", done["records"] / done["seconds"]
                yield name, "mb_per_s", done["bytes"] / done["seconds"] / 1e6
        create(cluster, "single", 1)
        cluster.wait_settled()
        leader = cluster.broker(cluster.leader_of("single"))
        done = json.loads(
            client("load", leader.bootstrap, "single", 1, LOAD_SECONDS * SCALE, 100, -1)
        )
        yield "one_record_acks_all", "p50_ms", done["p50_us"] / 1e3
        yield "one_record_acks_all", "p99_ms", done["p99_us"] / 1e3


def gaps(directory: Path) -> Measured:
    """The longest silence between two acknowledgements around a kill -9 of the leader."""
    for profile, timings in PROFILES.items():
        with Cluster(directory / profile, BROKERS, timings=timings, **REPLICATED) as cluster:
            for number in range(2 * KILLS):
                topic, is_controller = f"watched-{number}", number % 2 == 1
                create(cluster, topic, BROKERS)
                cluster.wait_settled()
                found = longest_gaps(cluster, topic, of_controller=is_controller)
                whom = "controller_and_leader" if is_controller else "leader"
                for name, gap in found.items():
                    yield f"gap_{whom}_killed_{profile}_{name}", "s", gap
                for id_ in cluster.voters:
                    if id_ not in cluster.alive:
                        cluster.restart(id_)
                cluster.wait_settled()


def idle(directory: Path) -> Measured:
    """Bytes between all brokers per second while nobody asks anything."""
    with Cluster(directory, BROKERS, timings=DEFAULT_TIMINGS, **REPLICATED) as cluster:
        made = 0
        for partitions in IDLE_PARTITIONS:
            create(cluster, f"idle-{partitions}", partitions - made)
            made = partitions
            cluster.wait_settled()
            _pause(SETTLE_SECONDS)
            before, began = _traffic(cluster), time.perf_counter()
            _pause(IDLE_SECONDS)
            sent = _traffic(cluster) - before
            seconds = time.perf_counter() - began
            yield f"idle_{partitions}_partitions", "bytes_per_s", sent / seconds


def _pause(seconds: float) -> None:
    time.sleep(seconds * min(1, SCALE))


def _traffic(cluster: Cluster) -> float:
    """Bytes so far of all brokers: sent to Raft peers, and either way over connections to their
    Kafka listeners, where followers fetch."""
    names = ("raft_bytes_out_total", "connection_bytes_in_total", "connection_bytes_out_total")
    total = 0.0
    for id_ in cluster.alive:
        lines = cluster.broker(id_).get("/metrics")[1].splitlines()
        plain = (line for line in lines if not line.startswith("#") and "{" not in line)
        values = dict(line.split() for line in plain)
        total += sum(float(values[f"josefine_{name}"]) for name in names)
    return total


def many_partitions(directory: Path) -> Measured:
    """A topic of 1,000 partitions: made, and brokers that come back with it."""
    with Cluster(directory, BROKERS, timings=DEFAULT_TIMINGS, **REPLICATED) as cluster:
        began = time.perf_counter()
        yield "create_1000_partitions", "answered_s", create(cluster, "many", int(MANY * SCALE))
        cluster.wait_settled()
        yield "create_1000_partitions", "settled_s", time.perf_counter() - began
        controller = cluster.controller()
        follower = next(each for each in cluster.voters if each != controller)
        for name, leave in (("restart", cluster.stop), ("restart_after_kill", cluster.kill)):
            began = time.perf_counter()
            leave(follower)
            stopped = time.perf_counter()
            cluster.broker(follower).start()
            serving = time.perf_counter()
            cluster.wait_settled()
            yield f"{name}_1000_partitions", "stop_s", stopped - began
            yield f"{name}_1000_partitions", "serving_s", serving - stopped
            yield f"{name}_1000_partitions", "in_sync_s", time.perf_counter() - stopped


PARTS: dict[str, Callable[[Path], Measured]] = {
    "throughput": throughput,
    "gaps": gaps,
    "idle": idle,
    "many": many_partitions,
}


def main() -> None:
    """BENCH_PARTS (default all, comma separated) chooses parts."""
    chosen = os.environ.get("BENCH_PARTS", ",".join(PARTS)).split(",")
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
        for number in range(1, ROUNDS + 1):
            for name in chosen:
                for measure, unit, value in PARTS[name](Path(directory) / f"{number}-{name}"):
                    values[measure, unit].append(value)
                    say(f"round {number} {measure:44} {value:14,.3f} {unit}")
    for (measure, unit), found in values.items():
        line: dict[str, Any] = {"measure": measure, "unit": unit, "value": round(median(found), 3)}
        if unit.endswith(("s", "ms")) and not unit.endswith("per_s"):
            line["longest"] = round(max(found), 3)
        print(json.dumps({**line, "rounds": len(found)}), flush=True)
