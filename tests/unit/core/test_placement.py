"""Where partitions go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.placement import check_assignment, place

clusters = st.sets(st.integers(0, 50), min_size=1, max_size=9)


@given(clusters, st.integers(1, 40), st.data())
def test_leaders_and_replicas_are_spread_evenly(
    brokers: set[int], partitions: int, data: st.DataObject
) -> None:
    """Checklist rows 20 and 37."""
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 2**16))

    replicas = place(brokers, partitions, factor, start=start)

    assert len(replicas) == partitions
    assert all(len(set(ids)) == factor and set(ids) <= brokers for ids in replicas)
    leaders = Counter(ids[0] for ids in replicas)
    assert max(leaders.values()) - min(leaders[b] for b in brokers) <= 1


@given(clusters, st.integers(1, 10), st.integers(1, 10), st.integers(0, 99))
def test_partitions_added_later_are_placed_as_if_made_at_once(
    brokers: set[int], first: int, more: int, start: int
) -> None:
    factor = min(2, len(brokers))

    at_once = place(brokers, first + more, factor, start=start)

    added = place(brokers, more, factor, start=start, first_partition=first)
    assert place(brokers, first, factor, start=start) + added == at_once


def test_followers_of_one_leader_differ_from_round_to_round() -> None:
    replicas = place([1, 2, 3], 6, 2)

    assert replicas[0][0] == replicas[3][0]
    assert replicas[0][1] != replicas[3][1]


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_more_replicas_than_brokers_is_refused(factor: int) -> None:
    """Checklist row 20."""
    with pytest.raises(KafkaError) as raised:
        place([1, 2, 3], 1, factor)

    assert raised.value.code is ErrorCode.invalid_replication_factor


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_partition_count_has_bounds(count: int) -> None:
    with pytest.raises(KafkaError) as raised:
        place([1], count, 1)

    assert raised.value.code is ErrorCode.invalid_partitions


def test_manual_assignment_is_taken_in_the_order_of_partitions() -> None:
    """Checklist row 20."""
    assert check_assignment([1, 2], {1: (2, 1), 0: (1, 2)}) == ((1, 2), (2, 1))


@pytest.mark.parametrize(
    "assignment",
    [
        {0: (1,), 2: (1,)},
        {1: (1,)},
        {0: ()},
        {0: (1, 1)},
        {0: (9,)},
        {0: (1,), 1: (1, 2)},
    ],
    ids=["gap", "not from 0", "empty", "repeated", "unknown", "uneven"],
)
def test_wrong_manual_assignment_is_refused(assignment: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(KafkaError) as raised:
        check_assignment([1, 2], assignment)

    assert raised.value.code is ErrorCode.invalid_replica_assignment
