"""`spark.read.format("josefine")` against a real broker process; nobody registers anything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from josefine_broker.base.ids import TopicPartition
from josefine_broker.records.builder import Record
from tests.spark.connector.conftest import Topics

pytestmark = pytest.mark.spark

Read = Callable[..., DataFrame]

KAFKA_SOURCE_SCHEMA = [
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    ("partition", "integer"),
    ("offset", "long"),
    ("timestamp", "timestamp"),
    ("timestampType", "integer"),
]
"""What `spark.read.format("kafka")` of spark-sql-kafka-0-10 4.2.0 has, all nullable."""

KAFKA_HEADERS_TYPE = {
    "type": "array",
    "elementType": {
        "type": "struct",
        "fields": [
            {"name": "key", "type": "string", "nullable": True, "metadata": {}},
            {"name": "value", "type": "binary", "nullable": True, "metadata": {}},
        ],
    },
    "containsNull": True,
}


def values(frame: DataFrame) -> list[int]:
    return sorted(int(row.value) for row in frame.select("value").collect())


def test_columns_are_those_of_sparks_kafka_source(topics: Topics, read: Read) -> None:
    """Checklist row 87."""
    topic = topics.create()
    plain: list[dict[str, Any]] = [
        {"name": name, "type": kind, "nullable": True, "metadata": {}}
        for name, kind in KAFKA_SOURCE_SCHEMA
    ]
    headers = {"name": "headers", "type": KAFKA_HEADERS_TYPE, "nullable": True, "metadata": {}}

    assert json.loads(read(topic).schema.json())["fields"] == plain
    with_headers = json.loads(read(topic, includeHeaders="true").schema.json())["fields"]
    assert with_headers == [*plain, headers]


@pytest.mark.parametrize("compression", range(5))
def test_records_come_out_as_they_went_in(topics: Topics, read: Read, compression: int) -> None:
    topic = topics.create()
    records = [
        Record(b"k", b"v", [("a", b"1"), ("a", None), ("b", b"")], 1_700_000_000_123),
        Record(None, b"only a value", (), 1_700_000_000_000),
        Record(b"only a key", None, (), 0),
        Record(b"", b"", (), 1_700_000_000_999),
        Record(b"big", b"x" * 300_000, (), 1_700_000_000_999),
    ]
    topics.append(topic, 0, records, compression=compression)

    rows = read(topic, includeHeaders="true").orderBy("offset").collect()

    assert [(r.key, r.value) for r in rows] == [(r.key, r.value) for r in records]
    assert [round(r.timestamp.timestamp() * 1000) for r in rows] == [
        r.timestamp_ms for r in records
    ]
    assert [(r.topic, r.partition, r.offset, r.timestampType) for r in rows] == [
        (topic, 0, n, 0) for n in range(5)
    ]
    assert [tuple(h) for h in rows[0].headers] == [("a", b"1"), ("a", None), ("b", b"")]
    assert [r.headers for r in rows[1:]] == [None] * 4


@pytest.fixture(scope="module")
def two_partitions(topics: Topics) -> str:
    """Partition 0 has 0..9, partition 1 has 10..14; the timestamp is 1000 × the value."""
    topic = topics.create(partitions=2)
    topics.fill(topic, 0, 10)
    topics.fill(topic, 1, 5, first=10)
    return topic


def per_partition(zero: int, one: int) -> str:
    return f'{{"TOPIC":{{"0":{zero},"1":{one}}}}}'


RANGES: list[tuple[dict[str, str], list[int]]] = [
    ({}, list(range(15))),
    ({"startingOffsets": "earliest", "endingOffsets": "latest"}, list(range(15))),
    ({"startingOffsets": per_partition(4, -2)}, [*range(4, 10), *range(10, 15)]),
    ({"endingOffsets": per_partition(4, -1)}, [*range(4), *range(10, 15)]),
    (
        {"startingOffsets": per_partition(2, 1), "endingOffsets": per_partition(4, 3)},
        [2, 3, 11, 12],
    ),
    ({"startingOffsets": per_partition(10, 5)}, []),
    (
        {"startingTimestamp": "8500", "startingOffsetsByTimestampStrategy": "latest"},
        [9, *range(10, 15)],
    ),
    ({"startingOffsetsByTimestamp": per_partition(3000, 12_000)}, [*range(3, 10), 12, 13, 14]),
    ({"endingTimestamp": "9000"}, [*range(9)]),
    ({"endingOffsetsByTimestamp": per_partition(5000, 99_000)}, [*range(5), *range(10, 15)]),
]


def test_columns_that_are_asked_for_are_the_frame(topics: Topics, read: Read) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 3)

    frame = read(topic, columns="offset,leader_epoch,key")

    assert frame.columns == ["key", "offset", "leader_epoch"]
    assert frame.count() == 3
    assert [tuple(row) for row in frame.orderBy("offset").collect()] == [
        (b"k0", 0, 0),
        (b"k1", 1, 0),
        (b"k2", 2, 0),
    ]
    assert read(topic, includeLeaderEpoch="true").columns == [*read(topic).columns, "leader_epoch"]


def test_values_that_are_asked_for_as_objects_are_a_column(topics: Topics, read: Read) -> None:
    schema = StructType.fromDDL("id INT NOT NULL COMMENT 'n', note STRING, place STRUCT<x: DOUBLE>")
    assert isinstance(schema, StructType)
    topic = topics.create()
    good = '{"note":"é","id":1,"place":{"x":2.5}}'.encode()
    topics.append(topic, 0, [Record(None, value) for value in (good, b'{"id":"1"}', None)])

    frame = read(topic, jsonSchema=schema.json())

    assert frame.schema["json"].dataType.simpleString() == schema.simpleString()
    rows = [(row.value is None, row.json) for row in frame.orderBy("offset").collect()]
    assert rows == [(False, (1, "é", (2.5,))), (False, None), (True, None)]
    assert read(topic, jsonSchema=schema.json(), columns="value").columns == [
        "value",
        "json",
        "json_reason",
    ]


@pytest.mark.parametrize(("options", "expected"), RANGES, ids=lambda one: str(one)[:60])
def test_starting_and_ending_options(
    two_partitions: str, read: Read, options: dict[str, str], expected: list[int]
) -> None:
    """Checklist row 87."""
    options = {name: text.replace("TOPIC", two_partitions) for name, text in options.items()}

    assert values(read(two_partitions, **options)) == expected


def test_no_record_that_late_is_an_error_unless_the_strategy_says_latest(
    two_partitions: str, read: Read
) -> None:
    late = {"startingTimestamp": "12500"}

    with pytest.raises(Exception, match=f"no record that late in {two_partitions}-0"):
        values(read(two_partitions, **late))
    found = values(read(two_partitions, **late, startingOffsetsByTimestampStrategy="latest"))
    assert found == [13, 14]


def test_subscribe_pattern_takes_whole_names(topics: Topics, read: Read) -> None:
    one, two = topics.create(), topics.create()
    topics.fill(one, 0, 2)
    topics.fill(two, 0, 2, first=2)

    assert values(read(subscribePattern=f"{one}|{two}")) == [0, 1, 2, 3]
    assert values(read(subscribePattern=one[1:])) == []


def test_assign_reads_the_partitions_named(two_partitions: str, read: Read) -> None:
    assert values(read(assign=f'{{"{two_partitions}":[1]}}')) == [*range(10, 15)]


def test_ranges_are_split_over_tasks(two_partitions: str, read: Read) -> None:
    assert read(two_partitions).rdd.getNumPartitions() == 2
    assert read(two_partitions, minPartitions="5").rdd.getNumPartitions() == 5
    split = read(two_partitions, maxRecordsPerPartition="4")
    assert split.rdd.getNumPartitions() == 5
    assert values(split) == [*range(15)]


def test_an_empty_topic_is_an_empty_frame(topics: Topics, read: Read) -> None:
    assert read(topics.create()).collect() == []


def test_limit_ends_a_task_early_and_the_next_read_works(two_partitions: str, read: Read) -> None:
    assert len(read(two_partitions).limit(1).collect()) == 1
    assert len(values(read(two_partitions))) == 15


def test_deleted_records_are_data_loss_or_skipped(topics: Topics, read: Read) -> None:
    """Checklist row 90."""
    topic = topics.create()
    topics.fill(topic, 0, 10)
    topics.client.delete_records({TopicPartition(topic, 0): 4})
    start = {"startingOffsets": f'{{"{topic}":{{"0":1}}}}'}

    with pytest.raises(Exception, match=r"cannot start at 1, offsets \[1, 4\) are gone"):
        values(read(topic, **start))
    assert values(read(topic, **start, failOnDataLoss="false")) == [*range(4, 10)]


MISTAKES = [
    ({"subscribe": "no-such-topic"}, "topic no-such-topic does not exist"),
    ({"assign": '{"TOPIC":[7]}'}, "assign: no partition .*-7"),
    ({"subscribe": "TOPIC", "startingOfsets": "earliest"}, "did you mean startingOffsets"),
    ({}, "exactly one of subscribe, subscribePattern and assign"),
    ({"subscribe": "TOPIC", "endingOffsets": '{"TOPIC":{"0":99,"1":0}}'}, "ends at offset 10"),
    ({"subscribe": "TOPIC", "startingOffsets": '{"x":{"0":1}}'}, "not among the partitions"),
    ({"subscribe": "TOPIC", "maxOffsetsPerTrigger": "5"}, "for streaming reads only"),
    (
        {
            "subscribe": "TOPIC",
            "startingOffsets": '{"TOPIC":{"0":6,"1":0}}',
            "endingOffsets": '{"TOPIC":{"0":4,"1":2}}',
        },
        "ends at offset 4, before its start 6",
    ),
]


@pytest.mark.parametrize(("options", "words"), MISTAKES, ids=lambda one: str(one)[:60])
def test_a_wrong_option_says_what_was_expected(
    two_partitions: str, read: Read, options: dict[str, str], words: str
) -> None:
    options = {name: text.replace("TOPIC", two_partitions) for name, text in options.items()}

    with pytest.raises(Exception, match=words):
        read(**options).collect()


def test_an_unreachable_broker_is_named(spark: SparkSession) -> None:
    reader = spark.read.format("josefine").option("bootstrapServers", "127.0.0.1:9")

    with pytest.raises(Exception, match=r"cannot reach a broker at 127\.0\.0\.1:9"):
        reader.option("subscribe", "t").load().collect()


def test_another_schema_is_refused(spark: SparkSession, topics: Topics) -> None:
    reader = spark.read.format("josefine").option("bootstrapServers", topics.bootstrap)

    with pytest.raises(Exception, match="schema of this source is fixed"):
        reader.schema("a INT").option("subscribe", topics.create()).load().collect()
