"""The age of the oldest record that a sink's table lacks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.model.pipeline import Source
from pipelines.sources.lag_age import PARTITIONS_MAX, lag_ms, lag_ms_after
from tests.unit.pipelines.config.test_validate import GOOD

NOW_MS = 100_000
P0, P1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture(scope="module")
def source() -> Source:
    (found,) = validate(load(GOOD, "f.yaml", {})).sources.values()
    return found


class Topic:
    """Records of partitions: the timestamps by offset. `asked`: the positions of the last fetch."""

    def __init__(self, records: dict[TopicPartition, list[int]]) -> None:
        self.records = records
        self.asked: ByPartition = {}

    def first_ms(self, source: Source, positions: ByPartition) -> int | None:
        self.asked = positions
        found = [self.records[tp][at:] for tp, at in positions.items() if tp in self.records]
        return min((times[0] for times in found if times), default=None)


def test_age_is_of_the_oldest_record_after_the_end_of_the_table(source: Source) -> None:
    topic = Topic({P0: [10_000, 40_000], P1: [20_000, 70_000]})
    latest = {P0: 2, P1: 2}

    def age(ends: ByPartition) -> int | None:
        return lag_ms_after([source], ends, latest, topic.first_ms, NOW_MS)

    assert [age({P0: 0, P1: 0}), age({P0: 1, P1: 1}), age({P0: 2, P1: 1})] == [
        90_000,
        60_000,
        30_000,
    ]
    assert age({P0: 2, P1: 2}) == 0


def test_record_that_came_after_the_last_trigger_counts(source: Source) -> None:
    topic = Topic({P0: [10_000, 40_000]})

    assert lag_ms_after([source], {P0: 1}, {P0: 1}, topic.first_ms, NOW_MS) == 60_000


def test_age_is_unknown_where_the_topic_has_more_but_no_record_is_found(source: Source) -> None:
    assert lag_ms_after([source], {P0: 1}, {P0: 2}, Topic({}).first_ms, NOW_MS) is None


def test_record_of_a_clock_that_is_ahead_has_the_age_0(source: Source) -> None:
    topic = Topic({P0: [NOW_MS + 5_000]})

    found = lag_ms([source], {P0: 0}, is_behind=True, first_ms=topic.first_ms, now_ms=NOW_MS)
    assert found == 0


def test_partitions_with_the_most_lag_are_looked_at_and_no_more_than_the_limit(
    source: Source,
) -> None:
    many = [TopicPartition("orders", number) for number in range(PARTITIONS_MAX + 20)]
    topic = Topic({})
    latest = {tp: tp.partition for tp in many}
    lag_ms_after([source], dict.fromkeys(many, 0), latest, topic.first_ms, NOW_MS)

    assert sorted(topic.asked) == many[20:]


def test_each_source_of_a_join_is_asked_for_its_own_topics_and_the_oldest_counts(
    source: Source,
) -> None:
    other = replace(source, name="users", topics=("users",))
    users = TopicPartition("users", 0)
    asked = {}

    def first_ms(source: Source, positions: ByPartition) -> int | None:
        asked[source.name] = dict(positions)
        return 40_000 if source is other else 70_000

    positions = {P0: 1, users: 2}
    age = lag_ms([source, other], positions, is_behind=True, first_ms=first_ms, now_ms=NOW_MS)
    assert age == 60_000
    assert asked == {source.name: {P0: 1}, "users": {users: 2}}
