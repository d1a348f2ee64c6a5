"""What the coordinator's assignors give: everything once, evenly, and little of it anew."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.groups.consumer.assignors import (
    ASSIGNORS,
    Wish,
    assign_range,
    assign_uniform,
    in_order,
    preferred,
)
from josefine_broker.engine.groups.consumer.values import ConsumerMember, Part, Parts

TOPICS = [UUID(int=at) for at in range(1, 5)]
NAMES = ["a", "b", "c", "d", "e", "f"]


def wish(
    reads: dict[str, list[int]], counts: dict[int, int], before: dict[str, Parts] | None = None
) -> Wish:
    """Topics by their place in TOPICS."""
    return Wish(
        members=sorted(reads),
        reads={name: frozenset(TOPICS[at] for at in each) for name, each in reads.items()},
        counts={TOPICS[at]: count for at, count in counts.items()},
        before=before or {},
    )


@st.composite
def wishes(draw: st.DrawFn) -> Wish:
    counts = draw(st.dictionaries(st.integers(0, 3), st.integers(1, 9)))
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1))
    is_equal = draw(st.booleans())
    places = st.lists(st.sampled_from(sorted(counts)), unique=True) if counts else st.just([])
    same = draw(places)
    reads = {name: same if is_equal else draw(places) for name in names}
    read = {at for each in reads.values() for at in each}
    every = [Part(TOPICS[at], n) for at in range(4) for n in range(9)]
    former = draw(st.lists(st.sampled_from([*NAMES, "gone"]), min_size=36, max_size=36))
    before: dict[str, set[Part]] = {}
    for part, name in zip(every, former, strict=True):
        before.setdefault(name, set()).add(part)
    frozen = {name: frozenset(each) for name, each in before.items()}
    return wish(reads, {at: counts[at] for at in read}, frozen if draw(st.booleans()) else None)


@pytest.mark.parametrize("name", ASSIGNORS)
@given(asked=wishes())
def test_every_partition_goes_to_one_member_that_reads_it(name: str, asked: Wish) -> None:
    given_ = ASSIGNORS[name](asked)

    owned = [part for each in given_.values() for part in each]
    assert sorted(owned) == sorted(
        Part(topic_id, at) for topic_id, count in asked.counts.items() for at in range(count)
    )
    for member_id, parts in given_.items():
        assert {part.topic_id for part in parts} <= asked.reads[member_id]


@given(wishes())
def test_uniform_is_even_as_far_as_subscriptions_allow(asked: Wish) -> None:
    sizes = {name: len(each) for name, each in assign_uniform(asked).items()}

    if len(set(asked.reads.values())) == 1:
        assert max(sizes.values()) - min(sizes.values()) <= 1
    for name, parts in assign_uniform(asked).items():
        for part in parts:
            readers = [each for each in sizes if part.topic_id in asked.reads[each]]
            assert sizes[name] <= min(sizes[each] for each in readers) + 1


@given(wishes())
def test_uniform_asked_again_changes_nothing(asked: Wish) -> None:
    once = assign_uniform(asked)
    again = Wish(members=asked.members, reads=asked.reads, counts=asked.counts, before=once)

    assert assign_uniform(again) == once


def test_uniform_moves_no_more_than_a_newcomer_is_to_have() -> None:
    before = assign_uniform(wish({"a": [0], "b": [0]}, {0: 9}))

    after = assign_uniform(wish({"a": [0], "b": [0], "c": [0]}, {0: 9}, before))

    assert all(after[name] <= before[name] for name in ("a", "b"))
    assert [len(each) for each in after.values()] == [3, 3, 3]


def test_range_gives_runs_that_meet_over_topics() -> None:
    given_ = assign_range(wish({"a": [0, 1], "b": [0, 1]}, {0: 3, 1: 3}))

    assert given_["a"] == frozenset(Part(TOPICS[at], n) for at in (0, 1) for n in (0, 1))
    assert given_["b"] == frozenset(Part(TOPICS[at], 2) for at in (0, 1))


def test_a_new_process_of_a_static_member_has_its_place() -> None:
    first = {
        "x": ConsumerMember(member_id="x", instance_id="one"),
        "b": ConsumerMember(member_id="b"),
    }
    second = {
        "b": ConsumerMember(member_id="b"),
        "c": ConsumerMember(member_id="c", instance_id="one"),
    }

    assert in_order(first) == ["x", "b"]
    assert in_order(second) == ["c", "b"]


def test_of_two_assignors_with_equal_votes_the_first_in_the_table_assigns() -> None:
    def voting(*names: str | None) -> str:
        members = {
            str(at): ConsumerMember(member_id=str(at), assignor=name)
            for at, name in enumerate(names)
        }
        return preferred(members)

    assert voting(None, None) == "uniform"
    assert voting("range", None) == "range"
    assert voting("range", "uniform") == "uniform"
