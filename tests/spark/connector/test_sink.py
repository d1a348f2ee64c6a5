"""`write` and `writeStream` into topics of a real broker process: at least once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from josefine_broker.client.partitioner import partition_for_key
from tests.spark.connector.conftest import Stream, Topics, run_to_the_end
from tests.spark.connector.test_stream_read import forget_last_commit

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]
ALL_COLUMNS = (
    "key BINARY, value BINARY, topic STRING, partition INT, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
)


def write(frame: DataFrame, topics: Topics, **options: Any) -> None:
    writer = frame.write.format("josefine").option("kafka.bootstrap.servers", topics.bootstrap)
    writer.options(**options).mode("append").save()


def test_every_column_comes_back_as_it_was_written(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    """Checklist row 88."""
    one, two = topics.create(partitions=2), topics.create()
    rows = [
        (b"k", b"v", one, 1, [("a", b"1"), ("a", None), ("b", b"")]),
        (None, b"no key", one, 0, None),
        (b"no value", None, two, 0, []),
        (b"", b"", two, 0, [("é", b"\xff")]),
        (b"big", b"x" * 700_000, one, 1, None),
    ]
    write(spark.createDataFrame(rows, ALL_COLUMNS), topics)

    frame = read(subscribe=f"{one},{two}", includeHeaders="true")
    found = [
        (r.key, r.value, r.topic, r.partition, r.headers and [tuple(h) for h in r.headers])
        for r in frame.collect()
    ]

    expected = [(*row[:4], row[4] or None) for row in rows]
    assert sorted(found, key=str) == sorted(expected, key=str)


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_rows_of_all_tasks_arrive_once_in_the_partition_of_their_key(
    spark: SparkSession, topics: Topics, read: Read, compression: str
) -> None:
    topic = topics.create(partitions=3)
    frame = spark.range(0, 20_000, numPartitions=4).selectExpr(
        "concat('key-', id % 50) AS key", "CAST(id AS STRING) AS value"
    )

    write(frame, topics, topic=topic, **{"kafka.compression.type": compression})

    rows = read(topic).select("key", "value", "partition").collect()
    assert sorted(int(r.value) for r in rows) == list(range(20_000))
    assert all(r.partition == partition_for_key(bytes(r.key), 3) for r in rows)


def test_rows_of_one_task_keep_their_order_within_a_partition(
    spark: SparkSession, topics: Topics, read: Read
) -> None:
    topic = topics.create(partitions=3)
    frame = spark.range(0, 30_000, numPartitions=1).selectExpr(
        "CAST(id % 7 AS STRING) AS key", "CAST(id AS STRING) AS value"
    )

    write(frame, topics, topic=topic, **{"kafka.batch.size": "5000"})

    rows = read(topic).orderBy("partition", "offset").collect()
    for partition in range(3):
        found = [int(r.value) for r in rows if r.partition == partition]
        assert found == sorted(found)


def test_rows_without_a_key_are_spread(spark: SparkSession, topics: Topics, read: Read) -> None:
    topic = topics.create(partitions=3)

    write(spark.range(20_000).selectExpr("CAST(id AS STRING) AS value"), topics, topic=topic)

    counts = {r.partition: r["count"] for r in read(topic).groupBy("partition").count().collect()}
    assert sum(counts.values()) == 20_000
    assert min(counts.get(n, 0) for n in range(3)) > 2_000


def test_what_is_read_can_be_written(topics: Topics, read: Read) -> None:
    source, target = topics.create(), topics.create()
    topics.fill(source, 0, 10)

    write(read(source).drop("partition"), topics, topic=target)

    assert sorted(int(r.value) for r in read(target).collect()) == list(range(10))


def test_large_rows_come_to_python_a_mebibyte_at_a_time(spark: SparkSession) -> None:
    def sizes(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        yield pa.record_batch([pa.array([each.nbytes for each in batches])], names=["size"])

    rows = spark.range(4_000, numPartitions=1).selectExpr("rpad(CAST(id AS STRING), 1000) value")

    found = [row.size for row in rows.mapInArrow(sizes, "size LONG").collect()]

    assert len(found) > 1
    assert max(found) < 2 * 1024 * 1024


def copy(stream: Stream, source: str, target: str, **options: Any) -> None:
    writer = stream.frame(source, **options).drop("partition").writeStream.format("josefine")
    writer = writer.option("kafka.bootstrap.servers", stream.bootstrap).option("topic", target)
    query = writer.option("checkpointLocation", str(stream.checkpoint)).trigger(availableNow=True)
    run_to_the_end(query.start)


def test_topic_to_topic_goes_on_from_the_checkpoint_without_loss(
    topics: Topics, stream: Stream, read: Read
) -> None:
    """Checklist row 88, but for duplicates: the sink is at least once."""
    source, target = topics.create(partitions=2), topics.create(partitions=2)
    topics.fill(source, 0, 30)
    copy(stream, source, target, maxOffsetsPerTrigger=7)
    topics.fill(source, 1, 30, first=30)
    copy(stream, source, target, maxOffsetsPerTrigger=11)

    assert sorted(int(r.value) for r in read(target).collect()) == list(range(60))


def test_a_batch_that_runs_again_is_written_again_and_nothing_is_lost(
    topics: Topics, stream: Stream, read: Read
) -> None:
    """At least once is what this sink promises: no loss, but duplicates."""
    source, target = topics.create(), topics.create()
    topics.fill(source, 0, 10)
    copy(stream, source, target)
    forget_last_commit(stream.checkpoint)
    topics.fill(source, 0, 5, first=10)

    copy(stream, source, target)

    found = sorted(int(r.value) for r in read(target).collect())
    assert found == sorted([*range(10), *range(10), *range(10, 15)])


MISTAKES: list[tuple[str, dict[str, str], str]] = [
    ("SELECT 'v' AS val", {"topic": "T"}, "a column named value is needed; there are val"),
    ("SELECT 'v' AS value", {}, "set the option topic, or add a column named topic"),
    ("SELECT 5 AS value", {"topic": "T"}, "column value must be string or binary, not int"),
    ("SELECT 'v' AS value, 'w' AS value", {"topic": "T"}, "2 columns are named value, as after"),
    ("SELECT 'v' AS value, 'h' AS headers", {"topic": "T"}, "column headers must be array"),
    ("SELECT 'v' AS value, CAST(null AS STRING) AS topic", {}, "a row has no topic"),
    ("SELECT 'v' AS value, 9 AS partition", {"topic": "T"}, "asks for partition 9 of topic"),
    (
        "SELECT 'v' AS value",
        {"topic": "a b"},
        "rows could not be written: 'a b' cannot name a topic",
    ),
    ("SELECT 'v' AS value", {"topic": "T", "delivery": "once"}, "at_least_once or exactly_once"),
    ("SELECT 'v' AS value", {"topic": "T", "kafka.ack": "all"}, "did you mean kafka.acks"),
]


@pytest.mark.parametrize(("query", "options", "words"), MISTAKES, ids=lambda one: str(one)[:50])
def test_what_cannot_be_written_says_why(
    spark: SparkSession, topics: Topics, query: str, options: dict[str, str], words: str
) -> None:
    topic = topics.create()
    options = {name: topic if value == "T" else value for name, value in options.items()}

    with pytest.raises(Exception, match=words):
        write(spark.sql(query), topics, **options)


def test_a_stream_with_two_columns_of_one_name_says_so(topics: Topics, stream: Stream) -> None:
    source = topics.create()
    topics.fill(source, 0, 1)
    twice = stream.frame(source).selectExpr("value", "key AS value")
    writer = twice.writeStream.format("josefine").option("topic", topics.create())
    writer = writer.option("kafka.bootstrap.servers", topics.bootstrap)
    writer = writer.option("checkpointLocation", str(stream.checkpoint))

    with pytest.raises(Exception, match="2 columns are named value, as after a join: select the"):
        writer.trigger(availableNow=True).start().awaitTermination()


def test_overwriting_a_topic_is_refused(spark: SparkSession, topics: Topics) -> None:
    writer = spark.sql("SELECT 'v' AS value").write.format("josefine").mode("overwrite")

    with pytest.raises(Exception, match=r"a topic is append-only.* write with mode"):
        writer.option("bootstrapServers", topics.bootstrap).option("topic", "t").save()


def test_an_unreachable_broker_is_named(spark: SparkSession, tmp_path: Path) -> None:
    writer = spark.sql("SELECT 'v' AS value").write.format("josefine").mode("append")

    writer = writer.option("kafka.max.block.ms", "1000")
    with pytest.raises(Exception, match=r"cannot reach a broker at 127\.0\.0\.1:9"):
        writer.option("bootstrapServers", "127.0.0.1:9").option("topic", "t").save()
