"""SyncGroup, heartbeats, leaving, losing, and who may commit."""

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.rebalancing import POSTPONED_MS_MIN
from josefine_broker.engine.groups.values import JoinAnswer
from tests.unit.josefine_broker.engine.groups.lab import OK, REBALANCE_MS, SESSION_MS, Lab

UNKNOWN = ErrorCode.unknown_member_id
REBALANCING = ErrorCode.rebalance_in_progress


@pytest.fixture
def lab() -> Lab:
    return Lab()


def ids(told: list[JoinAnswer]) -> list[str]:
    return [each.member_id for each in told]


def test_an_assignment_is_told_when_it_is_stored_and_not_before() -> None:
    lab = Lab(keeps=False)
    leader, other = ids(lab.join_all({}, {}))
    first = lab.sync(other, 1)
    second = lab.sync(leader, 1, {leader: b"a", other: b"b"})
    assert not {first, second} & lab.answers.keys()

    lab.settle()

    assert [lab.synced(each).assignment for each in (first, second)] == [b"b", b"a"]
    assert lab.synced(first).protocol_name == "range"
    assert lab.state == "Stable"


def test_an_assignment_that_is_not_stored_is_told_to_nobody() -> None:
    lab = Lab(keeps=False)
    leader, other = ids(lab.join_all({}, {}))
    tickets = [lab.sync(other, 1), lab.sync(leader, 1, {other: b"b"})]

    lab.settle(ErrorCode.coordinator_not_available)

    assert [lab.synced(each).error for each in tickets] == [ErrorCode.coordinator_not_available] * 2
    assert lab.state == "PreparingRebalance"


def test_a_rebalance_overtakes_an_assignment_on_its_way() -> None:
    lab = Lab(keeps=False)
    (leader,) = ids(lab.join_all({}))
    ticket = lab.sync(leader, 1, {leader: b"a"})
    lab.join()
    assert lab.synced(ticket).error is REBALANCING

    lab.settle()

    assert lab.state == "PreparingRebalance"


def test_the_first_assignment_of_a_leader_counts() -> None:
    lab = Lab(keeps=False)
    (leader,) = ids(lab.join_all({}))
    first = lab.sync(leader, 1, {leader: b"first"})

    second = lab.sync(leader, 1, {leader: b"second"})
    lab.settle()

    assert lab.synced(first).error is REBALANCING
    assert lab.synced(second).assignment == b"first"
    other = lab.fail_over()
    assert other.synced(other.sync(leader, 1)).assignment == b"first"


def test_an_assignment_that_comes_late_is_not_the_next_generations() -> None:
    lab = Lab(keeps=False)
    (leader,) = ids(lab.join_all({}))
    lab.sync(leader, 1, {leader: b"old"})
    newcomer = lab.join()
    lab.join(leader)
    assert lab.joined(newcomer).generation == 2
    ticket = lab.sync(leader, 2, {leader: b"new"})
    early, late = lab.open

    lab.settle_one(early, OK)
    lab.work()
    assert ticket not in lab.answers
    lab.settle_one(late, OK)
    lab.work()

    assert lab.synced(ticket).assignment == b"new"


def test_whom_the_leader_forgot_has_nothing(lab: Lab) -> None:
    leader, other = ids(lab.join_all({}, {}))
    lab.sync(leader, 1, {leader: b"a", "stranger": b"x"})

    assert lab.synced(lab.sync(other, 1)).assignment == b""


def test_a_member_of_a_stable_group_may_ask_again(lab: Lab) -> None:
    _, other = ids(lab.stable({}, {}))

    assert [lab.synced(lab.sync(other, 1)).assignment for _ in range(2)] == [b"p1", b"p1"]


def test_sync_in_a_stable_group_begins_the_session_anew(lab: Lab) -> None:
    leader, other = ids(lab.stable({}, {}))
    lab.advance(SESSION_MS - 1)
    lab.heartbeat(leader, 1)

    lab.sync(other, 1)
    lab.advance(SESSION_MS - 1)

    assert lab.members == [leader, other]


def test_join_that_changes_nothing_begins_the_session_anew(lab: Lab) -> None:
    """Its client counts its session from the join on, and sends the first heartbeat after it."""
    leader, other = ids(lab.stable({}, {}))
    lab.advance(SESSION_MS - 1)
    lab.heartbeat(leader, 1)

    assert lab.joined(lab.join(other)).generation == 1
    lab.advance(SESSION_MS - 1)

    assert lab.members == [leader, other]


def test_a_sync_of_another_generation_protocol_or_state_is_refused(lab: Lab) -> None:
    leader, _ = ids(lab.join_all({}, {}))

    def error(member_id: str, generation: int, **said: str) -> ErrorCode:
        return lab.synced(lab.sync(member_id, generation, **said)).error

    assert error("stranger", 1) is UNKNOWN
    assert error(leader, 2) is error(leader, 0) is ErrorCode.illegal_generation
    assert error(leader, 1, protocol_name="x") is ErrorCode.inconsistent_group_protocol
    assert error(leader, 1, protocol_type="x") is ErrorCode.inconsistent_group_protocol
    lab.join()
    assert error(leader, 1) is REBALANCING


def test_who_joined_and_does_not_sync_is_out_after_the_rebalance_timeout(lab: Lab) -> None:
    leader, other = ids(lab.join_all({}, {}))
    ticket = lab.sync(leader, 1, {})
    assert lab.state == "Stable"
    for _ in range(3):
        lab.heartbeat(other, 1)
        lab.heartbeat(leader, 1)
        lab.advance(SESSION_MS - 1)

    assert lab.synced(ticket).error is OK
    assert lab.members == [leader]
    assert lab.state == "PreparingRebalance"


def test_a_leader_that_never_syncs_holds_nobody_for_ever(lab: Lab) -> None:
    leader, other = ids(lab.join_all({}, {}))
    ticket = lab.sync(other, 1)
    for _ in range(2):
        assert lab.heartbeat(leader, 1) is OK
        lab.advance(SESSION_MS - 1)

    assert lab.synced(ticket).error is REBALANCING
    assert lab.members == [other]


def test_heartbeats_keep_a_member(lab: Lab) -> None:
    (member,) = ids(lab.stable({}))
    for _ in range(5):
        lab.advance(SESSION_MS - 1)
        assert lab.heartbeat(member, 1) is OK

    lab.advance(SESSION_MS)

    assert lab.heartbeat(member, 1) is UNKNOWN
    assert lab.state == "Empty"


def test_heartbeats_of_others_are_refused(lab: Lab) -> None:
    assert lab.heartbeat("anybody", 1) is UNKNOWN
    (member,) = ids(lab.stable({}))

    assert lab.heartbeat("stranger", 1) is UNKNOWN
    assert lab.heartbeat(member, 0) is ErrorCode.illegal_generation
    assert lab.heartbeat(member, 1, "instance") is UNKNOWN


def test_a_member_that_waits_for_an_answer_needs_no_heartbeat(lab: Lab) -> None:
    first, second = ids(lab.stable({}, {}))
    ticket = lab.join(first)

    lab.heartbeat(second, 1)
    lab.advance(SESSION_MS - 1)
    lab.heartbeat(second, 1)
    lab.advance(REBALANCE_MS - SESSION_MS + 1)

    assert lab.joined(ticket).generation == 2
    assert lab.members == [first]


def test_who_leaves_is_gone_at_once_and_the_others_share(lab: Lab) -> None:
    first, second = ids(lab.stable({}, {}))

    assert lab.leave(second, "stranger") == [OK, UNKNOWN]

    assert lab.heartbeat(first, 1) is REBALANCING
    assert lab.joined(lab.join(first)).generation == 2
    assert lab.members == [first]


def test_the_last_to_leave_leaves_an_empty_group_that_is_stored(lab: Lab) -> None:
    (member,) = ids(lab.stable({}))

    lab.leave(member)

    assert lab.state == "Empty"
    record = lab.log[-1][1].record
    assert (record.generation, record.members, record.leader_id) == (2, (), None)
    assert record.protocol_type == "consumer"


def test_who_leaves_while_its_join_waits_is_told_so(lab: Lab) -> None:
    lab.join_all({}, {})
    first, second = lab.members
    ticket = lab.join()
    again = lab.join(first)

    lab.leave(first)
    lab.leave(second)

    assert lab.joined(again).error is UNKNOWN
    assert lab.joined(ticket).generation == 2


def test_who_was_told_an_id_may_give_it_back(lab: Lab) -> None:
    lab.stable({})
    member_id = lab.joined(lab.join(takes_id_first=True)).member_id

    assert lab.leave(member_id) == [OK]

    assert lab.state == "Stable"
    assert lab.joined(lab.join(member_id)).error is UNKNOWN


def test_only_a_member_of_the_generation_commits(lab: Lab) -> None:
    assert lab.commit("anybody", 1) is ErrorCode.group_id_not_found
    assert lab.commit("", -1) is OK
    told = lab.join_all({}, {})
    leader, other = ids(told)
    assert lab.commit(leader, 1) is REBALANCING
    lab.sync(leader, 1, {})
    lab.sync(other, 1)

    assert lab.commit(leader, 1) is lab.commit(other, 1) is OK
    assert lab.commit(other, 0) is lab.commit(other, -1) is ErrorCode.illegal_generation
    assert lab.commit("stranger", 1) is lab.commit("", -1) is UNKNOWN
    assert lab.commit(leader, 1, "instance") is UNKNOWN


def test_a_member_that_is_called_to_join_commits_what_it_read_before(lab: Lab) -> None:
    """Its partitions may go to others: what it has done must not be done twice."""
    first, second = ids(lab.stable({}, {}))
    lab.join(first)

    assert lab.commit(second, 1) is OK
    lab.join(second)
    assert lab.commit(second, 1) is ErrorCode.illegal_generation


def test_a_newcomer_is_of_no_generation_yet(lab: Lab) -> None:
    """Its id is known to whoever asks for a description of the group."""
    (first,) = ids(lab.stable({}))
    lab.join()
    (newcomer,) = set(lab.members) - {first}

    assert lab.commit(newcomer, 1) is ErrorCode.illegal_generation
    assert lab.heartbeat(newcomer, 1) is ErrorCode.illegal_generation


def test_a_commit_keeps_its_member(lab: Lab) -> None:
    (member,) = ids(lab.stable({}))
    for _ in range(3):
        lab.advance(SESSION_MS - 1)
        assert lab.commit(member, 1) is OK


def test_members_that_take_no_time_to_rebalance_are_out_and_wake_nobody_for_ever(lab: Lab) -> None:
    """Clients choose the timeout, and none may make the broker turn round and round."""
    first, second = ids(lab.stable({}, {}))
    ticket = lab.join(first, rebalance_timeout_ms=0)
    lab.join(second, rebalance_timeout_ms=-5)
    assert lab.joined(ticket).generation == 2

    lab.advance(2)

    assert lab.state == "Empty"
    assert lab.coordinator.wake_at_ms() is None


def test_static_members_that_take_no_time_wake_the_broker_once_a_second(lab: Lab) -> None:
    told = lab.stable(
        *({"instance_id": each, "rebalance_timeout_ms": REBALANCE_MS} for each in "ab")
    )
    lab.join(told[0].member_id, instance_id="a", rebalance_timeout_ms=0)
    lab.join(told[1].member_id, instance_id="b", rebalance_timeout_ms=0)
    lab.advance(1)

    at_ms = lab.coordinator.wake_at_ms()

    assert at_ms is None or at_ms >= lab.now_ms + POSTPONED_MS_MIN
