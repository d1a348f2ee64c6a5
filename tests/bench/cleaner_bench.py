"""What the log cleaner does in a second, what memory it takes, and what others feel of it.

A broker gets two tables of many records of few keys each, uncleaned. One is cleaned while nothing
else happens, the other one while a client sends one-record requests to another topic, as fast as
they are answered; the same client is measured before, alone. What is told is the median of rounds.
"""

import json
import os
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from tests.bench.brokers import Running, client, create_topic
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

__all__ = ["main"]

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
KINDS = {"100B": (100, 1_000_000, "none"), "1KB": (1_000, 200_000, "none"),
         "100B_zstd": (100, 1_000_000, "zstd")}  # fmt: skip
"""Bytes of a value, records of a table, compression."""
KEYS_PER_RECORD = 0.2
LOAD_SECONDS = 3.0
TABLE = {"cleanup.policy": "compact", "segment.bytes": str(32 << 20)}
NEVER, AT_ONCE = {"min.cleanable.dirty.ratio": "1.0"}, {"min.cleanable.dirty.ratio": "0.0"}
TIMEOUT_S = 600.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def fill(bootstrap: str, topic: str, size: int, count: int, compression: str) -> None:
    """Half of each value compresses well, the other half not at all."""
    producer = Producer({
        "bootstrap.servers": bootstrap, "compression.type": compression, "linger.ms": 5,
        "queue.buffering.max.messages": 200_000,
    })  # fmt: skip
    random = os.urandom(1 << 20)
    keys = max(1, int(count * KEYS_PER_RECORD))
    for n in range(count):
        at = n * 7_919 % (len(random) - size)
        value = random[at : at + size // 2] + bytes(size - size // 2)
        while True:
            try:
                producer.produce(topic, value, b"user-%08d" % (n * 7_919 % keys))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    if producer.flush(60):
        raise RuntimeError("records were not delivered")


def metrics(broker: BrokerProcess) -> dict[str, float]:
    _, text = broker.get("/metrics")
    lines = [line.split() for line in text.splitlines() if line.startswith("josefine_cleaner_")]
    return {name.removeprefix("josefine_cleaner_"): float(value) for name, value in lines}


class Cleaning:
    """A table that begins to be cleaned."""

    def __init__(self, broker: BrokerProcess, running: Running, topic: str) -> None:
        self._broker, self._running = broker, running
        self.before, self.rss_before = metrics(broker), running.resident_mb()
        self.rss_max = self.rss_before
        with BlockingClient(broker.bootstrap) as admin:
            admin.alter_configs({topic: AT_ONCE})

    def wait(self) -> None:
        def is_over() -> bool:
            self.rss_max = max(self.rss_max, self._running.resident_mb())
            return metrics(self._broker)["passes_total"] > self.before["passes_total"]

        wait_until(is_over, TIMEOUT_S, "the pass is over")

    def values(self, kind: str) -> Iterator[tuple[str, float]]:
        now = metrics(self._broker)
        moved = {name: value - self.before[name] for name, value in now.items()}
        dirty_bytes = moved["bytes_read_total"] / 2  # read twice: all of it is dirty
        yield f"{kind}/mb_per_s", dirty_bytes / 1e6 / moved["seconds_total"]
        yield f"{kind}/records_per_s", moved["records_read_total"] / moved["seconds_total"]
        yield f"{kind}/map_mb", now["map_bytes"] / 2**20
        yield f"{kind}/resident_mb_more", self.rss_max - self.rss_before


def load(bootstrap: str) -> dict[str, float]:
    done: dict[str, float] = json.loads(client("load", bootstrap, "other", 1, LOAD_SECONDS))
    return done


def run_kind(directory: Path, kind: str) -> Iterator[tuple[str, float]]:
    """(measure/unit, value)."""
    size, records, compression = KINDS[kind]
    with BrokerProcess(directory, log__cleaner_backoff_ms=100) as broker:
        running = Running("josefine", broker.bootstrap, broker.pid)
        create_topic(broker.bootstrap, "other", 1)
        with BlockingClient(broker.bootstrap) as admin:
            tables = [NewTopic(name, 1, 1, {**TABLE, **NEVER}) for name in ("quiet", "beside")]
            admin.create_topics(tables)
        for table in tables:
            fill(broker.bootstrap, table.name, size, int(records * SCALE), compression)
        quiet = Cleaning(broker, running, "quiet")
        quiet.wait()
        yield from quiet.values(f"clean_{kind}")
        alone = load(broker.bootstrap)
        beside = Cleaning(broker, running, "beside")
        waiting = threading.Thread(target=beside.wait)
        waiting.start()
        others = load(broker.bootstrap)
        is_over = not waiting.is_alive()
        waiting.join()
        if is_over:
            say(f"{kind}: the pass was over before the load: make BENCH_SCALE larger")
        yield from beside.values(f"clean_{kind}_beside_load")
        for name, done in (("alone", alone), ("beside_cleaner", others)):
            label = f"one_record_{name}_{kind}"
            yield f"{label}/requests_per_s", done["requests"] / done["seconds"]
            yield f"{label}/p50_us", done["p50_us"]
            yield f"{label}/p99_us", done["p99_us"]


def main() -> None:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="josefine-bench-") as directory:
        for number in range(1, ROUNDS + 1):
            for kind in KINDS:
                for measure, value in run_kind(Path(directory) / f"{number}-{kind}", kind):
                    found.setdefault(measure, []).append(value)
                    say(f"round {number} {measure:48} {value:14,.1f}")
    for measure, values in found.items():
        name, unit = measure.split("/")
        line = {"measure": name, "unit": unit, "josefine": round(median(values), 2)}
        print(json.dumps({**line, "rounds": len(values)}), flush=True)
