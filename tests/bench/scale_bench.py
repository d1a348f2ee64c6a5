"""Very many partitions on one broker: what making, holding and finding them again costs.

A pause is the longest wait of another client (`other_client.py`) while something is done; on a
machine with other work it has that work in it. All numbers are of one process with its default
settings and 1,024 descriptors; a value is the median over BENCH_ROUNDS.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from tests.bench.brokers import REPOSITORY, Running
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
DESCRIPTORS = 1_024
TOPIC_PARTITIONS = int(10_000 * SCALE)
TOPICS = ("big", "big2")
SLICE_SECONDS = 5.0

Measured = Iterator[tuple[str, str, float]]
"""(measure, unit, value)."""


class OtherClient:
    """Tells the longest pause since it was last asked."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self._line()

    def longest_pause_ms(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._line()) * 1_000

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the other client ended")
        return line


@contextmanager
def other_client(bootstrap: str) -> Iterator[OtherClient]:
    command = [sys.executable, "-m", "tests.bench.other_client", bootstrap]
    process = subprocess.Popen(
        command, cwd=REPOSITORY, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield OtherClient(process)
    finally:
        process.kill()
        process.wait()


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def create(broker: BrokerProcess, topic: str, partitions: int) -> float:
    """Seconds until it is answered."""
    with BlockingClient(broker.bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
        admin.metadata(())
        began = time.perf_counter()
        admin.create_topics([NewTopic(topic, partitions)])
        return time.perf_counter() - began


def creations(broker: BrokerProcess, other: OtherClient) -> Measured:
    for count in (1_000, 2_050):
        name = f"create_{count}_partitions"
        other.longest_pause_ms()
        yield name, "answered_s", create(broker, f"many-{count}", count)
        yield name, "pause_ms", other.longest_pause_ms()


def write_to_all(broker: BrokerProcess) -> None:
    """A record to each partition of the last topic: more logs written to than descriptors."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "acks": 1})
    for partition in range(TOPIC_PARTITIONS):
        producer.produce(TOPICS[-1], b"record", partition=partition)
        producer.poll(0)
    left = producer.flush(120)
    assert not left, f"{left} records were not taken"


def holding(broker: BrokerProcess, other: OtherClient) -> Measured:
    """20,000 partitions: made, idle, half of them written to."""
    running = Running("josefine", broker.bootstrap, broker.pid)
    name = "hold_20000_partitions"
    for topic in TOPICS:
        other.longest_pause_ms()
        yield "create_10000_partitions", "answered_s", create(broker, topic, TOPIC_PARTITIONS)
        yield "create_10000_partitions", "pause_ms", other.longest_pause_ms()
    yield name, "resident_mb", running.resident_mb()
    yield name, "descriptors", descriptors(broker.pid)
    cpu = running.cpu_seconds()
    time.sleep(SLICE_SECONDS)
    yield name, "idle_cpu_percent", (running.cpu_seconds() - cpu) / SLICE_SECONDS * 100
    yield name, "idle_pause_ms", other.longest_pause_ms()
    broker.get("/metrics")
    yield name, "scrape_pause_ms", other.longest_pause_ms()
    began = time.perf_counter()
    write_to_all(broker)
    name = "write_to_10000_partitions"
    yield name, "seconds", time.perf_counter() - began
    yield name, "pause_ms", other.longest_pause_ms()
    yield name, "resident_mb", running.resident_mb()
    yield name, "descriptors", descriptors(broker.pid)


def starts(broker: BrokerProcess) -> Measured:
    """Once more, after a clean stop and after kill -9; 10,000 of 20,000 logs have a record."""
    began = time.perf_counter()
    assert broker.process is not None
    broker.process.terminate()
    wait_until(lambda: not broker.alive, 120, "stopped")
    yield "stop_20000_partitions", "seconds", time.perf_counter() - began
    for name in ("start_after_stop", "start_after_kill"):
        began = time.perf_counter()
        broker.start()
        yield f"{name}_20000_partitions", "seconds", time.perf_counter() - began
        running = Running("josefine", broker.bootstrap, broker.pid)
        yield f"{name}_20000_partitions", "resident_mb", running.resident_mb()
        yield f"{name}_20000_partitions", "descriptors", descriptors(broker.pid)
        broker.kill()
    broker.start()


def deletions(broker: BrokerProcess, other: OtherClient) -> Measured:
    with BlockingClient(broker.bootstrap, policy=Policy(request_timeout_ms=60_000)) as admin:
        for topic in TOPICS:
            began = time.perf_counter()
            admin.delete_topics([topic])
            yield "delete_10000_partitions", "answered_s", time.perf_counter() - began
            yield "delete_10000_partitions", "pause_ms", other.longest_pause_ms()


def measure(directory: Path) -> Measured:
    prefix = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    with BrokerProcess(directory, prefix=prefix) as broker:
        with other_client(broker.bootstrap) as other:
            yield from creations(broker, other)
            yield from holding(broker, other)
        yield from starts(broker)
        with other_client(broker.bootstrap) as other:
            yield from deletions(broker, other)


def main() -> None:
    values: dict[tuple[str, str], list[float]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
        for number in range(1, ROUNDS + 1):
            for name, unit, value in measure(Path(directory) / str(number)):
                values[name, unit].append(value)
                print(f"round {number} {name:34} {unit:18} {value:10,.3f}", file=sys.stderr)
    for (name, unit), found in values.items():
        line = {
            "measure": name,
            "unit": unit,
            "josefine": round(median(found), 3),
            "most": round(max(found), 3),
        }
        print(json.dumps(line), flush=True)
