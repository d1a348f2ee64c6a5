"""How a broker ends, leaves, and lets another lead."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.enrolment import DismissedError, Place
from josefine_broker.engine.cluster.messages import Discover
from josefine_broker.engine.metadata.changes import UnregisterBroker
from josefine_broker.engine.metadata_quorum.leadership_transfer import HAND_OVER_MS
from raft.messages import TakeOver
from tests.unit.josefine_broker.engine.members import (
    BEAT_MS,
    ELECTION_MS,
    HEARTBEAT_MS,
    SESSION_MS,
    Group,
    Member,
)
from tests.unit.josefine_broker.engine.scenes import (
    BEAT,
    STRANGER,
    alone,
    another_process,
    others,
    three,
    topic,
    with_learner,
)

# -- its end


def test_dismissed_broker_says_why_and_does_nothing_more() -> None:
    group = three()
    leader, follower = group.leader(), others(group)[0]
    leader.submit(another_process(follower.id))
    group.settle()

    assert isinstance(follower.broker.failure, DismissedError)
    assert "another process was started" in str(follower.broker.failure)
    before = follower.state()
    follower.hears(leader.broker.hello(follower.id), BEAT)
    follower.step(e.Leave())
    follower.broker.tick(group.now_ms + 60_000)
    assert follower.broker.ready() == e.Ready()
    assert follower.state() == before


def test_broker_that_ends_gives_its_host_nothing_to_do_with_its_last_word() -> None:
    """What it was about to say rests on what it does not believe any more."""
    member = alone()
    member.submit(another_process(1))
    member.do()
    member.holds_store = True
    member.do()
    member.finish_store()  # the block is applied
    member.hears(STRANGER, Discover())
    assert member.broker.failure is None

    ready = member.broker.ready()

    assert isinstance(member.broker.failure, DismissedError)
    assert ready == e.Ready()


def test_broker_that_has_ended_proposes_nothing() -> None:
    sentence = "broker 1 votes in this cluster, but came with an empty data directory: do this"
    member = Member(Group(), 1, voters=(1, 2))
    member.step(e.TurnedAway(f"there:1 refused: {sentence}"))
    assert str(member.broker.failure) == sentence

    with pytest.raises(KafkaError) as caught:
        member.submit(topic("a"))

    assert caught.value.code is ErrorCode.not_controller
    assert len(member.broker.ctx.metadata.proposals) == 0


def test_controller_that_leaves_lets_another_lead_and_then_it_has_left() -> None:
    group = three()
    leader = group.leader()
    leader.step(e.Leave())
    group.loses = (TakeOver,)
    group.until(lambda: leader.broker.place is Place.LEFT, "the controller's word")
    group.pass_ms(5 * BEAT_MS)
    assert not leader.broker.has_left, "nobody has taken over"
    group.loses = ()

    group.until(lambda: leader.broker.has_left, "its leave", within_ms=HAND_OVER_MS)

    assert not leader.leads
    group.until(lambda: group.leader() is not leader, "another leader", within_ms=ELECTION_MS)


def test_only_voter_has_left_when_the_controller_says_so_though_it_leads_raft() -> None:
    """There is nobody whom it could hand over to: to wait for that is to wait in vain."""
    group, _ = with_learner()
    only = group.members[1]

    only.step(e.Leave())
    group.until(lambda: only.broker.has_left, "its leave", within_ms=10 * BEAT_MS)

    assert only.leads


def handed_over(member: Member) -> int:
    notices = [each for ready in member.readys for each in ready.notices]
    return sum(each.message == "raft leadership handed over" for each in notices)


@pytest.mark.parametrize("lack", ["disk", "a limit that lasts"])
def test_leader_whose_disk_is_full_lets_another_lead(lack: str) -> None:
    group = three()
    leader = group.leader()
    storage = leader.broker.ctx.storage
    if lack == "disk":
        storage.is_full = True
    else:
        storage.limit.reason = "append failed: Disk quota exceeded"

    group.until(lambda: group.leader() is not leader, "another leader", within_ms=ELECTION_MS)

    assert handed_over(leader) == 1


def test_leadership_is_not_offered_more_often_than_every_hand_over_ms() -> None:
    """While it is offered, proposals wait."""
    group = three()
    leader = group.leader()
    group.loses = (TakeOver,)
    leader.broker.ctx.storage.is_full = True
    group.until(lambda: handed_over(leader), "the first offer", within_ms=HEARTBEAT_MS)

    group.pass_ms(HAND_OVER_MS - 1)
    assert handed_over(leader) == 1
    assert leader.leads
    group.pass_ms(1)
    assert handed_over(leader) == 2


def test_full_leader_offers_nothing_where_no_live_broker_votes() -> None:
    group, learner = with_learner()
    full = group.members[1]
    assert full.broker.ctx.image.is_live(learner.id)
    full.readys.clear()
    full.broker.ctx.storage.is_full = True

    group.pass_ms(5 * HAND_OVER_MS)

    assert [each.message for ready in full.readys for each in ready.notices] == []


def with_fourth() -> tuple[Group, Member]:
    """Three that vote, and a fourth broker that does not: it dials nobody but who leads."""
    group = three()
    fourth = Member(group, 4, seeds=(1,))
    group.serve(4)
    group.until(lambda: 4 in fourth.broker.quorum.node.members.learners, "a learner")
    group.pass_ms(SESSION_MS)
    return group, fourth


def test_removed_broker_whose_controller_is_silent_for_a_session_hears_of_it_from_another() -> None:
    """The controller comes back without its data, or never: who waits for it alone refuses it then,
    start after start, and holds up the cluster that it was removed from."""
    group, fourth = with_fourth()
    controller = group.leader()
    group.cut = {4}
    controller.submit(UnregisterBroker(broker_id=4))
    group.until(
        lambda: all(4 in each.broker.ctx.image.unregistered for each in group.of(1, 2, 3)),
        "the removal is known",
    )
    group.cut = {controller.id}

    group.until(lambda: fourth.broker.failure, "its end", within_ms=2 * SESSION_MS)

    assert isinstance(fourth.broker.failure, DismissedError)
    assert "broker 4 was removed from this cluster" in str(fourth.broker.failure)


def test_broker_whose_controller_is_silent_asks_all_others_once_a_session() -> None:
    """Of many brokers without a controller each would dial all, all the time."""
    group, fourth = with_fourth()
    fourth.readys.clear()
    group.pass_ms(3 * SESSION_MS)
    assert asked_by(fourth) == 0, "it is heard"
    group.cut = {1, 2}

    group.pass_ms(4 * SESSION_MS + SESSION_MS // 2)

    assert fourth.broker.failure is None
    assert asked_by(fourth) == 4 * 3, "the three others, four times"


def asked_by(member: Member) -> int:
    return sum(len(ready.asks) for ready in member.readys)
