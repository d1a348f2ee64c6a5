"""What a topic goes through while a query reads it, records of every size, Spark's own stateful
operators over a topic. Restarts, new partitions and a deleted topic are in test_stream_read.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record
from tests.spark.connector.conftest import Stream, Topics, needs_limits
from tests.support.broker import BrokerProcess
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
TIMEOUT_S = 180
MIB = 1024 * 1024


def wait_for_rows(stream: Stream, query: Any, count: int) -> None:
    wait_until(lambda: len(stream.values) >= count or query.exception(), TIMEOUT_S, "all rows")
    assert query.exception() is None


def create_again(topics: Topics, topic: str) -> None:
    """Apache Kafka still deletes when it has answered that it did."""
    topics.delete(topic)

    def created() -> bool:
        try:
            topics.create(name=topic)
        except KafkaError as error:
            if error.code is not ErrorCode.topic_already_exists:
                raise
            return False
        return True

    wait_until(created, TIMEOUT_S, f"{topic} again")


def test_a_topic_created_again_in_mid_query_stops_it(topics: Topics, stream: Stream) -> None:
    """Checklist row 90."""
    topic = topics.create()
    topics.fill(topic, 0, 5)
    query = stream.start(topic)
    try:
        query.processAllAvailable()
        create_again(topics, topic)
        topics.fill(topic, 0, 20, first=100)
        why = wait_until(query.exception, TIMEOUT_S, "the end of the query")
    finally:
        query.stop()

    words = ("was deleted and created again", "does not exist any more")  # looked in between
    assert any(one in str(why) for one in words)
    assert stream.values == list(range(5))


def test_a_topic_created_again_in_mid_query_is_read_on_when_asked_for(
    topics: Topics, stream: Stream
) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 5)
    query = stream.start(topic, failOnDataLoss="false")
    try:
        query.processAllAvailable()
        create_again(topics, topic)
        topics.fill(topic, 0, 20, first=100)
        wait_for_rows(stream, query, 25)
    finally:
        query.stop()

    assert stream.values == [*range(5), *range(100, 120)]


def overtaken(topics: Topics, stream: Stream) -> str:
    """A topic of 20 records that begins at 15 once the first five are read."""
    topic = topics.create()
    topics.fill(topic, 0, 20)

    def delete(batch: int) -> None:
        if batch == 0:
            topics.client.delete_records({TopicPartition(topic, 0): 15})

    stream.after_batch = delete
    return topic


def test_retention_that_overtakes_a_query_stops_it_with_the_range(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 90."""
    topic = overtaken(topics, stream)
    query = stream.start(topic, maxOffsetsPerTrigger=5)
    try:
        why = wait_until(query.exception, TIMEOUT_S, "the end of the query")
    finally:
        query.stop()

    assert f"{topic}-0 offsets [5, 15)" in str(why)
    assert stream.values == list(range(5))


def test_retention_that_overtakes_a_query_is_skipped_when_asked_for(
    topics: Topics, stream: Stream
) -> None:
    topic = overtaken(topics, stream)
    query = stream.start(topic, maxOffsetsPerTrigger=5, failOnDataLoss="false")
    try:
        wait_for_rows(stream, query, 10)
    finally:
        query.stop()

    assert stream.values == [*range(5), *range(15, 20)]


def test_two_hundred_partitions_are_read_whole(topics: Topics, stream: Stream) -> None:
    topic = topics.create(partitions=200)
    for partition in range(200):
        topics.fill(topic, partition, 1, first=partition)

    stream.run(topic, maxOffsetsPerTrigger=150)

    rows = [row for batch in stream.batches for row in batch]
    assert sorted((row.partition, int(row.value)) for row in rows) == [(n, n) for n in range(200)]


def test_records_of_megabytes_come_whole_through_smaller_fetches(
    topics: Topics, read: Read
) -> None:
    topic = topics.create(max_message_bytes=str(10 * MIB))
    values = [
        bytes([65 + n]) * size for n, size in enumerate((10, MIB, 20, 5_000_000, MIB, 30, 5 * MIB))
    ]
    for value in values:
        topics.append(topic, 0, [Record(b"k", value)])

    for options in ({}, {"kafka.fetch.max.bytes": "100000"}):
        found = read(topic, **options).orderBy("offset").select(
            F.length("value").alias("size"), F.crc32("value").alias("crc")
        )  # fmt: skip
        assert [(row.size, row.crc) for row in found.collect()] == [
            (len(value), zlib.crc32(value)) for value in values
        ]


def test_nulls_and_repeated_headers_come_through_a_stream(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    records = [
        Record(b"k", b"v", [("h", b"1"), ("h", None), ("h", b"1"), ("", b""), ("é", b"\xff")], 1),
        Record(None, b"v", (), 2),
        Record(b"k", None, [("only", b"header")], 3),
        Record(None, None, (), 4),
        Record(b"", b"", (), 5),
    ]
    topics.append(topic, 0, records)

    stream.run(topic, includeHeaders="true", includeLeaderEpoch="true")

    rows = sorted((row for batch in stream.batches for row in batch), key=lambda row: row.offset)
    assert [(row.key, row.value) for row in rows] == [(one.key, one.value) for one in records]
    assert [[tuple(h) for h in row.headers or ()] for row in rows] == [
        [tuple(h) for h in one.headers] for one in records
    ]
    assert {row.leader_epoch for row in rows} == {0}


def collect_stream(frame: DataFrame, checkpoint: Path, rows: list[Any]) -> None:
    """One run over what is there now; its rows are added to `rows`."""
    writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()


def at_seconds(*seconds: int) -> list[Record]:
    return [Record(b"%d" % second, b"v", (), 1000 * second) for second in seconds]


@needs_limits  # 4.1 ends its one batch before the windows that it passes close
def test_windows_close_behind_the_watermark_and_count_each_record_once(
    topics: Topics, stream: Stream
) -> None:
    topic = topics.create(partitions=2)
    windows = (
        stream.frame(topic)
        .withWatermark("timestamp", "5 seconds")
        .groupBy(F.window("timestamp", "10 seconds"))
        .count()
        .selectExpr("CAST(window.start AS LONG) AS start", "count")
    )
    rows: list[Any] = []

    topics.append(topic, 0, at_seconds(*range(0, 30, 2)))
    topics.append(topic, 1, at_seconds(*range(1, 30, 2)))
    collect_stream(windows, stream.checkpoint, rows)
    first = sorted(tuple(row) for row in rows)
    topics.append(topic, 0, at_seconds(1, 29, 60))  # the first is late, the second is not
    collect_stream(windows, stream.checkpoint, rows)

    assert first == [(0, 10), (10, 10)]
    assert sorted(tuple(row) for row in rows) == [(0, 10), (10, 10), (20, 11)]


def test_two_streams_are_joined_across_a_restart(topics: Topics, stream: Stream) -> None:
    """The first run's rows wait in Spark's state for those of the second."""
    orders, payments = topics.create(partitions=2), topics.create()
    left = stream.frame(orders).selectExpr("key AS id", "timestamp AS ordered")
    right = stream.frame(payments).selectExpr("key AS paid_id", "timestamp AS paid")
    joined = (
        left.withWatermark("ordered", "1 hour")
        .join(
            right.withWatermark("paid", "1 hour"),
            F.expr("id = paid_id AND paid BETWEEN ordered AND ordered + INTERVAL 1 HOUR"),
        )
        .selectExpr("CAST(CAST(id AS STRING) AS INT) AS id")
    )
    rows: list[Any] = []

    topics.append(orders, 0, at_seconds(*range(10)))
    topics.append(payments, 0, at_seconds(1, 3))
    collect_stream(joined, stream.checkpoint, rows)
    assert sorted(row.id for row in rows) == [1, 3]
    topics.append(payments, 0, at_seconds(5, 7, 99))
    topics.append(orders, 1, at_seconds(99, 100))
    collect_stream(joined, stream.checkpoint, rows)

    assert sorted(row.id for row in rows) == [1, 3, 5, 7, 99]


KEYS, ROUNDS = 50, 120
COMPACTED = {
    "cleanup_policy": "compact",
    "segment_bytes": "65536",
    "min_cleanable_dirty_ratio": "0.01",
}


def test_a_compacted_topic_is_read_over_its_gaps(spark: SparkSession, tmp_path: Path) -> None:
    with (
        BrokerProcess(tmp_path / "own", log__cleaner_backoff_ms=100) as broker,
        BlockingClient(broker.bootstrap) as client,
    ):
        topics = Topics(client, broker.bootstrap)
        topic = topics.create(**COMPACTED)
        for n in range(ROUNDS):
            records = [Record(b"%d" % key, b"%d " % n + bytes(60)) for key in range(KEYS)]
            topics.append(topic, 0, records)

        def load(**options: str) -> DataFrame:
            reader = spark.read.format("josefine").option("subscribe", topic)
            reader = reader.option("kafka.bootstrap.servers", broker.bootstrap)
            return reader.options(**options).load()

        def last_values(rows: list[Any]) -> dict[int, int]:
            ordered = sorted(rows, key=lambda row: row.offset)
            return {int(row.key): int(row.value.split()[0]) for row in ordered}

        wait_until(lambda: load().count() < ROUNDS * KEYS / 2, TIMEOUT_S, "gaps")
        expected = dict.fromkeys(range(KEYS), ROUNDS - 1)
        whole = load(minPartitions="7").collect()
        pieces = [
            load(startingOffsets=f'{{"{topic}":{{"0":{first}}}}}',
                 endingOffsets=f'{{"{topic}":{{"0":{first + 1000}}}}}')
            for first in range(0, ROUNDS * KEYS, 1000)
        ]  # fmt: skip
        found = [row.offset for piece in pieces for row in piece.collect()]
        stream = Stream(spark, broker.bootstrap, tmp_path / "checkpoint")
        stream.run(topic, maxOffsetsPerTrigger=1500)

    assert last_values(whole) == expected
    assert len(found) == len(set(found))
    assert max(found) == ROUNDS * KEYS - 1
    assert last_values([row for batch in stream.batches for row in batch]) == expected


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_leader_that_dies_in_mid_query_loses_no_row(spark: SparkSession, tmp_path: Path) -> None:
    with (
        Cluster(tmp_path / "own", **REPLICATED) as cluster,
        BlockingClient(cluster.bootstrap) as client,
    ):
        topics = Topics(client, cluster.bootstrap)
        topic = topics.create()
        stream = Stream(spark, cluster.bootstrap, tmp_path / "checkpoint")
        topics.fill(topic, 0, 10)
        query = stream.start(topic)
        try:
            query.processAllAvailable()
            old = cluster.leader_of(topic)
            cluster.kill(old)
            cluster.leader_of(topic, but=old)
            topics.fill(topic, 0, 10, first=10)
            wait_for_rows(stream, query, 20)
        finally:
            query.stop()

    assert stream.values == list(range(20))
