"""Start offsets by the options of a query, resolved with the brokers."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import OptionError
from josefine_spark.read.source_options import source_options
from josefine_spark.read.start_offsets import ranges, starts
from tests.unit.josefine_spark.read.test_discovery import Client, topic

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
NOW_MS = 1_000_000


class Brokers(Client):
    """Topic a: partition 0 has offsets 3 to 9, partition 1 has 0 to 5; a record at each second."""

    def __init__(self, committed=None):
        super().__init__(a=topic(2))
        self.committed, self.times = committed or {}, []

    def list_offsets(self, wanted, *, isolation_level):
        bounds = {A0: (3, 9), A1: (0, 5)}
        found = {}
        for tp, at in wanted.items():
            if at >= 0:
                self.times.append(at)
            by_time = at // 1000 if at // 1000 < bounds[tp][1] else -1
            found[tp] = {-2: bounds[tp][0], -1: bounds[tp][1]}.get(at, by_time)
        return {tp: SimpleNamespace(offset=offset) for tp, offset in found.items()}

    def committed_offsets(self, group, partitions):
        return self.committed


def options(streaming=True, **given):
    return source_options(
        {"bootstrapServers": "b:1", "subscribe": "a", **given}, streaming=streaming
    )


@pytest.mark.parametrize(
    ("position", "offsets"),
    [("earliest", {A0: 3, A1: 0}), ("latest", {A0: 9, A1: 5}), ("last 4", {A0: 5, A1: 1})],
)
def test_a_query_starts_where_its_option_says(position, offsets):
    found, start = starts(Brokers(), options(startingOffsets=position), NOW_MS)

    assert found.partitions == (A0, A1)
    assert start == offsets


def test_a_duration_is_before_the_given_clock():
    brokers = Brokers()

    starts(brokers, options(startingOffsets="998000ms ago"), NOW_MS)

    assert brokers.times == [2_000, 2_000]


def test_a_groups_offsets_are_taken_and_the_rest_from_the_other_option():
    given = options(startingGroup="g", startingOffsets="latest")

    _, start = starts(Brokers({A0: 7}), given, NOW_MS)

    assert start == {A0: 7, A1: 5}


def test_offsets_of_a_topic_that_was_created_again_are_refused():
    text = {"offsets": {"a": {"0": 4, "1": 0}}, "topic_ids": {"a": "other"}, "v": 1}
    given = options(startingOffsets=json.dumps(text))

    with pytest.raises(OptionError, match="topic a was deleted and created again"):
        starts(Brokers(), given, NOW_MS)


def test_a_batch_read_ends_where_its_option_says_and_not_before_its_start():
    given = options(streaming=False, startingOffsets="earliest", endingOffsets="latest")
    _, start, end = ranges(Brokers(), given, NOW_MS)
    assert (start, end) == ({A0: 3, A1: 0}, {A0: 9, A1: 5})

    wrong = options(
        streaming=False, startingOffsets=json.dumps({"a": {"0": 5, "1": 1}}),
        endingOffsets=json.dumps({"a": {"0": 4, "1": 2}}),
    )  # fmt: skip
    with pytest.raises(OptionError, match="a-0"):
        ranges(Brokers(), wrong, NOW_MS)
