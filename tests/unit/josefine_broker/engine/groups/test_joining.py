"""JoinGroup: who becomes a member, when it is told so, and which protocol the group has."""

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.joining import NEWCOMER_TIMEOUT_MS
from josefine_broker.engine.groups.values import GroupSettings, JoinedMember, Protocol
from tests.unit.josefine_broker.engine.groups.lab import DELAY_MS, OK, REBALANCE_MS, SESSION_MS, Lab


@pytest.fixture
def lab() -> Lab:
    return Lab()


def test_first_round_waits_for_others_and_longer_for_each(lab: Lab) -> None:
    first = lab.join()
    lab.advance(DELAY_MS - 1)
    second = lab.join()
    lab.advance(DELAY_MS)
    assert not lab.answers

    lab.advance(1)

    assert [lab.joined(each).generation for each in (first, second)] == [1, 1]


def test_first_round_lasts_no_longer_than_the_rebalance_timeout(lab: Lab) -> None:
    first = lab.join(rebalance_timeout_ms=2 * DELAY_MS)
    for _ in range(4):
        lab.advance(DELAY_MS // 2)
        lab.join()

    assert lab.joined(first).error is OK


def test_without_a_delay_the_first_member_is_told_at_once() -> None:
    lab = Lab(GroupSettings(initial_rebalance_delay_ms=0))

    assert lab.joined(lab.join()).generation == 1


def test_leader_is_told_the_members_with_what_they_say_for_the_protocol(lab: Lab) -> None:
    first, second = lab.join_all({}, {"protocols": (Protocol("range", b"2"),)})

    assert first.leader_id == second.leader_id == first.member_id
    assert first.members == (
        JoinedMember(first.member_id, None, b"r"),
        JoinedMember(second.member_id, None, b"2"),
    )
    assert second.members == ()


def test_protocol_is_the_one_most_vote_for_of_those_all_understand(lab: Lab) -> None:
    def offers(*names: str) -> dict[str, object]:
        return {"protocols": tuple(Protocol(name, b"") for name in names)}

    told = lab.join_all(offers("a", "b", "c"), offers("c", "b"), offers("x", "b", "c"))

    assert {each.protocol_name for each in told} == {"b"}


def test_who_understands_no_common_protocol_is_refused(lab: Lab) -> None:
    lab.join()

    for changes in (
        {"protocols": (Protocol("sticky", b""),)},
        {"protocol_type": "connect"},
        {"protocols": ()},
    ):
        answer = lab.joined(lab.join(**changes))
        assert answer.error is ErrorCode.inconsistent_group_protocol


def test_session_timeout_is_within_the_brokers_bounds(lab: Lab) -> None:
    for timeout_ms in (5_999, 1_800_001):
        answer = lab.joined(lab.join(session_timeout_ms=timeout_ms))
        assert answer.error is ErrorCode.invalid_session_timeout
    assert lab.state == "none"


def test_newcomer_is_told_its_id_first_and_joins_with_it(lab: Lab) -> None:
    """KIP-394."""
    answer = lab.joined(lab.join(takes_id_first=True))
    assert answer.error is ErrorCode.member_id_required
    assert lab.members == []

    ticket = lab.join(answer.member_id, takes_id_first=True)
    lab.advance(2 * DELAY_MS)

    assert lab.joined(ticket).member_id == answer.member_id
    assert lab.members == [answer.member_id]


def test_an_id_that_is_not_used_in_time_is_forgotten(lab: Lab) -> None:
    member_id = lab.joined(lab.join(takes_id_first=True)).member_id

    lab.advance(SESSION_MS)

    assert lab.joined(lab.join(member_id)).error is ErrorCode.unknown_member_id
    assert lab.state == "none"


def test_a_rebalance_waits_for_who_was_told_an_id(lab: Lab) -> None:
    (member,) = lab.stable({})
    lab.joined(lab.join(takes_id_first=True))
    again = lab.join(member.member_id)
    assert again not in lab.answers

    lab.heartbeat(member.member_id, 1)
    lab.advance(SESSION_MS)

    assert lab.joined(again).generation == 2


def test_an_id_of_nobody_is_unknown(lab: Lab) -> None:
    assert lab.joined(lab.join("stranger")).error is ErrorCode.unknown_member_id
    lab.stable({})
    assert lab.joined(lab.join("stranger")).error is ErrorCode.unknown_member_id


def test_newcomer_calls_the_others_and_all_get_the_next_generation(lab: Lab) -> None:
    (first,) = lab.stable({})

    ticket = lab.join()
    assert lab.heartbeat(first.member_id, 1) is ErrorCode.rebalance_in_progress
    again = lab.join(first.member_id)

    assert [lab.joined(each).generation for each in (ticket, again)] == [2, 2]
    assert lab.joined(again).leader_id == first.member_id


def test_who_does_not_join_again_in_time_is_out(lab: Lab) -> None:
    first, second = lab.stable({}, {})
    ticket = lab.join()
    for _ in range(4):
        lab.advance(REBALANCE_MS // 4 - 1)
        lab.heartbeat(first.member_id, 1)
        lab.heartbeat(second.member_id, 1)
    again = lab.join(second.member_id)

    lab.advance(4)

    answer = lab.joined(again)
    assert answer.generation == lab.joined(ticket).generation == 2
    assert answer.leader_id == second.member_id
    assert first.member_id not in lab.members


def test_follower_with_nothing_new_is_told_what_is(lab: Lab) -> None:
    first, second = lab.stable({}, {})

    answer = lab.joined(lab.join(second.member_id))

    assert (answer.generation, answer.leader_id, answer.members) == (1, first.member_id, ())
    assert lab.state == "Stable"


def test_a_join_with_another_subscription_is_a_rebalance(lab: Lab) -> None:
    _, second = lab.stable({}, {})

    lab.join(second.member_id, protocols=(Protocol("range", b"other"),))

    assert lab.state == "PreparingRebalance"


def test_the_leader_of_a_stable_group_may_ask_for_a_rebalance(lab: Lab) -> None:
    """With the same subscription: its topics may have more partitions."""
    first, _ = lab.stable({}, {})

    lab.join(first.member_id)

    assert lab.state == "PreparingRebalance"


def test_a_member_that_joins_twice_in_a_generation_is_told_it_again(lab: Lab) -> None:
    """Perhaps the first answer was lost; the leader is told the members again."""
    told = lab.join_all({}, {})

    assert [lab.joined(lab.join(each.member_id)) for each in told] == told
    assert lab.state == "CompletingRebalance"


def test_a_join_is_answered_when_a_second_one_of_its_member_comes(lab: Lab) -> None:
    """Its client gave up on the first; nobody may be left waiting for it."""
    lab.stable({})
    newcomer = lab.join(takes_id_first=True)
    member_id = lab.joined(newcomer).member_id
    first = lab.join(member_id)

    second = lab.join(member_id)

    assert lab.joined(first).error is ErrorCode.rebalance_in_progress
    assert second not in lab.answers


def test_a_newcomer_that_nobody_hears_of_is_lost_even_while_its_join_waits(lab: Lab) -> None:
    lab.stable({"rebalance_timeout_ms": 2 * NEWCOMER_TIMEOUT_MS})
    (first,) = lab.members
    ticket = lab.join()
    for _ in range(NEWCOMER_TIMEOUT_MS // SESSION_MS + 1):
        lab.heartbeat(first, 1)
        lab.advance(SESSION_MS - 1)

    assert lab.joined(ticket).error is ErrorCode.unknown_member_id


def test_a_full_group_takes_nobody_in() -> None:
    lab = Lab(GroupSettings(size_max=2, initial_rebalance_delay_ms=DELAY_MS))
    first, second = lab.stable({}, {})

    assert lab.joined(lab.join()).error is ErrorCode.group_max_size_reached

    again = lab.join(first.member_id)
    assert lab.joined(lab.join(second.member_id)).generation == lab.joined(again).generation == 2


def test_in_a_group_that_was_made_smaller_the_last_to_join_again_is_out() -> None:
    lab = Lab(GroupSettings(initial_rebalance_delay_ms=DELAY_MS))
    told = lab.stable({}, {}, {})
    lab.settings = GroupSettings(size_max=2, initial_rebalance_delay_ms=DELAY_MS)

    smaller = lab.fail_over()
    assert smaller.state == "PreparingRebalance"
    tickets = [smaller.join(each.member_id) for each in told]

    errors = [smaller.joined(ticket).error for ticket in tickets]
    assert errors == [OK, OK, ErrorCode.group_max_size_reached]
    assert len(smaller.members) == 2


def test_a_long_client_id_makes_no_member_id_that_cannot_be_written(lab: Lab) -> None:
    member_id = lab.joined(lab.join(client_id="x" * 32_000, takes_id_first=True)).member_id

    assert len(member_id) < 300
