"""Queries over a large table and a log: seconds, processor time and memory.

`python -m tests.bench.sql_bench [MILLIONS] [LOG_THOUSANDS]` starts a broker, makes a table topic
with so many rows in its table (by delta-rs, files of 500,000 rows) and so many records in its log,
and runs each statement in this process: the least of three runs, after one that loads Arrow, numba
and DuckDB. The last line is of a log without a table.
"""

from __future__ import annotations

import json
import os
import resource
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
from josefine_lake.query.answer import answering
from josefine_lake.query.brokers import Cluster
from josefine_lake.query.plan import Options
from josefine_lake.writer.little_memory import use_system_pool
from tests.support.broker import BrokerProcess

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
    cpu_s: float
    wall_s: float


def main() -> None:
    """Print a line for each statement."""
    millions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    thousands = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    with (
        tempfile.TemporaryDirectory() as folder,
        BrokerProcess(Path(folder) / "broker") as broker,
        BlockingClient(broker.bootstrap) as client,
    ):
        use_system_pool(os.environ)
        place = f"{folder}/orders"
        make_topic(client, "orders", place)
        make_topic(client, "tail", "")
        size = fill(client, "tail", thousands * 1_000)
        measured(client, "select count(*), sum(amount) from tail", tail=True)
        cpu_s, wall_s = measured(client, "select count(*), sum(amount) from tail", tail=True)
        count = thousands * 1_000
        print(
            f"log without a table: {count:,} records of {size // count} bytes,"
            f" {count / cpu_s:,.0f} rows/s per core, {count / wall_s:,.0f} rows/s, {memory()}",
            flush=True,
        )
        for first in range(0, millions * 1_000_000, FILE_ROWS):
            write_deltalake(place, table_rows(first), mode="append")
        fill(client, "orders", count)
        print(f"{memory()} after the table was made")
        for tail in (False, True):
            print(f"table of {millions} M rows, {'and its log' if tail else 'alone'}:")
            for statement in STATEMENTS:
                cpu_s, wall_s = measured(client, statement, tail=tail)
                print(
                    f"  {statement}: {wall_s:.2f} s, {cpu_s:.2f} s of processor time, {memory()}",
                    flush=True,
                )


def memory() -> str:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return f"RSS at most {peak:.0f} MB"


def measured(client: BlockingClient, statement: str, *, tail: bool) -> Run:
    """The least of three runs."""
    return min(once(client, statement, tail=tail) for _ in range(3))


def once(client: BlockingClient, statement: str, *, tail: bool) -> Run:
    """One run, with all its rows."""
    began, used = time.perf_counter(), time.process_time()
    options = Options(tail=tail, tail_bytes_max=4 << 30)
    with answering(Cluster(client), statement, options, os.environ) as answer:
        answer.relation.fetchall()
    return Run(time.process_time() - used, time.perf_counter() - began)


def make_topic(client: BlockingClient, name: str, location: str) -> None:
    """A topic with SCHEMA; without a location it has no table."""
    configs = {"format": "json", "schema": SCHEMA, **({"location": location} if location else {})}
    new = NewTopic(
        name=name,
        partitions=1,
        configs={f"josefine.table.{key}": each for key, each in configs.items()},
    )
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


def fill(client: BlockingClient, topic: str, count: int) -> int:
    """Bytes of the values written."""
    values = [
        json.dumps(
            {"id": -at, "customer": f"customer-{at % 997}", "country": "NL", "amount": at * 0.37,
             "created": "2026-01-01T12:00:00Z"}
        ).encode()
        for at in range(min(count, RECORDS))
    ]  # fmt: skip
    made = bytes(build_batch([Record(None, each) for each in values]))
    for _ in range(count // len(values)):
        client.produce({TopicPartition(topic, 0): made}, acks=1)
    return sum(map(len, values)) * (count // len(values))


if __name__ == "__main__":
    main()
