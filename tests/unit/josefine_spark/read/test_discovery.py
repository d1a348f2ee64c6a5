"""The partitions of a subscription, and their bounds."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST
from josefine_spark.base.errors import OptionError
from josefine_spark.options.options import Subscription
from josefine_spark.read.discovery import all_bounds, discover, latest_offsets
from josefine_spark.read.offsets import Bounds

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def topic(partitions, *, internal=False, topic_id=UUID(int=1)):
    return SimpleNamespace(
        partitions=dict.fromkeys(range(partitions)), is_internal=internal, topic_id=topic_id
    )


class Client:
    """A cluster with topics; its list of offsets is by (isolation, whether the earliest)."""

    def __init__(self, **topics):
        self.topics, self.asked, self.offsets = topics, [], {}

    def metadata(self, names):
        self.asked.append(names)
        missing = {name: topic(0, topic_id=None) for name in names or ()}
        found = self.topics if names is None else {n: self.topics.get(n, missing[n]) for n in names}
        return SimpleNamespace(topics=found)

    def list_offsets(self, wanted, *, isolation_level):
        self.asked.append(isolation_level)
        return {
            tp: SimpleNamespace(offset=self.offsets[tp, isolation_level, at == EARLIEST])
            for tp, at in wanted.items()
        }


CLIENT = {"a": topic(2), "b": topic(1, topic_id=None), "__offsets": topic(3, internal=True)}


@pytest.mark.parametrize(
    ("how", "partitions"),
    [
        ({"topics": ("b", "a")}, (A0, A1, B0)),
        ({"pattern": "[ab]|__.*"}, (A0, A1, B0)),
        ({"pattern": "b"}, (B0,)),
        ({"assigned": (("a", (1,)), ("b", (0,)))}, (A1, B0)),
    ],
)
def test_a_subscription_has_partitions_in_order_and_never_those_of_internal_topics(how, partitions):
    found = discover(Client(**CLIENT), Subscription(**how), must_exist=True)

    assert found.partitions == partitions
    assert found.topic_ids["b"] == ""
    if "a" in found.topic_ids:
        assert found.topic_ids["a"] == str(UUID(int=1))


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"topics": ("a", "x")}, "topic x does not exist"),
        ({"topics": ("x", "y")}, "topic x, y do not exist"),
        ({"assigned": (("a", (0, 5)),)}, "assign: no partition a-5"),
    ],
)
def test_what_is_named_and_missing_is_an_error_at_the_start_and_left_out_later(how, why):
    with pytest.raises(OptionError) as caught:
        discover(Client(**CLIENT), Subscription(**how), must_exist=True)

    assert str(caught.value) == why
    assert discover(Client(**CLIENT), Subscription(**how), must_exist=False).partitions in (
        (A0, A1), (), (A0,),
    )  # fmt: skip


def test_a_pattern_that_fits_nothing_yet_is_no_error():
    found = discover(Client(**CLIENT), Subscription(pattern="x.*"), must_exist=True)

    assert (found.partitions, dict(found.topic_ids)) == ((), {})


def test_starts_are_listed_before_ends_and_a_start_beyond_the_end_is_the_end_too():
    """Retention may delete all records between the two requests."""
    client = Client(**CLIENT)
    client.offsets = {(A0, 0, True): 3, (A0, 1, False): 9, (A1, 0, True): 7, (A1, 1, False): 5}

    found = all_bounds(client, (A0, A1), read_committed=True)

    assert found == {A0: Bounds(3, 9), A1: Bounds(7, 7)}
    assert client.asked == [0, 1]


def test_of_no_partitions_nothing_is_asked():
    client = Client()

    assert latest_offsets(client, (), read_committed=False) == {}
    assert client.asked == []
