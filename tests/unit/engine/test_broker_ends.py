"""How a broker ends, leaves, and lets another lead."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine import events as e
from josefine_broker.engine.broker import HAND_OVER_MS
from josefine_broker.engine.cluster.enrolment import DismissedError, Place
from josefine_broker.engine.cluster.speech import Discover
from raft.messages import TakeOver
from tests.unit.engine.members import BEAT_MS, ELECTION_MS, HEARTBEAT_MS, Group, Member
from tests.unit.engine.scenes import (
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


def test_leader_whose_disk_is_full_lets_another_lead() -> None:
    group = three()
    leader = group.leader()
    leader.broker.ctx.storage.is_full = True

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
