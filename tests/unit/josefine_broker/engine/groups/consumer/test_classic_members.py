"""Classic members in a group of the consumer protocol: who is called when, who is given what, and
that nobody gets what another may still have."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer import classic
from josefine_broker.engine.groups.consumer.embedded import read_assignment, write_assignment
from josefine_broker.engine.groups.consumer.records import changes
from josefine_broker.engine.groups.consumer.values import (
    NO_PARTS,
    Parts,
)
from tests.unit.josefine_broker.engine.groups.consumer.lab import GROUP, REBALANCE_MS, SESSION_MS
from tests.unit.josefine_broker.engine.groups.consumer.mixed_lab import CALLED, Mixed


def refused(code: ErrorCode, call: Any, *args: Any, **fields: Any) -> None:
    with pytest.raises(KafkaError) as caught:
        call(*args, **fields)
    assert caught.value.code is code


@pytest.fixture
def lab() -> Mixed:
    """`old`, a classic member, came to `new`, who has all four partitions."""
    lab = Mixed(t=4)
    lab.join("new")
    lab.classic_join("old", is_newcomer=True)
    return lab


def settle(lab: Mixed) -> Parts:
    """`new` gives up two, and `old` has them, in epoch 2."""
    assert lab.classic_sync("old", 2) == NO_PARTS
    kept = lab.say("new", 1).parts
    lab.say("new", 1, kept)
    assert lab.classic_beat("old", 2) is CALLED
    return lab.eager("old")[1]


def test_a_newcomer_is_called_again_when_what_it_waits_for_is_free(lab: Mixed) -> None:
    assert lab.classic_sync("old", 2) == NO_PARTS
    assert lab.classic_beat("old", 2) is ErrorCode.none, "nothing is free yet"

    kept = lab.say("new", 1).parts
    lab.say("new", 1, kept)

    assert lab.classic_beat("old", 2) is CALLED
    assert lab.eager("old") == (2, lab.every("t") - (kept or NO_PARTS))
    assert lab.classic_beat("old", 2) is ErrorCode.none
    assert lab.state == "Stable"


def test_what_it_gave_up_is_free_when_it_asks_what_it_has(lab: Mixed) -> None:
    settle(lab)
    lab.join("more")
    assert lab.classic_beat("old", 2) is CALLED

    epoch = lab.classic_join("old").epoch

    had_one_more = lab.member("old").revoking
    assert (epoch, len(had_one_more)) == (3, 1)
    lab.say("new", 2)
    assert not lab.say("more", 3).parts, "that join may be an old one"
    refused(ErrorCode.illegal_generation, lab.classic_beat, "old", 2)
    lab.classic_sync("old", 3)
    assert lab.say("more", 3).parts == had_one_more


def test_a_cooperative_member_keeps_the_rest_while_it_gives_up(lab: Mixed) -> None:
    has = settle(lab)
    lab.join("more")

    epoch = lab.classic_join("old", has).epoch
    keeps = lab.classic_sync("old", epoch)

    assert (epoch, len(keeps)) == (2, 1)
    assert keeps < has
    assert lab.classic_beat("old", 2) is CALLED
    assert not lab.say("more", 3).parts, "it still has it"
    assert lab.classic_join("old", keeps).epoch == 3
    assert lab.classic_sync("old", 3) == keeps
    assert lab.say("more", 3).parts == has - keeps


def test_a_member_that_was_called_and_does_not_join_in_time_is_out(lab: Mixed) -> None:
    settle(lab)
    lab.join("more")
    for _ in range(REBALANCE_MS // 5_000):
        if "old" in lab.group.members:
            lab.classic_beat("old", 2)
        lab.say("more", lab.member("more").epoch)
        lab.say("new", lab.member("new").epoch, lab.member("new").assigned)
        lab.advance(5_000)

    assert sorted(lab.group.members) == ["more", "new"]


def test_a_member_that_joined_and_does_not_ask_what_it_has_is_called(lab: Mixed) -> None:
    """That join was an old one, perhaps, and it does not know."""
    settle(lab)

    lab.classic_join("old")

    assert lab.classic_beat("old", 2) is CALLED
    lab.eager("old")
    assert lab.classic_beat("old", 2) is ErrorCode.none


def test_a_join_as_a_newcomer_by_a_member_takes_nothing_from_it(lab: Mixed) -> None:
    """The first join of its connection before, that arrives again: its client reads on."""
    has = settle(lab)
    kept = lab.member("new").assigned

    epoch = lab.classic_join("old", is_newcomer=True, topics=("nothing",)).epoch

    assert lab.member("old").revoking == has
    lab.say("new", 2, kept)
    assert lab.member("new").assigned == kept
    lab.classic_sync("old", epoch)
    assert lab.say("new", epoch, kept).parts == lab.every("t"), "its client heard of that join"


def test_a_stable_group_reconciles_until_a_member_that_joined_again_syncs(lab: Mixed) -> None:
    settle(lab)
    assert lab.state == "Stable"

    lab.classic_join("old")

    assert lab.state == "Reconciling"
    assert lab.replayed() == {GROUP: lab.group}, "another coordinator sees the same"
    lab.classic_sync("old", 2)
    assert lab.state == "Stable"


def test_a_stable_group_reconciles_until_the_next_process_of_a_member_syncs() -> None:
    lab = Mixed(t=4)
    lab.join("new", topics=frozenset({"u"}))
    lab.classic_join("old", is_newcomer=True, instance_id="one")
    lab.classic_sync("old", 2)
    lab.say("new", 1)
    assert lab.state == "Stable"

    lab.classic_join("next", is_newcomer=True, instance_id="one")

    assert lab.state == "Reconciling"
    assert lab.replayed() == {GROUP: lab.group}
    assert lab.classic_sync("next", 2) == lab.every("t")
    assert lab.state == "Stable"


def test_a_classic_member_has_the_session_that_it_chose(lab: Mixed) -> None:
    lab.advance(SESSION_MS - 1)
    lab.say("new", 1)

    lab.advance(1)

    assert list(lab.group.members) == ["new"]
    refused(ErrorCode.unknown_member_id, lab.classic_beat, "old", 2)


def test_partitions_that_come_call_classic_members_alone(lab: Mixed) -> None:
    settle(lab)
    lab.say("new", -1)
    assert lab.classic_beat("old", 2) is CALLED
    epoch, has = lab.eager("old")
    assert has == lab.every("t")

    lab.grow("t", 6)

    assert lab.classic_beat("old", epoch) is CALLED
    assert lab.eager("old")[1] == lab.every("t")
    assert lab.state == "Stable"


def test_another_coordinator_goes_on_with_members_of_both_kinds(lab: Mixed) -> None:
    has = settle(lab)

    lab.fail_over()

    assert lab.member("old").classic is not None
    assert lab.replayed() == {GROUP: lab.group}
    assert lab.classic_beat("old", 2) is ErrorCode.none
    assert lab.classic_sync("old", 2) == has
    assert changes(lab.group, lab.group) == []


def test_who_is_no_classic_member_is_told_so(lab: Mixed) -> None:
    refused(ErrorCode.unknown_member_id, lab.classic_beat, "new", 1)
    refused(ErrorCode.unknown_member_id, lab.classic_join, "nobody")
    refused(ErrorCode.illegal_generation, lab.classic_sync, "old", 1)


def test_a_static_member_is_taken_out_by_its_instance_where_it_is_a_classic_one() -> None:
    lab = Mixed(t=4)
    lab.join("new", instance_id="theirs")
    lab.classic_join("old", is_newcomer=True, instance_id="ours")

    refused(ErrorCode.unknown_member_id, classic.leave, lab.group, "", "theirs")

    assert list(classic.leave(lab.group, "", "ours").members) == ["new"]


def test_classic_members_have_an_assignor_in_common(lab: Mixed) -> None:
    code = ErrorCode.inconsistent_group_protocol

    refused(code, lab.classic_join, "other", is_newcomer=True, protocols=("sticky",))

    lab.classic_join("other", is_newcomer=True, protocols=("sticky", "range"))


def test_a_static_member_changes_its_protocol_and_keeps_what_it_has() -> None:
    lab = Mixed(t=4)
    lab.join("new")
    lab.classic_join("old", is_newcomer=True, instance_id="one")
    kept = lab.say("new", 1).parts
    lab.say("new", 1, kept)
    lab.classic_join("old", instance_id="one")
    has = lab.classic_sync("old", 2)

    answer = lab.join("next", instance_id="one")

    assert answer.parts == has
    assert lab.member("next").classic is None
    refused(ErrorCode.fenced_instance_id, classic.member_of, lab.group, "old", "one")


def test_an_assignment_names_the_topics_that_are_there(lab: Mixed) -> None:
    data = write_assignment(lab.every("t"), {})

    assert read_assignment(data, lab.topics) == NO_PARTS
