"""Throughput of the table writer: MB/s of values per core, and its memory, for each format.

`python -m tests.bench.tables_bench [MB] [NAME ...]` starts a broker, fills a topic of each format
and runs `josefine tables run --once` as a process of its own. Processor time is that of the whole
process less that of a run with nothing to write, so loading numba and Arrow does not count.
Names: json, raw, avro (in a registry's frame), upsert (JSON; each key is changed ten times) and
upsert_new (JSON; each key is new, into a table that grows).
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

from josefine_arrow.formats.avro.schema import parse
from josefine_arrow.formats.avro.writer import encoded as avro_encoded
from josefine_arrow.formats.confluent.framing import framed
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment
from tests.support.schema_registry import serving

SCHEMA = (
    "id BIGINT, customer STRING, country STRING, amount DOUBLE, quantity INT, paid BOOLEAN,"
    " sku STRING, note STRING, created TIMESTAMP, updated TIMESTAMP, discount DOUBLE, lines INT"
)
_AVRO_TYPES = {
    "BIGINT": "long", "STRING": "string", "DOUBLE": "double", "INT": "int", "BOOLEAN": "boolean",
    "TIMESTAMP": {"type": "long", "logicalType": "timestamp-micros"},
}  # fmt: skip
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": column.split()[0], "type": _AVRO_TYPES[column.split()[1]]}
        for column in SCHEMA.split(", ")
    ],
}
AVRO_TYPE = parse(json.dumps(AVRO))
RECORDS = 2_000
"""In a batch."""


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    rss_mb: float


def main() -> None:
    """Print a line for each format."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    latest = {"avro-value/versions/latest": json.dumps(AVRO)}
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder)) as broker,
        serving({1: json.dumps(AVRO)}, subjects=latest) as registry,
    ):
        for name in sys.argv[2:] or ("json", "raw", "avro", "upsert", "upsert_new"):
            configs = {"location": f"{folder}/lake/{name}", **configs_of(name, registry.url())}
            where = {f"josefine.table.{key}": each for key, each in configs.items()}
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


def configs_of(name: str, registry: str) -> dict[str, str]:
    """The configs of a topic of this name, without their prefix."""
    if name == "raw":
        return {}
    if name == "avro":
        return {"format": "avro", "schema.registry": registry}
    keys = {"mode": "upsert", "keys": "id"} if name.startswith("upsert") else {}
    return {"format": "json", "schema": SCHEMA, **keys}


def fill(broker: BrokerProcess, topic: str, wanted: int) -> int:
    """Bytes of the values written."""
    size = sum(len(encoded(topic, number)) for number in range(RECORDS))
    batches = max(1, wanted // size)
    # The same batch again and again, except for changes of keys.
    distinct = {"upsert": max(1, batches // 10), "upsert_new": batches}.get(topic, 1)
    with BlockingClient(broker.bootstrap) as client:
        sent, made = 0, b""
        for at in range(batches):
            if at < distinct or distinct > 1:
                first = at % distinct * RECORDS
                values = [encoded(topic, first + number) for number in range(RECORDS)]
                size = sum(map(len, values))
                made = bytes(build_batch([Record(None, each) for each in values]))
            client.produce({TopicPartition(topic, 0): made}, acks=1)
            sent += size
    return sent


def encoded(topic: str, number: int) -> bytes:
    """A value of the topic."""
    if topic != "avro":
        return json.dumps(value(number)).encode()
    micros = 1_767_268_800_000_000 + number
    return framed(
        1, avro_encoded(AVRO_TYPE, {**value(number), "created": micros, "updated": micros})
    )


def value(number: int) -> dict[str, Any]:
    """One order with 12 fields."""
    return {
        "id": number * 7_919, "customer": f"customer-{number % 997}", "country": "NL",
        "amount": number * 0.37 + 1, "quantity": number % 9, "paid": number % 2 == 0,
        "sku": f"SKU-{number * 31 % 5_000:05}", "note": "left at the neighbour's door",
        "created": "2026-01-01T12:00:00Z", "updated": "2026-01-02T08:30:00.5Z",
        "discount": 0.05, "lines": number % 4,
    }  # fmt: skip


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
