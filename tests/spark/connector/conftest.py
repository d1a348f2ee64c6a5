"""A real broker for the connector's tests, and topics of their own with records in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from tests.support.broker import BrokerProcess

_numbers = itertools.count()


@dataclass
class Topics:
    """Makes topics and fills them."""

    client: BlockingClient
    bootstrap: str

    def create(self, partitions: int = 1) -> str:
        name = f"topic-{next(_numbers)}"
        self.client.create_topics([NewTopic(name, partitions)])
        return name

    def delete(self, name: str) -> None:
        self.client.delete_topics([name])

    def append(
        self, topic: str, partition: int, records: Sequence[Record], *, compression: int = 0
    ) -> None:
        batch = build_batch(records, compression=compression)
        self.client.produce({TopicPartition(topic, partition): batch})

    def fill(self, topic: str, partition: int, count: int, *, first: int = 0) -> None:
        """Records whose value is their number and whose timestamp is 1000 × it."""
        records = [Record(b"k%d" % n, b"%d" % n, (), 1000 * n) for n in range(first, first + count)]
        self.append(topic, partition, records)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    # Timestamps here are of 1970: retention by time, each five minutes, would delete the records.
    with BrokerProcess(tmp_path_factory.mktemp("broker"), log__retention_ms=None) as process:
        yield process


@pytest.fixture(scope="session")
def topics(broker: BrokerProcess) -> Iterator[Topics]:
    with BlockingClient(broker.bootstrap) as client:
        yield Topics(client, broker.bootstrap)


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    """`spark.read` of a topic with options."""

    def load(topic: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("josefine").option("kafka.bootstrap.servers", topics.bootstrap)
        if topic is not None:
            options["subscribe"] = topic
        return reader.options(**options).load()

    return load


@dataclass
class Stream:
    """A streaming query that keeps what it was given, run to its end or step by step."""

    spark: SparkSession
    bootstrap: str
    checkpoint: Path
    batches: list[list[Any]] = field(default_factory=list)

    def frame(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("josefine")
        options = {"subscribe": topic, "startingOffsets": "earliest"} | options
        options = {name: value for name, value in options.items() if value is not None}
        return reader.option("kafka.bootstrap.servers", self.bootstrap).options(**options).load()

    def start(self, topic: str, *, available_now: bool = False, **options: Any) -> Any:
        def keep(frame: DataFrame, number: int) -> None:
            self.batches.append(frame.collect())

        writer = self.frame(topic, **options).writeStream.foreachBatch(keep)
        if available_now:
            writer = writer.trigger(availableNow=True)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def run(self, topic: str, **options: Any) -> Any:
        """To the end of what is there now. Raises what the query raised."""
        query = self.start(topic, available_now=True, **options)
        query.awaitTermination()
        return query

    @property
    def values(self) -> list[int]:
        return sorted(int(row.value) for batch in self.batches for row in batch)


@pytest.fixture
def stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> Stream:
    return Stream(spark, topics.bootstrap, tmp_path / "checkpoint")
