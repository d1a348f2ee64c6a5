"""Where partitions go."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.controller.placement import check_assignment, place, place_of

racked = st.dictionaries(st.integers(0, 50), st.sampled_from("abcd"), min_size=1, max_size=9)
clusters = st.sets(st.integers(0, 50), min_size=1, max_size=9)


def rackless(ids: set[int]) -> dict[int, str | None]:
    return dict.fromkeys(ids)


@given(clusters, st.integers(1, 40), st.data())
def test_leaders_and_replicas_are_spread_evenly(
    brokers: set[int], partitions: int, data: st.DataObject
) -> None:
    """Checklist rows 20 and 37."""
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 2**16))

    replicas = place(rackless(brokers), partitions, factor, start=start)

    assert len(replicas) == partitions
    assert all(len(set(ids)) == factor and set(ids) <= brokers for ids in replicas)
    leaders = Counter(ids[0] for ids in replicas)
    assert max(leaders.values()) - min(leaders[b] for b in brokers) <= 1


@given(clusters, st.integers(1, 10), st.integers(1, 10), st.integers(0, 99))
def test_partitions_added_later_are_placed_as_if_made_at_once(
    ids: set[int], first: int, more: int, start: int
) -> None:
    brokers = rackless(ids)
    factor = min(2, len(brokers))

    at_once = place(brokers, first + more, factor, start=start)

    added = place(brokers, more, factor, start=start, first_partition=first)
    assert place(brokers, first, factor, start=start) + added == at_once


def test_followers_of_one_leader_differ_from_round_to_round() -> None:
    replicas = place(rackless({1, 2, 3}), 6, 2)

    assert replicas[0][0] == replicas[3][0]
    assert replicas[0][1] != replicas[3][1]


@given(racked, st.integers(1, 40), st.data())
def test_replicas_of_a_partition_are_spread_over_racks(
    brokers: dict[int, str | None], partitions: int, data: st.DataObject
) -> None:
    """KIP-36: no rack has a second replica while another could have its first, and so on."""
    factor = data.draw(st.integers(1, len(brokers)))
    start = data.draw(st.integers(0, 2**16))

    replicas = place(brokers, partitions, factor, start=start)

    sizes = Counter(brokers.values())
    for ids in replicas:
        assert len(set(ids)) == factor
        used = Counter(brokers[each] for each in ids)
        room = [used[rack] for rack, size in sizes.items() if used[rack] < size]
        assert not room or max(used.values()) <= min(room) + 1
    leaders = Counter(ids[0] for ids in replicas)
    assert max(leaders.values()) - min(leaders[b] for b in brokers) <= 1


def test_neighbouring_leaders_are_of_different_racks() -> None:
    brokers: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b"}

    leaders = [ids[0] for ids in place(brokers, 8, 1)]

    assert leaders == [1, 3, 2, 4, 1, 3, 2, 4]


def test_racks_do_not_count_unless_every_broker_names_one() -> None:
    some: dict[int, str | None] = {1: "a", 2: "a", 3: None}

    assert place(some, 6, 2) == place(rackless({1, 2, 3}), 6, 2)


def test_followers_over_racks_share_the_load() -> None:
    brokers: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}

    held = Counter(each for ids in place(brokers, 60, 3) for each in ids)

    assert max(held.values()) - min(held.values()) <= 6


def test_round_goes_on_where_the_first_leader_was_even_if_it_is_gone() -> None:
    brokers = rackless({1, 3, 5})

    assert [place_of(brokers, leader) for leader in (1, 2, 3, 5, 6)] == [0, 1, 1, 2, 0]
    assert place_of({}, 1) == 0


@pytest.mark.parametrize("factor", [0, -1, 4])
def test_more_replicas_than_brokers_is_refused(factor: int) -> None:
    """Checklist row 20."""
    with pytest.raises(KafkaError) as raised:
        place(rackless({1, 2, 3}), 1, factor)

    assert raised.value.code is ErrorCode.invalid_replication_factor
    assert raised.value.message == (
        f"replication factor {factor} is not possible: 3 brokers are registered"
    )


@given(racked, racked, st.integers(1, 40), st.data())
def test_brokers_that_are_away_are_behind_the_live_ones_and_only_where_those_are_too_few(
    live: dict[int, str | None], others: dict[int, str | None], partitions: int, data: st.DataObject
) -> None:
    away = {each: rack for each, rack in others.items() if each not in live}
    factor = data.draw(st.integers(1, len(live) + len(away)))
    start = data.draw(st.integers(0, 2**16))

    replicas = place(live, partitions, factor, start=start, away=away)

    of_live = min(factor, len(live))
    for ids in replicas:
        assert len(set(ids)) == factor
        assert set(ids[:of_live]) <= live.keys()
        assert set(ids[of_live:]) <= away.keys()
    if away and factor > len(live) and len(set(away.values())) == 1:
        held = Counter(each for ids in replicas for each in ids if each in away)
        assert max(held.values()) - min(held[each] for each in away) <= factor - len(live)


def test_replicas_that_are_away_go_to_other_racks_than_the_live_ones() -> None:
    """KIP-36."""
    live: dict[int, str | None] = {1: "a", 2: "b"}
    away: dict[int, str | None] = {3: "a", 4: "b", 5: "c"}

    assert [ids[2] for ids in place(live, 6, 3, away=away)] == [5] * 6


def test_nothing_is_placed_where_nobody_is_live() -> None:
    with pytest.raises(KafkaError, match="no broker is live"):
        place({}, 1, 1, away=rackless({1, 2}))


@pytest.mark.parametrize("count", [0, -1, 10_001])
def test_partition_count_has_bounds(count: int) -> None:
    with pytest.raises(KafkaError) as raised:
        place({1: None}, count, 1)

    assert raised.value.code is ErrorCode.invalid_partitions


def test_manual_assignment_is_taken_in_the_order_of_partitions() -> None:
    """Checklist row 20."""
    assert check_assignment([1, 2], [2], {1: (2, 1), 0: (1, 2)}) == ((1, 2), (2, 1))


@pytest.mark.parametrize(
    "assignment",
    [
        {0: (1,), 2: (1,)},
        {1: (1,)},
        {0: ()},
        {0: (1, 1)},
        {0: (9,)},
        {0: (1,), 1: (1, 2)},
        {0: (3,)},
    ],
    ids=["gap", "not from 0", "empty", "repeated", "unknown", "uneven", "nobody live"],
)
def test_wrong_manual_assignment_is_refused(assignment: dict[int, tuple[int, ...]]) -> None:
    with pytest.raises(KafkaError) as raised:
        check_assignment([1, 2, 3], [1, 2], assignment)

    assert raised.value.code is ErrorCode.invalid_replica_assignment
