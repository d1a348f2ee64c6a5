"""What `fromTimestamp` and `keys` leave out of a read: offsets go on as if they took it all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import DataLossError
from josefine_spark.read.lag import read_lag
from josefine_spark.source import JosefineDataSource
from tests.spark.connector.conftest import Stream, Topics, needs_limits
from tests.spark.connector.test_stream_read import sizes, stored_offset

TIMEOUT_S = 180


def source(topics: Topics, topic: str, **options: str) -> JosefineDataSource:
    given = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, **options}
    return JosefineDataSource(given)


def values(reader: Any, partitions: Any) -> list[int]:
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]


@pytest.mark.parametrize(
    ("options", "taken"),
    [
        ({"fromTimestamp": "7000"}, [7, 8, 9]),
        ({"fromTimestamp": "1970-01-01T00:00:09Z"}, [9]),
        ({"fromTimestamp": "2026-01-01"}, []),
        ({"keys": '["k3","k11","k8"]'}, [3, 8]),
        ({"keys": '["k3","k8"]', "fromTimestamp": "4000"}, [8]),
    ],
)
def test_a_batch_read_gives_the_rows_that_are_asked_for(
    topics: Topics, options: dict[str, str], taken: list[int]
) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 5)
    topics.fill(topic, 0, 5, first=5)

    given = source(topics, topic, **options)
    reader = given.reader(given.schema())

    assert values(reader, reader.partitions()) == taken


def test_what_is_lost_is_lost_whatever_a_filter_would_take_of_it(topics: Topics) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 10)
    given = source(topics, topic, keys='["k9"]', startingOffsets="earliest")
    reader: Any = given.streamReader(given.schema())
    start = reader.initialOffset()
    topics.client.delete_records({TopicPartition(topic, 0): 4})

    with pytest.raises(DataLossError, match=r"\[0, 4\)"):
        reader.latestOffset(start)


@pytest.mark.spark
@pytest.mark.timeout(TIMEOUT_S)
@needs_limits
def test_a_streams_batches_end_where_they_would_without_a_filter(
    topics: Topics, stream: Stream
) -> None:
    topic = topics.create()
    topics.fill(topic, 0, 20)
    given = {"keys": json.dumps(["k3", "k15", "k19"]), "fromTimestamp": "15000"}

    query = stream.run(topic, maxOffsetsPerTrigger=10, **given)

    assert stream.values == [15, 19]
    assert sizes(query) == [2]
    ends = [
        stored_offset(stream.checkpoint, batch).ends[TopicPartition(topic, 0)] for batch in (0, 1)
    ]
    assert ends == [10, 20]
    lag = read_lag(query.lastProgress.sources[0].latestOffset)
    assert lag is not None
    assert lag["offsetsBehindLatest"] == 0
