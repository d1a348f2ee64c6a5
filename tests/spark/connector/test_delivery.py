"""Every row arrives, in a topic that takes little or is not there yet."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.connector.conftest import Stream, Topics, run_to_the_end
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]


def write(frame: DataFrame, bootstrap: str, **options: Any) -> None:
    writer = frame.write.format("josefine").option("kafka.bootstrap.servers", bootstrap)
    writer.options(**options).mode("append").save()


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


def test_each_microbatch_tells_what_it_delivered(
    topics: Topics, stream: Stream, tmp_path: Path
) -> None:
    source, target = topics.create(), topics.create()
    told = tmp_path / "delivered.jsonl"
    topics.fill(source, 0, 10)

    copy(stream, source, target, deliveryLog=str(told), maxOffsetsPerTrigger="6")

    lines = [json.loads(line) for line in told.read_text().splitlines()]
    assert [(line["batch"], line["topics"][target]["records"]) for line in lines] == [
        (0, 6),
        (1, 4),
    ]


def test_spark_keeps_what_was_delivered_where_it_is_told_to(
    spark: SparkSession, topics: Topics
) -> None:
    topic = topics.create()
    spark.conf.set("spark.sql.pyspark.worker.logging.enabled", "true")
    try:
        write(spark.sql("SELECT 'v' AS value"), topics.bootstrap, topic=topic)
        logs = spark.tvf.python_worker_logs().where("logger = 'josefine.spark.delivery'")

        def told() -> list[Any]:
            lines = [json.loads(row.msg) for row in logs.collect()]
            return [line["topics"][topic] for line in lines if topic in line["topics"]]

        # Spark reads its workers' logs on a thread of its own, which the write does not wait for.
        found = wait_until(told, 30, "a line of the delivery in Spark's table of logs")
    finally:
        spark.conf.unset("spark.sql.pyspark.worker.logging.enabled")

    assert [each["records"] for each in found] == [1]


def test_a_delivery_log_that_cannot_be_written_is_said_before_anything_is(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    topic, file = topics.create(), str(tmp_path / "no" / "x.jsonl")

    with pytest.raises(Exception, match=r"deliveryLog: .*x\.jsonl: No such file or directory"):
        write(spark.sql("SELECT 'v' AS value"), topics.bootstrap, topic=topic, deliveryLog=file)


def copy(stream: Stream, source: str, target: str, *, deliveryLog: str, **reading: str) -> None:  # noqa: N803
    frame = stream.frame(source, **reading).drop("partition")
    writer = frame.writeStream.format("josefine").option("topic", target)
    writer = writer.options(bootstrapServers=stream.bootstrap, deliveryLog=deliveryLog)
    writer = writer.option("checkpointLocation", str(stream.checkpoint)).trigger(availableNow=True)
    run_to_the_end(writer.start)
