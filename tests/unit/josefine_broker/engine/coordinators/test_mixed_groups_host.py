"""A group that becomes one of the consumer protocol while its classic members stay, through the
whole broker (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import decode_assignment, encode_assignment
from josefine_broker.compose.settings import group_settings
from josefine_broker.config.broker_config import BrokerConfig
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api import group_clients as classic
from tests.unit.josefine_broker.api.consumer_clients import beat, commit, described, parts
from tests.unit.josefine_broker.api.group_clients import committed, group_world, newcomer, said
from tests.unit.josefine_broker.api.test_group_loading import lead_anew
from tests.unit.josefine_broker.api.world import World

NONE = ErrorCode.none
CALLED = ErrorCode.rebalance_in_progress
REFUSED = ErrorCode.inconsistent_group_protocol
ALL = encode_assignment(TopicPartition("orders", index) for index in range(3))
SESSION_MS = 9_000
AGAIN = ErrorCode.coordinator_load_in_progress


world = fixture_of(lambda: group_world(upgrades_classic=True))


def leader(world: World, assignment: bytes = ALL) -> Any:
    """A classic member that has all; the answer to its join."""
    joined = said(newcomer(world))
    assert said(classic.sync(world, joined, {joined.member_id: assignment})).error_code is NONE
    return joined


def has(world: World, joined: Any) -> list[int]:
    """What a classic member that joined is given."""
    answer = said(classic.sync(world, joined))
    assert answer.error_code is NONE
    return sorted(tp.partition for tp in decode_assignment(answer.assignment))


def again(world: World, joined: Any) -> Any:
    answer = said(classic.join(world, joined.member_id))
    assert (answer.error_code, answer.leader, answer.members) == (NONE, "", ())
    return answer


def test_a_group_goes_on_while_its_members_change_their_protocol_one_by_one(world: World) -> None:
    old = leader(world)
    assert classic.commit(world, 5, old) is NONE

    assert parts(beat(world, "new")) == [], "the other has all of it"

    assert committed(world) == {"orders": 5}
    assert classic.beat(world, old) is CALLED
    assert classic.commit(world, 6, old) is NONE, "it may still commit what it read"
    assert classic.commit(world, 7, old, generation_id_or_member_epoch=9) is not NONE
    old = again(world, old)
    assert has(world, old) == [0, 1]
    assert parts(beat(world, "new", 2)) == [2]
    group = described(world)
    assert (group.group_state, group.group_epoch) == ("Stable", 2)
    assert {each.member_id: each.member_type for each in group.members} == {
        old.member_id: 0,
        "new": 1,
    }
    assert classic.beat(world, old) is NONE

    assert classic.leave(world, (old.member_id, None)).members[0].error_code is NONE

    assert parts(beat(world, "new", 2)) == [0, 1, 2]


def test_a_classic_member_of_a_group_of_both_commits_in_old_versions(world: World) -> None:
    old = leader(world)
    beat(world, "new")

    assert commit(world, 6, old.member_id, old.generation_id, version=8) is NONE
    assert commit(world, 7, "new", 2, version=8) is ErrorCode.unsupported_version


def test_a_classic_member_comes_to_a_group_of_both(world: World) -> None:
    leader(world)
    beat(world, "new")

    told = said(classic.join(world))
    assert told.error_code is ErrorCode.member_id_required
    joined = again(world, told)

    assert (joined.generation_id, joined.protocol_name) == (3, "range")
    assert has(world, joined) == []


def test_a_member_id_told_to_a_newcomer_is_not_new_once_a_member_has_it(world: World) -> None:
    beat(world, "new")
    member_id = said(classic.join(world)).member_id
    beat(world, "new", -1)
    assert parts(beat(world, member_id)) == [0, 1, 2], "it came by the consumer protocol"

    answer = said(classic.join(world, member_id))

    assert answer.error_code is ErrorCode.unknown_member_id
    assert parts(beat(world, "other")) == [], "the member still has everything"


def test_members_that_are_left_alone_are_served_on(world: World) -> None:
    old = leader(world)
    beat(world, "new")

    beat(world, "new", -1)

    assert classic.beat(world, old) is CALLED
    assert has(world, again(world, old)) == [0, 1, 2]


def test_a_group_that_rebalances_is_joined_when_that_is_over(world: World) -> None:
    old = leader(world)
    waiting = newcomer(world)

    assert beat(world, "new").error_code is AGAIN
    world.advance(1)
    assert beat(world, "new").error_code is AGAIN

    old = said(classic.join(world, old.member_id))
    other = said(waiting)
    given = {old.member_id: ALL}
    asked = classic.sync(world, other)
    assert said(classic.sync(world, old, given)).error_code is NONE
    assert said(asked).error_code is NONE
    assert beat(world, "new").error_code is NONE


@pytest.mark.parametrize("assignment", [b"all", b"\x00\x00"])
def test_what_is_no_assignment_of_consumers_stays_classic(world: World, assignment: bytes) -> None:
    old = leader(world, assignment)

    answer = beat(world, "new")

    assert answer.error_code is REFUSED
    assert "cannot be parsed" in answer.error_message
    assert classic.beat(world, old) is NONE


def test_groups_of_others_than_consumers_stay_classic(world: World) -> None:
    joined = said(newcomer(world, protocol_type="connect"))
    classic.sync(world, joined, {joined.member_id: ALL})

    assert beat(world, "new").error_code is REFUSED


def test_where_it_is_not_allowed_each_protocol_refuses_the_other() -> None:
    world = group_world()
    old = leader(world)

    assert beat(world, "new").error_code is REFUSED
    assert classic.beat(world, old) is NONE
    beat(world, "new", 0, group="other")
    assert said(classic.join(world, group="other")).error_code is REFUSED


@pytest.fixture
def both_ways() -> World:
    return group_world(
        upgrades_classic=True, downgrades_consumer=True, consumer_session_timeout_ms=SESSION_MS
    )


def moved_back(world: World, *, is_lost: bool = False) -> Any:
    """The answer to the last join of a classic member whose group had another for a while."""
    old = leader(world)
    beat(world, "new")
    old = again(world, old)
    has(world, old)
    if is_lost:
        world.advance(SESSION_MS - 1)
        assert classic.beat(world, old) is NONE
        world.advance(1)
    else:
        assert beat(world, "new", -1).error_code is NONE
    return old


@pytest.mark.parametrize("is_lost", [False, True])
def test_members_that_are_left_alone_are_a_classic_group_again(
    both_ways: World, is_lost: bool
) -> None:
    world = both_ways
    old = moved_back(world, is_lost=is_lost)

    assert classic.beat(world, old) is CALLED
    assert classic.commit(world, 8, old) is NONE, "it goes on where it was"
    joined = said(classic.join(world, old.member_id))

    assert (joined.generation_id, joined.leader) == (old.generation_id + 1, old.member_id)
    assert said(classic.sync(world, joined, {old.member_id: ALL})).assignment == ALL
    assert classic.described(world).group_state == "Stable"
    assert beat(world, "new").error_code is NONE, "and back"


def test_another_coordinator_misses_who_left_such_a_group(both_ways: World) -> None:
    world = both_ways
    old = moved_back(world)

    lead_anew(world)
    world.advance(1)
    assert classic.beat(world, old) is NONE
    world.advance(SESSION_MS - 2)
    assert classic.beat(world, old) is NONE
    world.advance(2)

    assert classic.beat(world, old) is CALLED


def test_another_coordinator_serves_both(world: World) -> None:
    old = leader(world)
    beat(world, "new")
    old = again(world, old)
    has(world, old)

    lead_anew(world)

    assert classic.beat(world, old) is NONE
    assert has(world, old) == [0, 1]
    assert parts(beat(world, "new", 2)) == [2]


def test_the_way_back_alone_is_open_where_the_policy_is_downgrade() -> None:
    world = group_world(downgrades_consumer=True)
    other = leader(world)
    assert beat(world, "new").error_code is REFUSED, "a classic group stays one"
    assert classic.beat(world, other) is NONE
    classic.leave(world, (other.member_id, None))

    beat(world, "new")
    old = again(world, said(classic.join(world)))
    assert beat(world, "new", -1).error_code is NONE

    assert classic.beat(world, old) is CALLED
    assert classic.described(world).group_state == "PreparingRebalance"
    joined = said(classic.join(world, old.member_id))
    assert (joined.error_code, joined.leader) == (NONE, old.member_id)


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [
        ("disabled", False, False),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("bidirectional", True, True),
    ],
)
def test_policies_are_those_of_kafka(policy: str, upgrades: bool, downgrades: bool) -> None:
    config = BrokerConfig.model_validate({"group": {"consumer_migration_policy": policy}})

    settings = group_settings(config)

    assert (settings.upgrades_classic, settings.downgrades_consumer) == (upgrades, downgrades)
    assert settings.admits_classic is (policy != "disabled")
