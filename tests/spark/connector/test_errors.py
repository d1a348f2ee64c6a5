"""A mistake is one sentence; with Spark's `hideTraceback` nothing of Python is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient, NewTopic
from pipelines.exactly_once.verdict_messages import clear_reason
from tests.compat.produced_batches import STRUCTURE, Case, Sender, batch, good
from tests.spark.connector.conftest import Stream, Topics
from tests.support.broker import BrokerProcess

pytestmark = pytest.mark.spark

CONF = "spark.sql.execution.pyspark.udf.hideTraceback.enabled"


@pytest.fixture
def terse(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set(CONF, "true")
    yield spark
    spark.conf.unset(CONF)


def said(act: Callable[[], Any]) -> str:
    with pytest.raises(Exception) as caught:  # noqa: PT011 -- Spark's own classes, several
        act()
    return str(caught.value)


def test_a_batch_that_cannot_be_read_is_named_and_by_decision_passed_over(
    terse: SparkSession, tmp_path: Path
) -> None:
    """A broker that looks at headers alone stores what its producer wrote."""
    with BrokerProcess(tmp_path, log__validate_records="headers") as broker:
        with BlockingClient(broker.bootstrap) as client:
            client.create_topics([NewTopic("orders", 1, 1)])
        sender = Sender(broker.bootstrap, {"plain": "orders"})
        for records in (good(), STRUCTURE["key_beyond"], good()):
            sender.code(Case("none/stored", "plain", batch(records)))
        sender.close()
        reader = terse.read.format("josefine").option("bootstrapServers", broker.bootstrap)
        reader = reader.option("subscribe", "orders")

        text = said(reader.load().collect)
        offsets = [row.offset for row in reader.option("failOnDataLoss", False).load().collect()]

    assert "ReadError: cannot read orders-0 at offset 3: the batch with the offsets 3 to 5" in text
    assert "record 1 of 3: its key's length is not valid" in text
    assert clear_reason(RuntimeError(text)).startswith("cannot read orders-0 at offset 3")
    assert offsets == [0, 1, 2, 6, 7, 8]


def test_a_wrong_option_of_a_write_is_one_line(terse: SparkSession, topics: Topics) -> None:
    writer = terse.sql("SELECT 'v' AS value").write.format("josefine").mode("append")
    writer = writer.options(bootstrapServers=topics.bootstrap, topik="t")

    assert said(writer.save).splitlines()[0] == (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: "
        "josefine_spark.base.errors.OptionError: unknown option 'topik': did you mean topic?"
    )


def test_a_wrong_option_of_a_read_is_one_line(terse: SparkSession, topics: Topics) -> None:
    reader = terse.read.format("josefine").options(bootstrapServers=topics.bootstrap)

    text = said(reader.options(subscribe="t", failOnDataLos="x").load)

    assert "OptionError: unknown option 'failondatalos': did you mean failOnDataLoss?" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("reads", [True, False])
def test_a_wrong_option_is_one_line_without_a_setting_of_spark(
    spark: SparkSession, topics: Topics, reads: bool
) -> None:
    streams = spark.readStream if reads else spark.read
    reader = streams.format("josefine").options(bootstrapServers=topics.bootstrap)

    text = said(reader.options(subscribe="t", failOnDataLos="x").load)

    assert text.splitlines()[0].endswith(
        "OptionError: unknown option 'failondatalos': did you mean failOnDataLoss?"
    )
    assert "Traceback" not in text


def test_a_topic_that_is_not_there_is_one_line(terse: SparkSession, topics: Topics) -> None:
    reader = terse.read.format("josefine").options(bootstrapServers=topics.bootstrap)

    text = said(lambda: reader.options(subscribe="no-such").load().count())

    assert "OptionError: topic no-such does not exist" in text
    assert "Traceback" not in text


def test_a_row_that_cannot_be_written_is_named_without_a_trace_of_python(
    terse: SparkSession, topics: Topics
) -> None:
    writer = terse.sql("SELECT 'v' AS value, 9 AS partition").write.format("josefine")
    writer = writer.options(bootstrapServers=topics.bootstrap, topic=topics.create()).mode("append")

    text = said(writer.save)

    assert "SinkError: a row asks for partition 9 of topic" in text
    assert 'File "' not in text


def test_a_stream_that_ends_says_so_in_its_first_line(topics: Topics, stream: Stream) -> None:
    """Whatever `hideTraceback` is: Spark does not look at it there."""
    topic = topics.create()
    topics.fill(topic, 0, 10)
    stream.run(topic)
    topics.fill(topic, 0, 10)
    topics.client.delete_records({TopicPartition(topic, 0): 15})

    text = said(lambda: stream.run(topic))

    assert text.splitlines()[0].endswith(
        f"DataLossError: records are lost: {topic}-0 offsets [10, 15): the log starts after them. "
        "Set failOnDataLoss=false to continue with the records that are left"
    )
    assert "Traceback" not in text
