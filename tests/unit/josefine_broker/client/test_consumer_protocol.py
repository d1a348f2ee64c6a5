"""What consumers say to each other: Kafka's bytes, and assignors that give each partition once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import (
    ASSIGNORS,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
PARTITIONS = st.sets(st.builds(TopicPartition, NAMES, st.integers(0, 2**31 - 1)), max_size=9)
MEMBERS = st.dictionaries(
    st.sampled_from(["m1", "m2", "m3", "m4"]), st.sets(st.sampled_from("abc")), min_size=1
)
COUNTS = st.fixed_dictionaries({"a": st.integers(0, 7), "b": st.integers(0, 3)})
"""Of topic c nothing is known."""


@given(st.sets(NAMES, max_size=5))
def test_subscription_comes_back(topics: set[str]) -> None:
    assert decode_subscription(encode_subscription(topics)) == tuple(sorted(topics))


@given(PARTITIONS)
def test_assignment_comes_back(partitions: set[TopicPartition]) -> None:
    assert set(decode_assignment(encode_assignment(partitions))) == partitions


def test_bytes_are_those_of_kafkas_clients() -> None:
    """By hand from ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json."""
    subscription = bytes.fromhex("0000 00000002 0001 61 0001 62 ffffffff")
    assignment = bytes.fromhex("0000 00000001 0001 61 00000002 00000000 00000005 ffffffff")
    later = bytes.fromhex("0003 00000001 0001 61 ffffffff 00000000 ffffffff ffff")

    assert encode_subscription(["b", "a"]) == subscription
    assert encode_assignment([TopicPartition("a", 5), TopicPartition("a", 0)]) == assignment
    assert decode_subscription(later) == ("a",)
    assert decode_assignment(b"") == ()


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_corrupt(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment):
        try:
            decode(data)
        except CorruptData:
            continue


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wanted=MEMBERS, counts=COUNTS)
def test_each_partition_goes_to_one_member_that_wants_it(
    name: str, wanted: dict[str, set[str]], counts: dict[str, int]
) -> None:
    given_to = ASSIGNORS[name](wanted, counts)

    read = {topic for topics in wanted.values() for topic in topics}
    every = [TopicPartition(t, p) for t in sorted(read) for p in range(counts.get(t, 0))]
    assert sorted(tp for tps in given_to.values() for tp in tps) == every
    assert all(tp.topic in wanted[member] for member, tps in given_to.items() for tp in tps)
    assert given_to.keys() == wanted.keys()


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("range", "x0 x1 y0 y1", "x2 y2"), ("roundrobin", "x0 x2 y1", "x1 y0 y2")],
)
def test_another_leader_in_the_group_would_assign_the_same(
    name: str, first: str, second: str
) -> None:
    """The examples of Kafka's RangeAssignor and RoundRobinAssignor."""
    given_to = ASSIGNORS[name]({"b": ["x", "y"], "a": ["y", "x"]}, {"y": 3, "x": 3})

    assert {m: [f"{t}{p}" for t, p in tps] for m, tps in given_to.items()} == {
        "a": first.split(),
        "b": second.split(),
    }
