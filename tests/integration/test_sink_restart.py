"""A task of the Spark sink, without Spark, writes on while its broker dies and comes back."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.reader import read_records
from josefine_spark.options.options import Connection, SinkOptions
from josefine_spark.write.task_writer import TaskWriter
from tests.support.broker import BrokerProcess

ROWS, KILLS = 4_000, 3


def test_a_broker_killed_and_restarted_under_a_task_costs_no_row(tmp_path: Path) -> None:
    """One task is an idempotent producer: nothing is there twice either."""
    with BrokerProcess(tmp_path / "broker") as broker, BlockingClient(broker.bootstrap) as client:
        client.create_topics([NewTopic("rows", 2)])
        options = SinkOptions(
            connection=Connection(bootstrap=broker.bootstrap), topic="rows", batch_bytes=20_000
        )
        writer = TaskWriter(client, options, 0)
        for part in range(KILLS + 1):
            numbers = range(part * ROWS, (part + 1) * ROWS)
            values = pa.array([b"%d" % n + bytes(1_500) for n in numbers])
            writer.add(pa.record_batch({"value": values}), time.time_ns() // 1_000_000)
            if part < KILLS:
                broker.kill()
                restart = threading.Thread(target=broker.start)
                restart.start()
                writer.flush(time.time_ns() // 1_000_000)
                restart.join()
        writer.flush(time.time_ns() // 1_000_000)

        found = [int(v.rstrip(b"\0")) for p in range(2) for v in stored(client, p)]

    assert sorted(found) == list(range(ROWS * (KILLS + 1)))
    counts = writer.delivery.of("rows")
    assert counts.records == len(found)
    assert counts.retries > 0


def stored(client: BlockingClient, partition: int) -> list[bytes]:
    tp, offset, found = TopicPartition("rows", partition), 0, []
    while records := bytes(client.fetch({tp: offset}, max_wait_ms=0)[tp].records):
        while records:
            batch = [record.value or b"" for record in read_records(records)]
            found += batch
            offset += len(batch)
            records = records[12 + int.from_bytes(records[8:12]) :]
    return found
