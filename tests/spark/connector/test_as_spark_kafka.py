"""One table of options through our source and through Spark's own Kafka source, at one broker.

The table is tests/spark/connector/option_cases.py. In every run our source is held to it, asked as
Spark asks it; both through Spark, with the peer's jars from the cache or Maven, by hand:
`pytest -m slow tests/spark/connector/test_as_spark_kafka.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition

from josefine_broker.base.ids import TopicPartition
from josefine_spark.source import JosefineDataSource
from tests.bench.peer_jars import peer_jars
from tests.spark.connector.conftest import HAS_LIMITS, Topics
from tests.spark.connector.option_cases import CASES, FAILED, LOST, REFUSED, Case, Outcome
from tests.support.maven import NoJarsError

Read = Callable[[dict[str, str], Case, Path], list[int]]

REFUSALS = (
    "OptionError:",
    "IllegalArgumentException",
    "IllegalStateException",
    "UnknownTopicOrPartitionException",
    "ConfigException",
    "NoSuchElementException",
    "NumberFormatException",
    "For input string",
    "Failed to parse time string",
    "assertion failed",
    "AssertionError",
)
LOSSES = ("DataLossError:", "KAFKA_DATA_LOSS", "data may have been lost")


@pytest.fixture(scope="module")
def names(topics: Topics) -> dict[str, str]:
    """The topics of the table, by their names there."""
    made = {"TOPIC": topics.create(partitions=2), "OTHER": topics.create(),
            "TRIMMED": topics.create()}  # fmt: skip
    topics.fill(made["TOPIC"], 0, 10)
    topics.fill(made["TOPIC"], 1, 5, first=10)
    topics.fill(made["OTHER"], 0, 3, first=20)
    topics.fill(made["TRIMMED"], 0, 10)
    topics.client.delete_records({TopicPartition(made["TRIMMED"], 0): 4})
    return made


def outcome(
    read: Read, case: Case, names: dict[str, str], bootstrap: str, directory: Path
) -> Outcome:
    options = {} if case.subscribed is None else {"subscribe": case.subscribed}
    options |= case.options
    for word, name in names.items():
        options = {key: text.replace(word, name) for key, text in options.items()}
    options["kafka.bootstrap.servers"] = bootstrap
    try:
        return sorted(read(options, case, directory))
    except Exception as error:
        return _class_of(error)


def _class_of(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}"
    if any(one in text for one in LOSSES):
        return LOST
    if any(one in text for one in REFUSALS):
        return REFUSED
    return FAILED if "UnknownReason" in text else text


def asked_as_spark_asks(options: dict[str, str], case: Case, _: Path) -> list[int]:
    """Our source without Spark."""
    source = JosefineDataSource(CaseInsensitiveDict(options))
    schema = source.schema()
    if not case.streaming:
        reader: Any = source.reader(schema)
        return _read(reader, reader.partitions())
    stream: Any = source.streamReader(schema)
    start = stream.initialOffset()
    if case.available_now:
        stream.prepareForTriggerAvailableNow()
    values: list[int] = []
    limit = stream.getDefaultReadLimit() if HAS_LIMITS else None
    while (end := stream.latestOffset(start, limit)) != start:
        values += _read(stream, stream.partitions(start, end))
        start = end
    return values


def _read(reader: Any, partitions: list[InputPartition]) -> list[int]:
    return [
        int(value)
        for partition in partitions
        for batch in reader.read(partition)
        for value in batch.column("value").to_pylist()
    ]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ours_is_as_the_table_says(
    topics: Topics, names: dict[str, str], tmp_path: Path, case: Case
) -> None:
    assert outcome(asked_as_spark_asks, case, names, topics.bootstrap, tmp_path) == case.ours


def through_spark(spark: SparkSession, source: str) -> Read:
    def read(options: dict[str, str], case: Case, directory: Path) -> list[int]:
        if not case.streaming:
            frame = spark.read.format(source).options(**options).load()
            return [int(row.value) for row in frame.select("value").collect()]
        rows: list[Any] = []
        frame = spark.readStream.format(source).options(**options).load()
        writer = frame.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        writer = writer.option("checkpointLocation", str(directory / source))
        if case.available_now:
            writer.trigger(availableNow=True).start().awaitTermination()
        else:
            query = writer.start()
            query.processAllAvailable()
            query.stop()
        return [int(row.value) for row in rows]

    return read


@pytest.fixture(scope="module")
def with_peer(spark: SparkSession) -> SparkSession:
    """The session that runs, with Spark's own source added to it."""
    try:
        jars = peer_jars()
    except NoJarsError as error:
        pytest.skip(f"Spark's own Kafka source cannot be had: {error}")
    for jar in jars:
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("source", ["josefine", "kafka"])
def test_both_through_spark_are_as_the_table_says(
    with_peer: SparkSession,
    topics: Topics,
    names: dict[str, str],
    tmp_path: Path,
    source: str,
    case: Case,
) -> None:
    found = outcome(through_spark(with_peer, source), case, names, topics.bootstrap, tmp_path)

    differs = source == "kafka" and case.theirs is not None
    assert found == (case.theirs if differs else case.ours)


def test_every_difference_has_a_reason() -> None:
    assert [case.name for case in CASES if (case.theirs is None) != (case.why == "")] == []
    assert len({case.name for case in CASES}) == len(CASES)
