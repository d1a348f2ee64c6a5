"""Queries over a large table and a log: seconds, processor time and memory of `josefine sql`.

`python -m tests.bench.sql_bench [MILLIONS] [LOG_THOUSANDS]` starts a broker, makes a table topic
with so many rows in its table (by delta-rs, files of 500,000 rows) and so many records in its log,
and runs each statement as a process of its own. Times are those of the process less those of a
query of one record, so loading Arrow, numba and DuckDB does not count. The last line is of a log
without a table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess
from tests.support.cli import COMMAND, environment

SCHEMA = "id BIGINT, customer STRING, country STRING, amount DOUBLE, created TIMESTAMP"
FILE_ROWS = 500_000
RECORDS = 2_000
"""In a record batch."""
STATEMENTS = (
    "select count(*) from orders",
    "select sum(amount) from orders",
    "select country, count(*), sum(amount) from orders group by country",
    "select * from orders where id = 4000000",
    "select * from orders order by amount desc, id limit 10",
)


class Run(NamedTuple):
    wall_s: float
    cpu_s: float
    rss_mb: float


def main() -> None:
    """Print a line for each statement."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    thousands = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker") as broker,
    ):
        place = f"{folder}/orders"
        make_topic(broker, "orders", place)
        make_topic(broker, "tail", "")
        make_topic(broker, "one", "")
        for first in range(0, millions * 1_000_000, FILE_ROWS):
            write_deltalake(place, table_rows(first), mode="append")
        size = fill(broker, "orders", thousands * 1_000)
        fill(broker, "tail", thousands * 1_000)
        fill(broker, "one", 1)
        idle = min((run(broker, "select sum(id) from one") for _ in range(3)), key=by_cpu)
        print(f"one record: {idle.wall_s:.2f} s, {idle.cpu_s:.2f} s of processor time")
        for words in (("--no-tail",), ()):
            print(f"table of {millions} M rows, {'alone' if words else 'and its log'}:")
            for statement in STATEMENTS:
                runs = [run(broker, statement, *words) for _ in range(3)]
                report(statement, min(runs, key=by_cpu), idle)
        runs = [run(broker, "select count(*), sum(amount) from tail") for _ in range(3)]
        found = min(runs, key=by_cpu)
        cpu_s, wall_s = found.cpu_s - idle.cpu_s, found.wall_s - idle.wall_s
        print(
            f"log alone: {thousands} k records of {size // (thousands * 1_000)} bytes,"
            f" {thousands * 1_000 / cpu_s:,.0f} rows/s per core,"
            f" {thousands * 1_000 / wall_s:,.0f} rows/s, RSS {found.rss_mb:.0f} MB"
        )


def by_cpu(found: Run) -> float:
    return found.cpu_s


def report(statement: str, found: Run, idle: Run) -> None:
    """Print one line."""
    print(
        f"  {statement}: {found.wall_s - idle.wall_s:.2f} s, {found.cpu_s - idle.cpu_s:.2f} s of"
        f" processor time, RSS {found.rss_mb:.0f} MB"
    )


def make_topic(broker: BrokerProcess, name: str, location: str) -> None:
    """A topic with SCHEMA; without a location it has no table."""
    configs = {"format": "json", "schema": SCHEMA, **({"location": location} if location else {})}
    new = NewTopic(
        name=name,
        partitions=1,
        configs={f"josefine.table.{key}": each for key, each in configs.items()},
    )
    with BlockingClient(broker.bootstrap) as client:
        client.create_topics([new])


def table_rows(first: int) -> pa.Table:
    """FILE_ROWS rows as the writer makes them."""
    numbers = np.arange(first, first + FILE_ROWS)
    micros = pa.array(1_767_268_800_000_000 + numbers).cast(pa.timestamp("us", tz="UTC"))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "customer": pa.array([f"customer-{each % 997}" for each in numbers]),
            "country": pa.array(["NL", "DE", "FR", "BE"] * (FILE_ROWS // 4)),
            "amount": pa.array(numbers * 0.37 + 1),
            "created": micros,
            "_time": micros,
            "_topic": pa.array(["orders"] * FILE_ROWS),
            "_partition": pa.array(np.zeros(FILE_ROWS, np.int32)),
            "_offset": pa.array(numbers, pa.int64()),
        }
    )


def fill(broker: BrokerProcess, topic: str, count: int) -> int:
    """Bytes of the values written."""
    values = [
        json.dumps(
            {"id": -at, "customer": f"customer-{at % 997}", "country": "NL", "amount": at * 0.37,
             "created": "2026-01-01T12:00:00Z"}
        ).encode()
        for at in range(min(count, RECORDS))
    ]  # fmt: skip
    made = bytes(build_batch([Record(None, each) for each in values]))
    with BlockingClient(broker.bootstrap) as client:
        for _ in range(count // len(values)):
            client.produce({TopicPartition(topic, 0): made}, acks=1)
    return sum(map(len, values)) * (count // len(values))


def run(broker: BrokerProcess, statement: str, *words: str) -> Run:
    """One statement in a process of its own."""
    command = [*COMMAND, "sql", statement, "--max-tail-bytes", "2GB", *words]
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        env=environment(broker.bootstrap),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    assert status == 0, f"josefine sql ended with {status}"
    return Run(time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)


if __name__ == "__main__":
    main()
