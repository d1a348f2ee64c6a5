"""Throughput of the table writer: MB/s of values per core, and its memory, for JSON and raw.

`python -m tests.bench.tables_bench [MB]` starts a broker, fills a topic of each format and runs
`josefine tables run --once` as a process of its own. Processor time is that of the whole process
less that of a run with nothing to write, so loading numba and Arrow does not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment

SCHEMA = (
    "id BIGINT, customer STRING, country STRING, amount DOUBLE, quantity INT, paid BOOLEAN,"
    " sku STRING, note STRING, created TIMESTAMP, updated TIMESTAMP, discount DOUBLE, lines INT"
)
RECORDS = 2_000
"""In a batch."""


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    rss_mb: float


def main() -> None:
    """Print a line for each format."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    with tempfile.TemporaryDirectory() as folder, BrokerProcess(Path(folder)) as broker:
        for name in ("json", "raw"):
            where = {"josefine.table.location": f"{folder}/lake/{name}"}
            if name == "json":
                where |= {"josefine.table.format": "json", "josefine.table.schema": SCHEMA}
            topic = NewTopic(name=name, partitions=1, configs=where)
            with BlockingClient(broker.bootstrap) as client:
                client.create_topics([topic])
            idle = run(broker, name)
            sent = fill(broker, name, megabytes << 20)
            found = run(broker, name)
            cpu_s, wall_s = found.cpu_s - idle.cpu_s, found.wall_s - idle.wall_s
            print(
                f"{name}: {sent / 1e6:.0f} MB, {sent / 1e6 / cpu_s:.0f} MB/s per core,"
                f" {sent / 1e6 / wall_s:.0f} MB/s, RSS {found.rss_mb:.0f} MB"
                f" (idle {idle.rss_mb:.0f} MB)"
            )


def fill(broker: BrokerProcess, topic: str, wanted: int) -> int:
    """Bytes of the values written."""
    values = [value(number) for number in range(RECORDS)]
    size = sum(map(len, values))
    batch = build_batch([Record(None, each) for each in values])
    with BlockingClient(broker.bootstrap) as client:
        for _ in range(max(1, wanted // size)):
            client.produce({TopicPartition(topic, 0): bytes(batch)}, acks=1)
    return max(1, wanted // size) * size


def value(number: int) -> bytes:
    """One order with 12 fields."""
    order: dict[str, Any] = {
        "id": number * 7_919, "customer": f"customer-{number % 997}", "country": "NL",
        "amount": number * 0.37 + 1, "quantity": number % 9, "paid": number % 2 == 0,
        "sku": f"SKU-{number * 31 % 5_000:05}", "note": "left at the neighbour's door",
        "created": "2026-01-01T12:00:00Z", "updated": "2026-01-02T08:30:00.5Z",
        "discount": 0.05, "lines": number % 4,
    }  # fmt: skip
    return json.dumps(order).encode()


def run(broker: BrokerProcess, topic: str) -> Run:
    """One pass of the writer."""
    words = [*COMMAND, "tables", "run", "--topic", topic, "--once"]
    began = time.perf_counter()
    process = subprocess.Popen(words, env=environment(broker.bootstrap), stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"the writer ended with {status}"
    return Run(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
