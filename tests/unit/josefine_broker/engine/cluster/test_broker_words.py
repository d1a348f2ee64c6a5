"""What peers say to a broker: what may not be said changes nothing, and who it asks about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.enrolment import Place
from josefine_broker.engine.cluster.frames import FrameError, Hello
from josefine_broker.engine.cluster.joining import PAUSE_MS
from josefine_broker.engine.cluster.messages import (
    Discover,
    Discovered,
    ProposeAnswer,
    ProposeChange,
    Said,
)
from josefine_broker.engine.controller.controller import HeartbeatAnswer
from josefine_broker.engine.metadata.change_codec import encode_change
from josefine_broker.engine.metadata.changes import Origin, RegisterBroker
from raft import BlockId, Height, NodeId, Term
from tests.unit.josefine_broker.engine.members import Group, Member, address_of
from tests.unit.josefine_broker.engine.scenes import (
    BEAT,
    KNOWN,
    STRANGER,
    alone,
    another_process,
    append,
    others,
    propose,
    three,
    with_learner,
)

# -- what may not be said

WRONG_TYPE = encode_change(
    RegisterBroker(broker_id="2", incarnation="i", endpoints=()),  # type: ignore[arg-type]
    Origin(2, 1),
)


@pytest.mark.parametrize(
    ("peer", "said", "why"),
    [
        (STRANGER, append(77), "broker 77 is not a member"),
        (STRANGER, BEAT, "broker 77 is not a member"),
        (STRANGER, HeartbeatAnswer(known_epoch=True, fenced=False, may_stop=True), "not a member"),
        (KNOWN, BEAT, "in the name of broker 77"),
        (KNOWN, append(3), "in the name of broker 3"),
        (KNOWN, append(2, cluster_id="another"), "impossible message.*another"),
        (KNOWN, append(2, commit=BlockId(Term(9), Height(9)), term=Term(2)), "impossible message"),
        (KNOWN, propose(b"no change at all"), "impossible message"),
        (KNOWN, propose(WRONG_TYPE), "values of the wrong type"),
        (KNOWN, Discovered(cluster_id="named-by-1", leader=2), "unexpected DISCOVERED"),
        (KNOWN, ProposeAnswer(), "unexpected PROPOSE_ANSWER"),
        (STRANGER, ProposeAnswer(refused="go away"), "unexpected PROPOSE_ANSWER"),
    ],
)
def test_word_that_may_not_be_said_ends_its_connection_and_changes_nothing(
    peer: Hello, said: Said, why: str
) -> None:
    group = three()
    member = group.members[1]
    before = member.state()

    with pytest.raises(FrameError, match=why):
        member.hears(peer, said)

    assert member.state() == before
    assert member.broker.failure is None
    assert not member.do(), "and leads to nothing"


def test_stranger_may_ask_who_is_there_and_to_be_let_in_and_nothing_else_moves() -> None:
    member = three().members[1]
    before = member.state()

    member.hears(STRANGER, Discover())
    member.hears(STRANGER, ProposeChange(change=b"no change at all"))
    said = [each.said for each in member.broker.ready().replies]

    assert isinstance(said[0], Discovered)
    assert set(said[0].addresses) == {1, 2, 3}
    assert isinstance(said[1], ProposeAnswer)
    assert said[1] != ProposeAnswer(), "refused, or sent to the leader"
    assert member.state() == before


def test_newcomer_is_told_that_it_is_in_when_the_image_shows_it() -> None:
    member = alone()
    register = replace(another_process(77), incarnation="newcomer")
    member.hears(STRANGER, ProposeChange(change=encode_change(register, Origin(77, 0))))

    member.group.settle()

    told = [each.said for ready in member.readys for each in ready.replies]
    assert told[-1] == ProposeAnswer(), "neither refused nor failed"
    assert member.broker.ctx.image.brokers[77].incarnation == "newcomer"


def test_answer_of_who_is_not_the_controller_counts_for_nothing() -> None:
    group = three()
    follower, other = others(group)
    yes = HeartbeatAnswer(known_epoch=True, fenced=False, may_stop=True)
    follower.step(e.Leave())

    follower.hears(other.broker.hello(follower.id), yes)
    assert follower.broker.place is Place.LEAVING
    follower.hears(group.leader().broker.hello(follower.id), yes)
    assert follower.broker.place is Place.LEFT


def test_peer_of_our_cluster_whom_we_do_not_know_is_asked_about_once_a_round() -> None:
    """Members may have changed while this broker was away."""
    group, learner = with_learner()
    founder = group.members[1]
    cluster_id = founder.disk.cluster_id
    unknown = Hello(node_id=9, to=1, cluster_id=cluster_id, address="host9:1")
    learner.readys.clear()

    asked = []
    for _ in range(4):
        with pytest.raises(FrameError, match="broker 9 is not a member"):
            learner.hears(unknown, append(9, to=NodeId(2), cluster_id=cluster_id))
        group.settle()
        asked.append(sum(len(each.asks) for each in learner.readys))
    group.pass_ms(4 * PAUSE_MS)

    assert asked == [1, 1, 1, 1], "a round is under way, or was just now"
    assert sum(len(each.asks) for each in learner.readys) == 2, "one more, and then no more"
    assert {each.said for ready in learner.readys for each in ready.asks} == {Discover()}


def test_learner_that_comes_back_without_its_data_is_taken_for_a_new_one() -> None:
    group, _ = with_learner()
    founder = group.members[1]
    assert founder.broker.quorum.node.followers()[NodeId(2)].match
    back = Hello(node_id=2, to=1, cluster_id="", address=str(address_of(2)))

    founder.step(e.Greeted(replace(back, cluster_id=founder.disk.cluster_id), False))
    assert founder.broker.quorum.node.followers()[NodeId(2)].match is not None
    founder.step(e.Greeted(back, False))

    assert founder.broker.quorum.node.followers()[NodeId(2)].match is None


def test_unknown_peer_is_asked_about_although_nothing_else_happens() -> None:
    """A learner has no clock of its own but its heartbeats: the refused frame itself is what makes
    the round due."""
    learner = with_learner()[1]
    unknown = Hello(node_id=9, to=2, cluster_id=learner.disk.cluster_id, address="host9:1")
    with pytest.raises(FrameError):
        learner.hears(unknown, append(9, to=NodeId(2)))

    assert learner.broker.ready().asks


def founder_without_a_cluster() -> Member:
    member = Member(Group(), 1, voters=(1, 2, 3))
    member.group.settle()
    return member


def test_who_dials_and_names_a_cluster_makes_nobody_ask() -> None:
    """Anybody can: asked by one greeting, it would look around twice a second for ever."""
    member = founder_without_a_cluster()

    for stranger in (2, 77):  # also by the name of one that it knows
        member.step(e.Greeted(Hello(node_id=stranger, to=1, cluster_id="one", address=""), False))
    member.group.pass_ms(5 * PAUSE_MS)

    assert [ask for ready in member.readys for ask in ready.asks] == []


def test_founder_that_dialed_one_of_a_cluster_asks_until_it_belongs_to_one() -> None:
    """It lost its data, and its leader is none that its configuration names."""
    member = founder_without_a_cluster()

    member.step(e.Greeted(Hello(node_id=2, to=1, cluster_id="one", address=""), True))
    member.group.pass_ms(5 * PAUSE_MS)

    asked = {ask.address for ready in member.readys for ask in ready.asks}
    assert asked == {address_of(2), address_of(3)}
    assert sum(len(ready.asks) for ready in member.readys) > 2 * 3, "in more than one round"
