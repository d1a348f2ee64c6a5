"""Controlling: who leads Raft judges, one decision at a time; who does not keeps silent."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.controller.controller import ControllerConfig, Heartbeat
from josefine_broker.engine.controller.membership import MemberChange, MemberStep
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import Decision
from josefine_broker.engine.metadata_quorum.controller_host import (
    DECISION_TIMEOUT_MS,
    NOBODY,
    Controlling,
    RaftView,
)
from tests.unit.josefine_broker.api.world import TERM, World

LEADS = RaftView(
    term=TERM,
    leader=1,
    leads=True,
    voters=frozenset({1}),
    learners=frozenset(),
    caught_up=frozenset(),
)
SESSION_MS = 1_000


def controlling(world: World) -> tuple[Controlling, list[MemberChange]]:
    asked: list[MemberChange] = []
    config = ControllerConfig(session_timeout_ms=SESSION_MS)
    return Controlling(world.ctx, config, asked.append), asked


def heard(world: World, at: Controlling, broker_id: int) -> None:
    epoch = world.ctx.image.brokers[broker_id].epoch
    at.heard(Heartbeat(broker_id=broker_id, broker_epoch=epoch, applied_height=world.height))


def decisions(world: World) -> list[Decision]:
    changes = [decode_change(each)[0] for each in world.raft.waiting]
    return [each for each in changes if isinstance(each, Decision)]


def test_broker_that_does_not_lead_raft_decides_nothing_and_knows_nobody() -> None:
    world = World(brokers=2)
    world.raft.at_once = False
    at, _ = controlling(world)
    at.raft_moved(LEADS._replace(leads=False, leader=2))
    world.advance(10 * SESSION_MS)

    at.step()
    answer = at.heard(Heartbeat(broker_id=2, broker_epoch=2, applied_height=9))

    assert decisions(world) == []
    assert not answer.known_epoch
    assert at.wake_at_ms() is None
    assert (world.ctx.cluster.controller_id, world.ctx.cluster.controller_term) == (2, None)


def test_leader_without_an_applied_block_of_its_term_waits() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)

    at.raft_moved(LEADS._replace(leads=False))
    assert not at.leads
    at.raft_moved(LEADS)

    assert at.leads
    assert (world.ctx.cluster.controller_id, world.ctx.cluster.controller_term) == (1, TERM)


def test_silent_broker_is_fenced_after_its_session_not_before() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.advance(SESSION_MS - 1)
    at.step()
    assert world.ctx.image.is_live(2)

    heard(world, at, 1)
    world.advance(1)
    at.step()

    assert not world.ctx.image.is_live(2)
    assert world.ctx.image.is_live(1)


def test_broker_without_a_process_is_fenced_at_once() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    at.step()

    at.raft_moved(LEADS._replace(gone=frozenset({2})))
    at.step()

    assert not world.ctx.image.is_live(2)


def test_one_decision_is_under_way_at_a_time() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.raft.at_once = False
    world.advance(SESSION_MS)

    at.step()
    at.step()

    assert len(decisions(world)) == 1
    assert at.wake_at_ms() is None
    world.raft.deliver()
    at.step()
    assert decisions(world) == []
    assert at.wake_at_ms() is not None


def test_decision_that_was_never_committed_is_made_anew() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.raft.at_once = False
    world.advance(SESSION_MS)
    at.step()
    world.raft.waiting.clear()

    world.advance(5_001)
    at.step()

    assert len(decisions(world)) == 1


def test_deposed_controller_forgets_and_a_new_term_begins_anew() -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.advance(SESSION_MS - 1)

    at.raft_moved(NOBODY)
    assert not at.leads
    at.raft_moved(LEADS._replace(term=TERM + 1))
    world.advance(1)
    at.step()

    assert world.ctx.image.is_live(2), "every broker gets one whole session"
    assert world.ctx.cluster.controller_term == TERM + 1


def test_members_are_changed_as_the_image_has_it() -> None:
    world = World(brokers=2)
    at, asked = controlling(world)
    at.raft_moved(LEADS)

    at.step()

    assert asked == [MemberChange(step=MemberStep.ADD_LEARNER, broker_id=2)]


def test_controller_that_leads_again_in_a_later_term_decides_in_that_one() -> None:
    """It may not have seen that it was deposed; a decision of the old term would be refused."""
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.raft.at_once = False

    at.raft_moved(LEADS._replace(term=TERM + 1))
    world.advance(SESSION_MS)
    at.step()

    assert [each.controller_term for each in decisions(world)] == [TERM + 1]


def test_decision_that_could_not_be_proposed_is_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(brokers=2)
    at, _ = controlling(world)
    at.raft_moved(LEADS)
    world.advance(SESSION_MS)

    def refuse(payload: bytes, deadline_ms: int) -> None:
        raise KafkaError(ErrorCode.not_controller, "no room")

    with monkeypatch.context() as patched:
        patched.setattr(world.raft, "propose", refuse)
        at.step()
    world.raft.at_once = False
    at.step()

    assert len(decisions(world)) == 1


def test_owner_hears_that_a_decision_came_to_its_end_also_when_it_was_given_up() -> None:
    """By the timer of what waits: nothing else would make the next decision due."""
    world = World(brokers=2)
    ended: list[int] = []
    config = ControllerConfig(session_timeout_ms=SESSION_MS)
    at = Controlling(
        world.ctx, config, lambda _: None, lambda: ended.append(world.clock.elapsed_ms)
    )
    at.raft_moved(LEADS)
    world.raft.at_once = False
    world.advance(SESSION_MS)
    at.step()
    assert ended == []

    world.advance(DECISION_TIMEOUT_MS)

    assert ended == [SESSION_MS + DECISION_TIMEOUT_MS]
