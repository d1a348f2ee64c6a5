"""A mistake is one sentence; with Spark's `hideTraceback` nothing of Python is around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from josefine_broker.base.ids import TopicPartition
from tests.spark.connector.conftest import Stream, Topics

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


def test_a_wrong_option_of_a_write_is_one_line(terse: SparkSession, topics: Topics) -> None:
    writer = terse.sql("SELECT 'v' AS value").write.format("josefine").mode("append")
    writer = writer.options(bootstrapServers=topics.bootstrap, topik="t")

    assert said(writer.save).splitlines()[0] == (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source writer: "
        "josefine_spark.errors.OptionError: unknown option 'topik': did you mean topic?"
    )


def test_a_wrong_option_of_a_read_is_one_line(terse: SparkSession, topics: Topics) -> None:
    reader = terse.read.format("josefine").options(bootstrapServers=topics.bootstrap)

    text = said(reader.options(subscribe="t", failOnDataLos="x").load)

    assert "OptionError: unknown option 'failondatalos': did you mean failOnDataLoss?" in text
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
        f"DataLossError: records are lost: {topic}-0 offsets [10, 15): the log starts behind them. "
        "Set failOnDataLoss=false to go on with what is there"
    )
    assert "Traceback" not in text
