"""A broker for the connector's tests, and topics of their own with records in them.

`JOSEFINE_APACHE_KAFKA=127.0.0.1:9092` names an Apache Kafka: then it is the broker of every test
that asks for topics and not for a broker of its own.
"""

from __future__ import annotations

import itertools
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSourceStreamReader

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from josefine_broker.records.builder import Record, build_batch
from josefine_spark import run_available_now
from tests.support.broker import BrokerProcess

APACHE_KAFKA = os.environ.get("JOSEFINE_APACHE_KAFKA")
KEPT = {"retention.ms": "-1"}
"""Timestamps here are of 1970: retention by time would delete the records."""

_numbers = itertools.count()
_run = f"-{uuid.uuid4().hex[:8]}" if APACHE_KAFKA else ""
"""In names of topics, where the broker has topics of other runs too."""


@dataclass
class Topics:
    """Makes topics and fills them."""

    client: BlockingClient
    bootstrap: str
    made: list[str] = field(default_factory=list)

    def create(self, partitions: int = 1, name: str | None = None, **configs: str) -> str:
        """`max_message_bytes="…"` is max.message.bytes."""
        name = name or f"topic{_run}-{next(_numbers)}"
        named = {key.replace("_", "."): value for key, value in configs.items()}
        self.client.create_topics([NewTopic(name, partitions, configs={**KEPT, **named})])
        self.made.append(name)
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
    if APACHE_KAFKA:
        pytest.skip("asks for a broker of ours; JOSEFINE_APACHE_KAFKA names another")
    directory = tmp_path_factory.mktemp("broker")
    with BrokerProcess(directory, log__retention_ms=None, text__port=0) as process:
        yield process


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """Where the broker of these tests listens."""
    if APACHE_KAFKA:
        return APACHE_KAFKA
    broker: BrokerProcess = request.getfixturevalue("broker")
    return broker.bootstrap


@pytest.fixture(scope="session")
def topics(bootstrap: str) -> Iterator[Topics]:
    with BlockingClient(bootstrap) as client:
        topics = Topics(client, bootstrap)
        yield topics
        if APACHE_KAFKA:
            left = sorted({*topics.made} & {*client.metadata().topics})  # some were made twice
            client.delete_topics(left)


@pytest.fixture
def read(spark: SparkSession, topics: Topics) -> Callable[..., DataFrame]:
    """`spark.read` of a topic with options."""

    def load(topic: str | None = None, **options: Any) -> DataFrame:
        reader = spark.read.format("josefine").option("kafka.bootstrap.servers", topics.bootstrap)
        if topic is not None:
            options["subscribe"] = topic
        return reader.options(**options).load()

    return load


HAS_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
"""Not so PySpark 4.1, which ends an availableNow run after one batch, whatever its size."""
needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 knows no limits of a batch")


def run_to_the_end(start: Callable[[], Any]) -> Any:
    """An availableNow query that is started by `start`; the first run of it."""
    return run_available_now(start)[0]


@dataclass
class Stream:
    """A streaming query that keeps what it was given, run to its end or step by step."""

    spark: SparkSession
    bootstrap: str
    checkpoint: Path
    batches: list[list[Any]] = field(default_factory=list)
    after_batch: Callable[[int], None] = lambda number: None

    def frame(self, topic: str, **options: Any) -> DataFrame:
        reader = self.spark.readStream.format("josefine")
        options = {"subscribe": topic, "startingOffsets": "earliest"} | options
        options = {name: value for name, value in options.items() if value is not None}
        return reader.option("kafka.bootstrap.servers", self.bootstrap).options(**options).load()

    def start(
        self, topic: str, *, available_now: bool = False, once: bool = False, **options: Any
    ) -> Any:
        def keep(frame: DataFrame, number: int) -> None:
            self.batches.append(frame.collect())
            self.after_batch(number)

        writer = self.frame(topic, **options).writeStream.foreachBatch(keep)
        if available_now:
            writer = writer.trigger(availableNow=True)
        if once:
            writer = writer.trigger(once=True)
        return writer.option("checkpointLocation", str(self.checkpoint)).start()

    def run(self, topic: str, **options: Any) -> Any:
        """To the end of what is there now. Raises what the query raised."""
        return run_to_the_end(lambda: self.start(topic, available_now=True, **options))

    @property
    def values(self) -> list[int]:
        return sorted(int(row.value) for batch in self.batches for row in batch)


@pytest.fixture
def stream(spark: SparkSession, topics: Topics, tmp_path: Path) -> Stream:
    return Stream(spark, topics.bootstrap, tmp_path / "checkpoint")
