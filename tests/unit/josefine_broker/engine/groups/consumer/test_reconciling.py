"""Members of a consumer group on their way to a target: a partition has one owner at most."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.groups.consumer.leaving import leave, static_of, without
from josefine_broker.engine.groups.consumer.reconciling import begun_anew, reconciled
from josefine_broker.engine.groups.consumer.states import (
    GROUP_TRANSITIONS,
    MEMBER_TRANSITIONS,
    ConsumerGroupEvent,
    ConsumerGroupState,
    ConsumerMemberEvent,
    ConsumerMemberState,
    next_group_state,
    next_member_state,
)
from josefine_broker.engine.groups.consumer.values import (
    AWAY_EPOCH,
    NO_PARTS,
    Beat,
    ConsumerGroup,
    ConsumerMember,
    Part,
)

PARTS = [Part(UUID(int=1), number) for number in range(5)]
NAMES = ["m0", "m1", "m2"]
OWNERS = st.lists(st.sampled_from(NAMES), min_size=len(PARTS), max_size=len(PARTS))


def targets(owners: list[str]) -> dict[str, frozenset[Part]]:
    pairs = list(zip(PARTS, owners, strict=True))
    return {name: frozenset(p for p, owner in pairs if owner == name) for name in NAMES}


def group_of(owners: list[str]) -> ConsumerGroup:
    """All own their target of epoch 1."""
    assigned = targets(owners)
    members = {
        name: ConsumerMember(member_id=name, epoch=1, previous_epoch=0, assigned=assigned[name])
        for name in NAMES
    }
    return ConsumerGroup(
        group_id="g", epoch=1, target_epoch=1, members=members, target=assigned,
        state=ConsumerGroupState.STABLE,
    )  # fmt: skip


def held(group: ConsumerGroup) -> list[Part]:
    return [part for each in group.members.values() for part in each.assigned | each.revoking]


@settings(max_examples=60)
@given(
    OWNERS, st.lists(OWNERS, min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["all", "less", "none"])),
             max_size=12),
)  # fmt: skip
def test_no_partition_has_two_owners_and_all_members_reach_their_target(first, later, beats):
    """Members report what they own; one that has not revoked yet reports that, too."""
    group = group_of(first)
    owned = {name: each.assigned for name, each in group.members.items()}

    def beat(name: str, how: str) -> None:
        nonlocal group
        member = group.members[name]
        reports = {"all": owned[name], "less": owned[name] & member.assigned, "none": None}[how]
        if how == "less":
            owned[name] &= member.assigned
        member = reconciled(group, member, reports)
        group = group.with_member(member)
        if member.state is not ConsumerMemberState.UNREVOKED_PARTITIONS:
            owned[name] |= member.assigned
        assert len(held(group)) == len({*held(group)})
        for other in NAMES:
            for another in NAMES:
                assert other == another or owned[other].isdisjoint(owned[another])

    for epoch, owners in enumerate(later, start=2):
        group = replace(group, epoch=epoch, target_epoch=epoch, target=targets(owners))
        for name, how in beats:
            beat(name, how)
    for _ in range(6):
        for name in NAMES:
            beat(name, "less")

    assert {name: each.assigned for name, each in group.members.items()} == dict(group.target)
    assert group.is_converged


def test_a_partition_is_not_given_on_before_its_owner_has_confirmed() -> None:
    group = group_of(["m0"] * 5)
    group = replace(group, epoch=2, target_epoch=2, target=targets(["m1"] * 5))
    m0, m1 = group.members["m0"], group.members["m1"]

    m0 = reconciled(group, m0, m0.assigned)
    group = group.with_member(m0)
    waiting = reconciled(group, m1, NO_PARTS)

    assert (m0.state, m0.epoch) == (ConsumerMemberState.UNREVOKED_PARTITIONS, 1)
    assert (waiting.state, waiting.assigned) == (
        ConsumerMemberState.UNRELEASED_PARTITIONS, NO_PARTS,
    )  # fmt: skip
    group = group.with_member(waiting)
    group = group.with_member(reconciled(group, m0, NO_PARTS))
    assert reconciled(group, waiting, NO_PARTS).assigned == frozenset(PARTS)


def test_a_step_that_changes_nothing_is_the_member_itself() -> None:
    group = group_of(["m0"] * 5)
    member = group.members["m0"]

    assert reconciled(group, member, member.assigned) is member
    assert begun_anew(group, member) is member


def test_a_member_that_joins_again_keeps_holding_what_it_lost_until_its_next_heartbeat() -> None:
    group = group_of(["m0"] * 5)
    group = replace(group, epoch=2, target_epoch=2, target=targets(["m1"] * 5))

    member = begun_anew(group, group.members["m0"])

    assert (member.epoch, member.assigned, member.revoking) == (2, NO_PARTS, frozenset(PARTS))
    assert group.with_member(member).held_by_others("m1") == set(PARTS)


@pytest.mark.parametrize("state", ConsumerGroupState)
@pytest.mark.parametrize("event", ConsumerGroupEvent)
def test_a_groups_transition_that_the_table_lacks_is_fatal(state, event) -> None:
    if (state, event) in GROUP_TRANSITIONS:
        assert next_group_state(state, event) is GROUP_TRANSITIONS[state, event]
    else:
        with pytest.raises(Fatal, match="a consumer group that is"):
            next_group_state(state, event)


def test_a_target_may_change_in_each_state_of_a_member_and_a_dead_group_stays_dead() -> None:
    pairs = {(state, event) for state in ConsumerMemberState for event in ConsumerMemberEvent}

    assert pairs == MEMBER_TRANSITIONS.keys()
    assert {next_member_state(*pair) for pair in pairs} == {*ConsumerMemberState}
    assert not [state for state, _ in GROUP_TRANSITIONS if state is ConsumerGroupState.DEAD]


def test_a_member_that_leaves_owns_nothing_and_the_epoch_grows() -> None:
    group = group_of(["m0", "m0", "m1", "m1", "m2"])

    after, answer = leave(group, Beat(member_id="m0", epoch=-1))

    assert [*after.members] == ["m1", "m2"]
    assert (after.epoch, after.state) == (2, ConsumerGroupState.ASSIGNING)
    assert "m0" not in after.target
    assert (answer.member_id, answer.epoch) == ("m0", -1)


def test_a_group_whose_last_member_is_gone_is_empty_and_unknown_members_change_nothing() -> None:
    group = group_of(["m0"] * 5)

    assert without(group, NAMES).state is ConsumerGroupState.EMPTY
    assert without(group, ["other"]) is group
    with pytest.raises(KafkaError) as caught:
        leave(group, Beat(member_id="other", epoch=-1))
    assert caught.value.code is ErrorCode.unknown_member_id


def test_a_static_member_that_is_away_keeps_its_partitions() -> None:
    group = group_of(["m0"] * 5)
    group = group.with_member(replace(group.members["m0"], instance_id="i"))

    after, _ = leave(group, Beat(member_id="m0", instance_id="i", epoch=AWAY_EPOCH))

    assert after.members["m0"].is_away
    assert after.members["m0"].assigned == frozenset(PARTS)
    assert after.epoch == group.epoch


@pytest.mark.parametrize(
    ("instance", "member", "code"),
    [("i", "m1", ErrorCode.fenced_instance_id), ("j", "m0", ErrorCode.unknown_member_id)],
)
def test_an_instance_id_belongs_to_one_member(instance, member, code) -> None:
    group = group_of(["m0"] * 5)
    group = group.with_member(replace(group.members["m0"], instance_id="i"))

    assert static_of(group, "i", "m0").member_id == "m0"
    with pytest.raises(KafkaError) as caught:
        static_of(group, instance, member)
    assert caught.value.code is code
