"""Static members (KIP-345): a process that comes back, the one before it, and admins."""

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.values import JoinAnswer, Protocol
from tests.unit.josefine_broker.engine.groups.lab import OK, REBALANCE_MS, SESSION_MS, Lab

FENCED = ErrorCode.fenced_instance_id
UNKNOWN = ErrorCode.unknown_member_id


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def told(lab: Lab) -> list[JoinAnswer]:
    """A stable group of the static members `one`, which leads, and `two`."""
    return lab.stable({"instance_id": "one"}, {"instance_id": "two"})


def test_a_static_member_gets_no_id_to_come_back_with(lab: Lab) -> None:
    lab.join(instance_id="one", takes_id_first=True)

    (member_id,) = lab.members
    assert member_id.startswith("one-")


def test_a_process_that_comes_back_has_its_assignment_without_a_rebalance(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    answer = lab.joined(lab.join(instance_id="two"))

    assert (answer.generation, answer.leader_id) == (1, told[0].member_id)
    assert answer.member_id != told[1].member_id
    assert lab.state == "Stable"
    sync = lab.synced(lab.sync(answer.member_id, 1, instance_id="two"))
    assert sync.assignment == b"p1"
    assert lab.heartbeat(answer.member_id, 1, "two") is OK
    assert lab.stored()["g"].record.members[1].member_id == answer.member_id


def test_the_process_before_is_fenced(lab: Lab, told: list[JoinAnswer]) -> None:
    before = told[1].member_id
    lab.join(instance_id="two")

    assert lab.heartbeat(before, 1, "two") is FENCED
    assert lab.commit(before, 1, "two") is FENCED
    assert lab.synced(lab.sync(before, 1, instance_id="two")).error is FENCED
    assert lab.joined(lab.join(before, instance_id="two")).error is FENCED
    assert lab.leave((before, "two")) == [FENCED]
    # One that does not say its instance is no member.
    assert lab.heartbeat(before, 1) is lab.commit(before, 1) is UNKNOWN


def test_a_leader_that_comes_back_is_told_to_leave_the_assignment(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    """KIP-814."""
    answer = lab.joined(lab.join(instance_id="one"))

    assert answer.skip_assignment
    assert answer.leader_id == answer.member_id
    assert {each.instance_id for each in answer.members} == {"one", "two"}


def test_an_older_leader_that_comes_back_is_not_told_that_it_leads(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    answer = lab.joined(lab.join(instance_id="one", may_skip_assignment=False))

    assert answer.leader_id == told[0].member_id != answer.member_id
    assert not answer.members
    assert not answer.skip_assignment


def test_who_comes_back_with_another_protocol_of_the_group_is_a_rebalance(lab: Lab) -> None:
    both = (Protocol("a", b""), Protocol("b", b""))
    lab.stable({"instance_id": "one", "protocols": both}, {"instance_id": "two", "protocols": both})

    lab.join(instance_id="one", protocols=both[1:])

    assert lab.state == "PreparingRebalance"


def test_who_comes_back_while_an_assignment_is_made_is_a_rebalance(lab: Lab) -> None:
    first, second = lab.join_all({"instance_id": "one"}, {"instance_id": "two"})
    waiting = lab.sync(second.member_id, 1, instance_id="two")

    lab.join(instance_id="two")

    assert lab.synced(waiting).error is FENCED
    assert lab.state == "PreparingRebalance"
    assert lab.heartbeat(first.member_id, 1, "one") is ErrorCode.rebalance_in_progress


def test_a_new_id_is_told_when_it_is_stored() -> None:
    lab = Lab(keeps=False)
    first, second = lab.join_all({"instance_id": "one"}, {"instance_id": "two"})
    lab.sync(first.member_id, 1, {second.member_id: b"b"}, instance_id="one")
    lab.settle()

    ticket = lab.join(instance_id="two")
    assert ticket not in lab.answers
    lab.settle()

    assert lab.joined(ticket).error is OK


def test_a_new_id_that_is_not_stored_is_asked_for_again() -> None:
    lab = Lab(keeps=False)
    first, _ = lab.join_all({"instance_id": "one"}, {"instance_id": "two"})
    lab.sync(first.member_id, 1, {}, instance_id="one")
    lab.settle()

    failed = lab.join(instance_id="two")
    lab.settle(ErrorCode.coordinator_not_available)
    again = lab.join(instance_id="two")
    lab.settle()

    assert lab.joined(failed).error is ErrorCode.coordinator_not_available
    assert lab.joined(again).error is OK


def test_a_rebalance_counts_a_join_that_waits_for_its_record() -> None:
    lab = Lab(keeps=False)
    first, _ = lab.join_all({"instance_id": "one"}, {"instance_id": "two"})
    lab.sync(first.member_id, 1, {}, instance_id="one")
    lab.settle()
    ticket = lab.join(instance_id="two")

    lab.join(first.member_id, instance_id="one")
    assert lab.joined(ticket).generation == 2
    lab.settle()

    assert lab.state == "CompletingRebalance"


def test_a_second_process_fences_the_first_before_its_id_is_stored() -> None:
    lab = Lab(keeps=False)
    first, _ = lab.join_all({"instance_id": "one"}, {"instance_id": "two"})
    lab.sync(first.member_id, 1, {}, instance_id="one")
    lab.settle()

    early, late = lab.join(instance_id="two"), lab.join(instance_id="two")
    lab.settle()

    assert lab.joined(early).error is FENCED
    assert lab.joined(late).error is OK


def test_a_static_member_that_does_not_join_again_keeps_its_place(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    first, second = (each.member_id for each in told)
    ticket = lab.join(first, instance_id="one")
    for _ in range(4):
        lab.heartbeat(second, 1, "two")
        lab.advance(REBALANCE_MS // 4)

    answer = lab.joined(ticket)
    assert answer.generation == 2
    assert [each.instance_id for each in answer.members] == ["one", "two"]


def test_where_only_static_members_are_and_none_comes_the_join_phase_goes_on(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    first, second = (each.member_id for each in told)
    newcomer = lab.join()
    (third,) = set(lab.members) - {first, second}
    lab.leave(third)
    assert lab.joined(newcomer).error is UNKNOWN
    for _ in range(8):
        lab.heartbeat(first, 1, "one")
        lab.heartbeat(second, 1, "two")
        lab.advance(REBALANCE_MS // 4)
    assert lab.state == "PreparingRebalance"

    tickets = [lab.join(first, instance_id="one"), lab.join(second, instance_id="two")]

    assert [lab.joined(each).generation for each in tickets] == [2, 2]


def test_a_static_member_that_comes_late_waits_for_the_others_no_longer_than_they_may(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    first, second = (each.member_id for each in told)
    lab.join()
    (third,) = set(lab.members) - {first, second}
    lab.leave(third)
    for _ in range(5):
        lab.heartbeat(first, 1, "one")
        lab.heartbeat(second, 1, "two")
        lab.advance(REBALANCE_MS // 4)

    ticket = lab.join(first, instance_id="one")
    for _ in range(4):
        lab.heartbeat(second, 1, "two")
        lab.advance(REBALANCE_MS // 4)

    assert lab.joined(ticket).generation == 2


def test_a_static_member_that_is_away_for_its_session_is_lost(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    lab.advance(SESSION_MS - 1)
    lab.heartbeat(told[0].member_id, 1, "one")

    lab.advance(1)

    assert lab.members == [told[0].member_id]


def test_an_admin_removes_a_static_member_by_its_instance_alone(
    lab: Lab, told: list[JoinAnswer]
) -> None:
    assert lab.leave(("", "two"), ("", "nobody")) == [OK, UNKNOWN]

    assert lab.members == [told[0].member_id]
    assert lab.state == "PreparingRebalance"


def test_an_id_that_was_told_first_is_no_static_members(lab: Lab) -> None:
    member_id = lab.joined(lab.join(takes_id_first=True)).member_id

    assert lab.joined(lab.join(member_id, instance_id="one")).error is UNKNOWN
