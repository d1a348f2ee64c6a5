"""Enrolment: one process registers once, is heard while it lives, and takes its leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.cluster.enrolment import RETRY_MS, DismissedError, Enrolment, Place
from josefine_broker.engine.controller.controller import Heartbeat, HeartbeatAnswer
from josefine_broker.engine.metadata.change_codec import decode_change, encode_change
from josefine_broker.engine.metadata.changes import RegisterBroker, UnregisterBroker
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Endpoint
from tests.unit.josefine_broker.api.world import ELSEWHERE, LISTENER, World

REGISTER = RegisterBroker(
    broker_id=1,
    incarnation="new",
    endpoints=(Endpoint(LISTENER, "host1", 9091),),
    features=SUPPORTED,
)
HEARTBEAT_MS = 250
HEARD = HeartbeatAnswer(known_epoch=True, fenced=False, may_stop=False)


def enrolment(world: World) -> Enrolment:
    world.ctx.cluster.controller_id = 2
    return Enrolment(world.ctx, REGISTER, heartbeat_ms=HEARTBEAT_MS, proposal_timeout_ms=1_000)


def test_registration_is_proposed_once_until_the_image_shows_it() -> None:
    world = World()
    world.raft.at_once = False
    joining = enrolment(world)

    assert joining.step() is None
    assert joining.step() is None
    assert len(world.raft.waiting) == 1
    assert joining.place is Place.UNKNOWN
    world.raft.deliver()

    assert joining.place is Place.FENCED
    beat = joining.step()
    assert beat == Heartbeat(
        broker_id=1, broker_epoch=world.height, applied_height=world.height, wants_shutdown=False
    )
    assert world.raft.waiting == []


def test_registration_that_was_not_committed_in_time_is_proposed_again() -> None:
    world = World()
    world.raft.at_once = False
    joining = enrolment(world)
    joining.step()
    world.raft.waiting.clear()
    world.advance(1_001)

    joining.step()

    assert len(world.raft.waiting) == 1


def test_registration_overtaken_by_an_earlier_process_s_is_proposed_anew() -> None:
    """The earlier one was on its way when its process died; it is no reason for this one to."""
    world = World()
    world.raft.at_once = False
    joining = enrolment(world)
    joining.step()
    late = replace(REGISTER, incarnation="dead", known_epoch=world.ctx.image.brokers[1].epoch)
    world.apply(encode_change(late, ELSEWHERE))
    world.raft.deliver()
    assert joining.place is Place.UNKNOWN
    world.advance(RETRY_MS)

    joining.step()
    world.raft.deliver()

    assert joining.place is Place.FENCED
    assert world.ctx.image.brokers[1].incarnation == "new"


@pytest.mark.parametrize(
    ("registered", "previous_epoch", "says"),
    [
        ("mine, killed before it knew", 1, "the epoch of that one"),
        ("of another disk", 1, "what the disk says"),
        ("mine, killed before it knew", -1, "what the disk says"),  # its machine went down since
    ],
)
def test_process_that_was_registered_in_vain_casts_no_doubt_on_its_disk(
    registered: str, previous_epoch: int, says: str
) -> None:
    """Else a broker that dies again and again at its start is no longer believed to have what it
    has (simulated cluster, seed 7000003)."""
    world = World()
    world.apply(encode_change(replace(REGISTER, incarnation=registered), ELSEWHERE))
    epoch = world.ctx.image.brokers[1].epoch
    world.raft.at_once = False
    this = replace(REGISTER, previous_epoch=previous_epoch)
    joining = Enrolment(
        world.ctx,
        this,
        started=("another", "mine, killed before it knew"),
        heartbeat_ms=HEARTBEAT_MS,
        proposal_timeout_ms=1_000,
    )

    joining.step()

    (proposed,) = world.raft.waiting
    expected = {"the epoch of that one": epoch, "what the disk says": previous_epoch}[says]
    assert decode_change(proposed)[0].previous_epoch == expected


def test_who_joins_proposes_nothing_itself() -> None:
    world = World()
    world.raft.at_once = False

    assert enrolment(world).step(can_propose=False) is None
    assert world.raft.waiting == []


def test_registration_that_the_cluster_refuses_ends_the_process_with_its_reason() -> None:
    world = World()
    joining = enrolment(world)
    joining.refused("the cluster is at josefine.version 9")

    with pytest.raises(DismissedError, match=r"broker 1 was not registered: .* 9"):
        joining.step()


def test_heartbeat_is_due_every_interval_and_at_once_for_another_controller() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()

    assert joining.step() is not None
    assert joining.step() is None
    assert joining.wake_at_ms() == HEARTBEAT_MS
    world.advance(HEARTBEAT_MS - 1)
    assert joining.step() is None
    world.ctx.cluster.controller_id = 3
    assert joining.step() is not None
    world.advance(HEARTBEAT_MS)
    assert joining.step() is not None


def test_nobody_is_told_anything_while_there_is_no_controller() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    world.ctx.cluster.controller_id = -1

    assert joining.step() is None


def test_another_process_under_the_same_id_ends_this_one() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    joining.step()
    world.raft.propose(encode_change(replace(REGISTER, incarnation="newer"), ELSEWHERE), 0)

    assert joining.place is Place.DISMISSED
    with pytest.raises(DismissedError, match="another process was started as broker 1"):
        joining.step()


def test_broker_that_was_removed_stops() -> None:
    world = World(brokers=2)
    joining = enrolment(world)
    joining.step()
    joining.step()
    world.raft.propose(encode_change(UnregisterBroker(broker_id=1), ELSEWHERE), 0)

    with pytest.raises(DismissedError, match="broker 1 was removed from the cluster"):
        joining.step()


def test_earlier_incarnation_in_a_replayed_image_dismisses_nobody() -> None:
    world = World()
    world.raft.propose(encode_change(replace(REGISTER, incarnation="older"), ELSEWHERE), 0)
    world.raft.at_once = False
    joining = enrolment(world)

    assert joining.step() is None
    assert joining.place is Place.UNKNOWN


def test_leaving_is_said_at_once_and_lasts_until_the_controller_agrees() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    joining.step()
    world.fence(1, fenced=False)
    assert joining.place is Place.SERVING

    joining.leave()

    beat = joining.step()
    assert beat is not None
    assert beat.wants_shutdown
    joining.answered(HEARD)
    assert joining.place is Place.LEAVING
    joining.answered(replace(HEARD, may_stop=True))
    assert joining.place is Place.LEFT


def test_controller_that_does_not_know_this_broker_lets_nobody_go() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    joining.leave()

    joining.answered(replace(HEARD, known_epoch=False, may_stop=True))

    assert joining.place is Place.LEAVING


class FullRaft:
    """Refuses every proposal, as Raft does when too many are open."""

    def propose(self, payload: bytes, deadline_ms: int) -> None:
        raise KafkaError(ErrorCode.request_timed_out, "too many proposals")


def test_full_raft_is_asked_again_later() -> None:
    world = World()
    joining = enrolment(world)
    world.ctx.ports.raft = FullRaft()
    assert joining.step() is None
    world.ctx.ports.raft = world.raft

    world.advance(100)
    joining.step()

    assert joining.place is Place.FENCED


def test_broker_that_cannot_write_asks_to_lead_nothing_until_it_can() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    joining.step()

    world.ctx.storage.trouble = "1 bytes free"
    world.advance(HEARTBEAT_MS)
    full = joining.step()
    world.ctx.storage.trouble = ""
    world.advance(HEARTBEAT_MS)
    free = joining.step()

    assert full is not None
    assert free is not None
    assert (full.wants_shutdown, free.wants_shutdown) == (True, False)
    assert joining.place is Place.FENCED, "it does not leave"


def test_nothing_is_appended_to_a_full_disk() -> None:
    world = World()
    world.create()
    world.ctx.storage.is_full = True

    assert world.produce().error_code == ErrorCode.kafka_storage_error
    world.ctx.storage.is_full = False
    assert world.produce().base_offset == 0


def test_nothing_is_due_at_once_while_there_is_no_controller() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    world.ctx.cluster.controller_id = -1
    joining.step()

    assert joining.wake_at_ms() == HEARTBEAT_MS
    world.ctx.cluster.controller_id = 2
    assert joining.step() is not None


def test_broker_that_no_controller_answers_for_a_session_knows_that_it_is_cut_off() -> None:
    world = World()
    joining = enrolment(world)
    joining.step()
    joining.step()
    world.advance(8_999)
    joining.step()
    assert world.ctx.cluster.is_heard

    world.advance(1)
    joining.step()
    assert not world.ctx.cluster.is_heard
    joining.answered(replace(HEARD, known_epoch=False))
    assert not world.ctx.cluster.is_heard

    joining.answered(HEARD)
    assert world.ctx.cluster.is_heard
