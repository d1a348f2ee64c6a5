"""What an idle query asks of the brokers and how soon it sees what comes, by the test's clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST
from josefine_spark.read import stream_reader
from josefine_spark.read.source_options import source_options
from josefine_spark.read.stream_reader import JosefineStreamReader

POLLING_DELAY_S = 0.01
"""Spark's, between two looks of a query with nothing to read."""
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Clock:
    """Stands for the module `time`: only who sleeps moves it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return round(self.now_s * 1e9)

    time_ns = monotonic_ns

    def pass_by(self, seconds: float) -> None:
        self.now_s += seconds

    sleep = pass_by


class Brokers:
    """One broker with the topic t; it counts what it is asked."""

    def __init__(self) -> None:
        self.topic_id = UUID(int=1)
        self.ends = {T0: 5}
        self.requests: list[str] = []
        self.before_metadata: Callable[[], None] = lambda: None

    def metadata(self, topics: Sequence[str] | None) -> Any:
        self.requests.append("metadata")
        self.before_metadata()
        partitions = dict.fromkeys(tp.partition for tp in self.ends)
        topic = SimpleNamespace(
            partitions=partitions, topic_id=self.topic_id if self.ends else None, is_internal=False
        )
        return SimpleNamespace(topics={"t": topic})

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], *, isolation_level: int
    ) -> dict[TopicPartition, Any]:
        self.requests.append("list_offsets")
        if set(wanted) - set(self.ends):
            raise KafkaError(ErrorCode.unknown_topic_or_partition, "topic 't' does not exist")
        return {
            tp: SimpleNamespace(offset=0 if at == EARLIEST else self.ends[tp])
            for tp, at in wanted.items()
        }


class Query:
    """A stream at the end of t, driven as Spark does."""

    def __init__(self, clock: Clock, brokers: Brokers, **options: str) -> None:
        given = {"bootstrapServers": "b:1", "subscribe": "t", **options}
        self.reader = JosefineStreamReader(source_options(given, streaming=True))
        self.clock = clock
        self.at = self.reader.initialOffset()
        self.seconds(1.0)
        brokers.requests.clear()

    def look(self) -> bool:
        """One round of Spark's loop; whether there was something to read."""
        end = self.reader.latestOffset(self.at, object())
        moved, self.at = end != self.at, end
        self.clock.pass_by(POLLING_DELAY_S)
        return moved

    def seconds(self, seconds: float) -> None:
        until_s = self.clock.now_s + seconds
        while self.clock.now_s < until_s:
            self.look()

    def until_it_moves(self) -> float:
        """Seconds."""
        begun_s = self.clock.now_s
        while not self.look():
            assert self.clock.now_s < begun_s + 10
        return self.clock.now_s - begun_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stream_reader, "time", clock)
    return clock


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()
    monkeypatch.setattr(JosefineStreamReader, "_client", lambda _: brokers)
    return brokers


def moments(count: int) -> list[float]:
    """Spread over the time between two looks at the metadata."""
    return [1.3 * n / count for n in range(count)]


def test_an_idle_query_sends_at_most_ten_requests_a_second(clock: Clock, brokers: Brokers) -> None:
    query = Query(clock, brokers)

    query.seconds(10)

    assert len(brokers.requests) <= 100
    assert brokers.requests.count("metadata") <= 10


@pytest.mark.parametrize("wait_s", moments(12))
def test_a_record_is_seen_within_a_quarter_of_a_second(
    clock: Clock, brokers: Brokers, wait_s: float
) -> None:
    query = Query(clock, brokers)
    query.seconds(wait_s)

    brokers.ends[T0] += 1

    assert query.until_it_moves() <= 0.25
    assert query.at["offsets"] == {"t": {"0": 6}}


@pytest.mark.parametrize("wait_s", moments(5))
def test_a_partition_that_is_new_is_seen_within_two_seconds(
    clock: Clock, brokers: Brokers, wait_s: float
) -> None:
    query = Query(clock, brokers)
    query.seconds(wait_s)

    brokers.ends[T1] = 3

    assert query.until_it_moves() <= 2
    assert query.at["offsets"] == {"t": {"0": 5, "1": 3}}
    assert query.at["first"]["t"]["1"] == 0


@pytest.mark.parametrize("end", [5, 9])
@pytest.mark.parametrize("wait_s", moments(5))
def test_a_topic_that_is_made_again_is_never_taken_for_the_old_one(
    clock: Clock, brokers: Brokers, wait_s: float, end: int
) -> None:
    """With other ends the ids are asked for before a batch is planned; with the same soon."""
    query = Query(clock, brokers)
    query.seconds(wait_s)

    brokers.topic_id, brokers.ends = UUID(int=2), {T0: end}

    with pytest.raises(Exception, match="deleted and created again"):
        query.until_it_moves()


def test_ends_that_were_of_the_topic_before_are_asked_for_again(
    clock: Clock, brokers: Brokers
) -> None:
    """It is made again between the two answers of one look."""
    query = Query(clock, brokers, failOnDataLoss="false")
    brokers.ends[T0] = 9

    def made_again() -> None:
        brokers.topic_id, brokers.ends = UUID(int=2), {T0: 2}

    brokers.before_metadata = made_again
    query.until_it_moves()

    assert query.at["offsets"] == {"t": {"0": 2}}
    assert query.at["topic_ids"] == {"t": str(UUID(int=2))}


def test_a_topic_that_is_gone_is_said_at_the_next_look(clock: Clock, brokers: Brokers) -> None:
    query = Query(clock, brokers)
    query.seconds(0.2)
    brokers.ends = {}

    with pytest.raises(Exception, match="the partition does not exist any more"):
        query.look()


def test_a_batch_is_planned_from_what_is_asked_for_it(clock: Clock, brokers: Brokers) -> None:
    """Behind a delay records wait that were seen before: metadata are asked for afresh."""
    query = Query(clock, brokers, minOffsetsPerTrigger="10", maxTriggerDelay="3s")
    brokers.ends[T0] += 1
    query.look()
    brokers.requests.clear()

    query.until_it_moves()

    assert brokers.requests.count("metadata") == brokers.requests.count("list_offsets") / 2
