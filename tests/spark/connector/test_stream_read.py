"""`spark.readStream.format("josefine")` against a real broker process."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.records.builder import Record
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.lag import read_lag
from josefine_spark.read.lag_listener import LagListener
from josefine_spark.read.offsets import parse_offset
from josefine_spark.read.source_options import source_options
from josefine_spark.read.stream_reader import IDLE_POLL_S, JosefineStreamReader
from tests.spark.connector.conftest import Stream, Topics, needs_limits
from tests.support.broker import BrokerProcess
from tests.support.waiting import wait_until

try:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
except ImportError:  # PySpark 4.1 asks without a limit

    def ReadAllAvailable() -> None:  # noqa: N802
        return None


pytestmark = pytest.mark.spark

TIMEOUT_S = 180


def stored_offset(checkpoint: Path, batch: int) -> TopicOffsets:
    """What Spark keeps of us in its checkpoint."""
    lines = (checkpoint / "offsets" / str(batch)).read_text().splitlines()
    return parse_offset(lines[-1])


def sizes(query: StreamingQuery) -> list[int]:
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def forget_last_commit(checkpoint: Path) -> None:
    """As if the driver had died after a batch's work and before its commit."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)


@needs_limits
def test_available_now_with_a_limit_reads_everything_in_limited_batches(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 87."""
    topic = topics.create(partitions=2)
    topics.fill(topic, 0, 90)
    topics.fill(topic, 1, 10, first=90)

    query = stream.run(topic, maxOffsetsPerTrigger=30)

    assert stream.values == list(range(100))
    assert max(sizes(query)) <= 30
    assert sum(sizes(query)) == 100


def test_available_now_without_a_limit_is_one_batch(topics: Topics, stream: Stream) -> None:
    topic = topics.create(partitions=2)
    topics.fill(topic, 0, 50)

    assert sizes(stream.run(topic)) == [50]


def test_restart_from_the_checkpoint_goes_on_where_it_stopped(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 88."""
    topic = topics.create()
    topics.fill(topic, 0, 20)
    stream.run(topic, maxOffsetsPerTrigger=7)
    topics.fill(topic, 0, 20, first=20)

    stream.run(topic, maxOffsetsPerTrigger=11)

    assert stream.values == list(range(40))


def test_a_batch_that_was_not_committed_is_given_again_exactly_as_it_was(
    topics: Topics, stream: Stream
) -> None:
    topic = topics.create(partitions=2)
    topics.fill(topic, 0, 20)
    topics.fill(topic, 1, 5, first=20)
    stream.run(topic)
    forget_last_commit(stream.checkpoint)
    topics.fill(topic, 0, 5, first=25)

    stream.run(topic)

    again = [sorted(int(row.value) for row in batch) for batch in stream.batches]
    assert again == [list(range(25)), list(range(25)), list(range(25, 30))]


def test_partitions_added_in_mid_query_are_read_from_their_first_record(
    topics: Topics, stream: Stream
) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)
    query = stream.start(topic)
    try:
        query.processAllAvailable()
        topics.client.create_partitions({topic: 3})
        topics.fill(topic, 1, 10, first=10)
        topics.fill(topic, 2, 10, first=20)
        wait_until(lambda: len(stream.values) == 30, TIMEOUT_S, "rows of the new partitions")
    finally:
        query.stop()

    assert stream.values == list(range(30))


def test_starting_at_latest_gives_only_what_comes_later(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)
    query = stream.start(topic, startingOffsets="latest")
    try:
        query.processAllAvailable()
        topics.fill(topic, 0, 5, first=10)
        query.processAllAvailable()
    finally:
        query.stop()

    assert stream.values == list(range(10, 15))


def test_starting_by_timestamp_and_by_offsets(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)
    stream.run(topic, startingTimestamp="6000")
    assert stream.values == [6, 7, 8, 9]

    shutil.rmtree(stream.checkpoint)
    stream.batches.clear()
    stream.run(topic, startingOffsets=f'{{"{topic}":{{"0":8}}}}')
    assert stream.values == [8, 9]


def test_subscribe_pattern_finds_topics_created_later(
    spark: SparkSession, topics: Topics, stream: Stream
) -> None:
    first = topics.create()
    topics.fill(first, 0, 5)
    prefix = f"found-{first}"
    query = stream.start(topic="", subscribe=None, subscribePattern=f"({first}|{prefix}.*)")
    try:
        query.processAllAvailable()
        topics.create(name=f"{prefix}-later")
        topics.fill(f"{prefix}-later", 0, 5, first=5)
        wait_until(lambda: len(stream.values) == 10, TIMEOUT_S, "rows of the new topic")
    finally:
        query.stop()

    assert stream.values == list(range(10))


@needs_limits
def test_progress_tells_how_far_the_topic_goes(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)

    query = stream.run(topic, maxOffsetsPerTrigger=4)

    source = query.recentProgress[0].sources[0]
    assert json.loads(source.endOffset)["offsets"] == {topic: {"0": 4}}
    assert json.loads(source.latestOffset)["offsets"] == {topic: {"0": 10}}


def test_the_checkpoint_names_topic_ids_and_first_offsets(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)
    topics.client.delete_records({TopicPartition(topic, 0): 2})

    stream.run(topic)

    offset = stored_offset(stream.checkpoint, 0)
    tp = TopicPartition(topic, 0)
    known = topics.client.metadata([topic]).topic_id(topic)
    assert (offset.first, offset.ends) == ({tp: 2}, {tp: 10})
    assert offset.topic_ids == {topic: str(known)}


def lose(topics: Topics, stream: Stream) -> str:
    """A topic whose records [10, 25) are gone while the checkpoint stands at 10."""
    topic = topics.create()
    topics.fill(topic, 0, 10)
    stream.run(topic)
    topics.fill(topic, 0, 20, first=10)
    topics.client.delete_records({TopicPartition(topic, 0): 25})
    return topic


@needs_limits
def test_a_loss_is_logged_once_and_whole_and_stands_in_the_checkpoint(
    topics: Topics, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Checklist row 90. Without Spark: what it asks, in its order, with a limit."""
    topic = topics.create()
    tp = TopicPartition(topic, 0)
    topics.fill(topic, 0, 30)
    given = {
        "bootstrapServers": topics.bootstrap,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "failOnDataLoss": "false",
        "lossTable": str(tmp_path / "losses"),
    }
    reader = JosefineStreamReader(source_options(given, streaming=True))
    start = reader.initialOffset()
    topics.client.delete_records({tp: 25})

    read = []
    for _ in range(3):
        end = reader.latestOffset(start, ReadMaxRows(2))
        for partition in reader.partitions(start, end):
            read += [row for batch in reader.read(partition) for row in batch["offset"].to_pylist()]
        start = end

    assert read == [25, 26, 27, 28, 29]
    said = [r.getMessage() for r in caplog.records if "records are lost" in r.getMessage()]
    assert len(said) == 1
    assert f"{topic}-0 offsets [0, 25)" in said[0]
    rows = DeltaTable(str(tmp_path / "losses")).to_pyarrow_table().to_pylist()
    assert [(r["topic"], r["start_offset"], r["end_offset"]) for r in rows] == [(topic, 0, 25)]


@needs_limits
def test_a_stream_starts_from_a_group_limits_bytes_and_commits_to_a_group(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 87."""
    topic = topics.create()
    tp = TopicPartition(topic, 0)
    for first in range(0, 100, 5):
        topics.fill(topic, 0, 5, first=first)
    topics.client.commit_offsets(f"from-{topic}", {tp: 10})

    query = stream.run(
        topic,
        startingOffsets=None,
        startingGroup=f"from-{topic}",
        commitGroup=f"to-{topic}",
        maxBytesPerTrigger="1k",
    )

    assert stream.values == list(range(10, 100))
    assert 1 < max(sizes(query)) < 60
    lags = [read_lag(progress.sources[0].latestOffset) for progress in query.recentProgress]
    assert lags[0] is not None
    assert 0 < lags[0]["bytesBehindLatest"] < 20_000
    assert lags[0]["secondsBehindLatest"] > 0
    assert lags[0]["maxOffsetsBehindLatest"] == 90 - sizes(query)[0]
    assert topics.client.committed_offsets(f"to-{topic}", [tp]) == {tp: 100}


@needs_limits
def test_lag_is_published_while_a_query_runs(
    spark: SparkSession, topics: Topics, stream: Stream, tmp_path: Path
) -> None:
    file = tmp_path / "lag.prom"
    topic = topics.create()
    topics.fill(topic, 0, 3)
    listener = LagListener(file)
    spark.streams.addListener(listener)
    try:
        query = stream.start(topic)
        line = f'josefine_source_offsets_behind{{query="{query.id}",source="0"}} 0'
        wait_until(lambda: file.exists() and line in file.read_text(), TIMEOUT_S, "the lag")
        query.stop()
        wait_until(lambda: line not in file.read_text(), TIMEOUT_S, "the end of the query")
    finally:
        spark.streams.removeListener(listener)


@needs_limits
def test_a_trigger_that_runs_once_lifts_the_limits(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)

    query = stream.start(topic, once=True, maxOffsetsPerTrigger=3, maxBytesPerTrigger="1")
    query.awaitTermination()

    assert stream.values == list(range(10))
    assert sizes(query) == [10]


def test_relative_starts(topics: Topics) -> None:
    topic = topics.create()
    now_ms = time.time_ns() // 1_000_000
    ages_s = (7200, 3600, 60, 30)
    records = [Record(b"k", b"%d" % n, (), now_ms - s * 1000) for n, s in enumerate(ages_s)]
    topics.append(topic, 0, records)

    def start_of(text: str) -> int:
        given = {"bootstrapServers": topics.bootstrap, "subscribe": topic, "startingOffsets": text}
        reader = JosefineStreamReader(source_options(given, streaming=True))
        first = reader.initialOffset()
        assert reader.initialOffset() == first
        return int(first["offsets"][topic]["0"])

    assert start_of("10m ago") == 2
    assert start_of("90 min ago") == 1
    assert start_of("1s ago") == 4
    assert start_of("last 3") == 1
    assert start_of("last 99 records") == 0


def test_retention_past_the_checkpoint_stops_the_query_with_the_range(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 90."""
    topic = lose(topics, stream)

    with pytest.raises(Exception, match=rf"{topic}-0 offsets \[10, 25\): the log starts after"):
        stream.run(topic)

    assert stream.values == list(range(10))


def test_retention_past_the_checkpoint_is_skipped_when_asked_for(
    topics: Topics, stream: Stream
) -> None:
    """Checklist row 90."""
    topic = lose(topics, stream)

    stream.run(topic, failOnDataLoss="false")

    assert stream.values == [*range(10), *range(25, 30)]


def recreate(topics: Topics, stream: Stream) -> str:
    """A topic that was read, deleted, and created again with other records, more than before."""
    topic = topics.create()
    topics.fill(topic, 0, 5)
    stream.run(topic)
    topics.delete(topic)
    topics.create(name=topic)
    topics.fill(topic, 0, 20, first=100)
    return topic


def test_a_topic_created_again_is_not_taken_for_the_old_one(topics: Topics, stream: Stream) -> None:
    """Checklist row 90."""
    topic = recreate(topics, stream)

    with pytest.raises(Exception, match="the topic was deleted and created again"):
        stream.run(topic)

    assert stream.values == list(range(5))


def test_a_topic_created_again_is_read_from_its_beginning_when_asked_for(
    topics: Topics, stream: Stream
) -> None:
    topic = recreate(topics, stream)

    stream.run(topic, failOnDataLoss="false")

    assert stream.values == [*range(5), *range(100, 120)]


def test_a_deleted_topic_stops_the_query(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 5)
    stream.run(topic)
    topics.delete(topic)

    with pytest.raises(Exception, match="the partition does not exist any more"):
        stream.run(topic)


def test_a_broker_restart_in_mid_query_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "own") as broker, BlockingClient(broker.bootstrap) as client:
        topics = Topics(client, broker.bootstrap)
        topic = topics.create()
        stream = Stream(spark, broker.bootstrap, tmp_path / "checkpoint")
        topics.fill(topic, 0, 10)
        query: Any = stream.start(topic)
        try:
            query.processAllAvailable()
            broker.kill()
            broker.start()
            topics.fill(topic, 0, 10, first=10)
            wait_until(lambda: len(stream.values) == 20 or query.exception(), TIMEOUT_S, "all rows")
            assert query.exception() is None
        finally:
            query.stop()

    assert stream.values == list(range(20))


def test_each_call_gives_a_fresh_answer(topics: Topics, stream: Stream) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 1)
    query = stream.start(topic)
    try:
        query.processAllAvailable()
        for number in range(1, 4):
            topics.fill(topic, 0, 1, first=number)
            query.processAllAvailable()
            assert stream.values == list(range(number + 1))
    finally:
        query.stop()


def test_an_idle_query_does_not_hammer_the_broker(topics: Topics) -> None:
    topic = topics.create()
    given = {"bootstrapServers": topics.bootstrap, "subscribe": topic}
    reader = JosefineStreamReader(source_options(given, streaming=True))
    start = reader.initialOffset()
    begun = time.monotonic()

    for _ in range(3):
        assert reader.latestOffset(start, ReadAllAvailable()) == start

    assert time.monotonic() - begun >= 2 * IDLE_POLL_S
