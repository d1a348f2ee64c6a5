"""Every row arrives: under a broker that dies, in a topic that takes little or is not there yet."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import LATEST, BlockingClient, NewTopic
from tests.spark.connector.conftest import Topics
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
DEADLINE_S = 300.0


def write(frame: DataFrame, bootstrap: str, **options: Any) -> None:
    writer = frame.write.format("josefine").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).mode("append").save()


def waiting_in_the_middle(frame: DataFrame, gate: Path) -> DataFrame:
    """The same rows; each task waits for `gate` behind some megabytes, which are sent meanwhile."""

    def passing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        seen = 0
        for batch in batches:
            yield batch
            seen += batch.nbytes
            if seen > 10_000_000:
                wait_until(gate.exists, DEADLINE_S, "the gate")

    return frame.mapInArrow(passing, frame.schema)


def test_a_broker_killed_and_restarted_under_a_batch_write_costs_no_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Checklist row 88: duplicates are allowed, a row that is missing is not."""
    gate, count = tmp_path / "gate", 60_000
    rows = spark.range(0, count, numPartitions=2).selectExpr(
        "CAST(id AS STRING) AS key", "concat(id, repeat('x', 500)) AS value"
    )
    failed: list[BaseException] = []

    def run() -> None:
        try:
            write(waiting_in_the_middle(rows, gate), broker.bootstrap, topic="rows")
        except BaseException as error:
            failed.append(error)

    with BrokerProcess(tmp_path / "broker") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic("rows", 2)])
            tps = [TopicPartition("rows", n) for n in range(2)]
            thread = threading.Thread(target=run)
            thread.start()
            wait_until(
                lambda: failed or any(o.offset for o in listed(client, tps)),
                DEADLINE_S,
                "the first rows",
            )
            broker.kill()
            gate.touch()
            broker.start()
            thread.join(DEADLINE_S)

        assert not thread.is_alive()
        assert failed == []
        reader = spark.read.format("josefine").option("kafka.bootstrap.servers", broker.bootstrap)
        found = reader.option("subscribe", "rows").load()
        keys = [int(r.key) for r in found.selectExpr("CAST(key AS STRING) AS key").collect()]
    assert set(keys) == set(range(count))


def listed(client: BlockingClient, tps: list[TopicPartition]) -> list[Any]:
    return list(client.list_offsets(dict.fromkeys(tps, LATEST)).values())


def test_batches_are_split_for_a_topic_with_a_small_max_message_bytes(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    topic = topics.create(partitions=2)
    topics.client.alter_configs({topic: {"max.message.bytes": "20000"}})
    rows = spark.range(0, 5_000, numPartitions=2).selectExpr("repeat(id, 200) AS value")

    write(rows, topics.bootstrap, topic=topic)

    found = {bytes(r.value).decode() for r in read(topic).select("value").collect()}
    assert found == {str(n) * 200 for n in range(5_000)}


def test_a_record_larger_than_its_topic_takes_is_named(spark: SparkSession, topics: Topics) -> None:
    topic = topics.create()
    topics.client.alter_configs({topic: {"max.message.bytes": "20000"}})
    words = rf"topic {topic}, partition 0: a record of 300\d\d bytes .* which is 20000"

    with pytest.raises(Exception, match=words):
        write(spark.sql("SELECT repeat('x', 30000) AS value"), topics.bootstrap, topic=topic)


def test_a_topic_that_is_not_there_is_made_where_the_broker_makes_topics(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    write(spark.sql("SELECT 'v' AS value"), topics.bootstrap, topic="made-for-the-sink")

    assert [bytes(r.value) for r in read("made-for-the-sink").collect()] == [b"v"]
