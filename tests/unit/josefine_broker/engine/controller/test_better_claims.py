"""A log that was unreadable when its broker registered counts again once that process opened it.

An I/O error at a start may pass a second later. The image keeps the doubt, and the heartbeats of
the broker claim what its log turned out to be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from uuid import UUID

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.cluster.enrolment import Enrolment
from josefine_broker.engine.cluster.frames import Frame
from josefine_broker.engine.cluster.messages import decode_said, encode_said
from josefine_broker.engine.controller.controller import Controller, ControllerConfig, Heartbeat
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import NO_LEADER, Doubt, MetadataImage
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims, LogKey
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.metadata_quorum.apply_committed import ToHost, to_be_hosted
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.replica_manager import Hosting
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.world import World, batch_of
from tests.unit.josefine_broker.engine.cluster.test_enrolment import REGISTER
from tests.unit.josefine_broker.engine.metadata.images import (
    TERM,
    TOPIC_ID,
    after,
    broker,
    image_of,
    only,
    partition,
)
from tests.unit.josefine_broker.host.log.support import append

COMPLETE, UNSYNCED, SHORTENED, UNREADABLE, MISSING = Completeness
KEY = TOPIC_ID, 0
SESSION_MS = 1_000


def unreadable(*, isr: tuple[int, ...] = (2,), live: tuple[int, ...] = (1, 2)) -> MetadataImage:
    """Replica 2 registered with a log that it could not read; the partition has no leader."""
    entry = partition((1, 2), leader=NO_LEADER, isr=isr)
    brokers = [broker(each, fenced=each not in live) for each in (1, 2)]
    image = image_of([replace(entry, doubts=(Doubt(2, UNREADABLE),))], brokers)
    return replace(image, features={"josefine.version": 2})


def decided(
    image: MetadataImage, claims: Mapping[LogKey, Completeness], *, epoch: int = 20
) -> MetadataImage:
    """After heartbeats of brokers 1 and 2, of which 2 claims this, and all decisions."""
    controller = Controller(1, ControllerConfig(session_timeout_ms=SESSION_MS))
    controller.lead(TERM, image, 0)
    while (decision := controller.decide(image, 0)) is not None:
        image = after(image, decision)
    assert only(image).leader == NO_LEADER, "nobody is believed to have the records"
    for broker_id in (1, 2):
        if image.is_live(broker_id):
            beat = Heartbeat(
                broker_id=broker_id,
                broker_epoch=epoch if broker_id == 2 else 10,
                applied_height=100,
                better_claims=claims if broker_id == 2 else {},
            )
            controller.heartbeat(beat, image, 1)
    if (controller.wake_at_ms() or 0) > 1:
        return image
    while (decision := controller.decide(image, 1)) is not None:
        image = after(image, decision)
    return image


@pytest.mark.parametrize("claim", [COMPLETE, UNSYNCED])
def test_replica_that_could_open_its_log_after_all_leads_and_asks_the_others(
    claim: Completeness,
) -> None:
    entry = only(decided(unreadable(), {KEY: claim}))

    assert (entry.leader, entry.isr, entry.doubts) == (2, (2,), ())
    assert entry.unclean_epoch == entry.leader_epoch, "so it asks the others before it serves"


@pytest.mark.parametrize("claims", [{}, {KEY: SHORTENED}, {(UUID(int=9), 0): COMPLETE}])
def test_replica_whose_log_is_no_better_does_not_lead(
    claims: Mapping[LogKey, Completeness],
) -> None:
    assert only(decided(unreadable(), claims)).leader == NO_LEADER


def test_heartbeat_of_an_earlier_process_claims_nothing() -> None:
    assert only(decided(unreadable(), {KEY: COMPLETE}, epoch=19)).leader == NO_LEADER


def test_complete_replica_that_is_down_is_better_than_an_unsynced_one() -> None:
    image = unreadable(isr=(1, 2), live=(2,))

    assert only(decided(image, {KEY: UNSYNCED})).leader == NO_LEADER
    assert only(decided(image, {KEY: COMPLETE})).leader == 2


def test_later_process_that_cannot_read_its_log_is_not_believed_for_an_earlier_one() -> None:
    image = unreadable()
    controller = Controller(1, ControllerConfig(session_timeout_ms=SESSION_MS))
    controller.lead(TERM, image, 0)
    beat = Heartbeat(
        broker_id=2, broker_epoch=20, applied_height=100, better_claims={KEY: COMPLETE}
    )
    controller.heartbeat(beat, image, 0)
    registered = replace(image.brokers[2], epoch=21, incarnation="later")

    later = replace(image, brokers={**image.brokers, 2: registered})

    decision = controller.decide(later, 0)
    assert decision is None or not [each for each in decision.partitions if each.leader == 2]


@pytest.mark.parametrize("claims", [{}, {KEY: COMPLETE, (UUID(int=7), 3): UNSYNCED}])
def test_claims_of_a_heartbeat_are_the_same_from_their_bytes(
    claims: Mapping[LogKey, Completeness],
) -> None:
    beat = Heartbeat(broker_id=2, broker_epoch=3, applied_height=4, better_claims=claims)

    kind, body = encode_said(beat)

    assert decode_said(Frame(kind, body)) == beat
    assert (b"logs" in body) == bool(claims), "an older controller gets no more than it knows"


@pytest.mark.parametrize(
    ("epoch", "claimed"), [("same", COMPLETE), ("older", UNSYNCED)], ids=["same", "another disk"]
)
def test_heartbeat_claims_what_the_image_doubts_and_no_more_than_its_disk_allows(
    epoch: str, claimed: Completeness
) -> None:
    world = World(brokers=2)
    level = {each.name: each.max_level for each in SUPPORTED}
    world.ctx.image = replace(world.ctx.image, features=level)
    topic_id = world.create(partitions=2)
    world.ctx.cluster.controller_id = 2
    known = world.ctx.image.brokers[1].epoch
    logs = LogClaims(logs={(topic_id, 0): UNREADABLE})
    registration = replace(
        REGISTER, logs=logs, previous_epoch=known if epoch == "same" else known - 1
    )
    joining = Enrolment(world.ctx, registration, heartbeat_ms=1, proposal_timeout_ms=1_000)
    joining.step()
    world.advance(10)
    before = joining.step()
    assert before is not None
    assert before.better_claims == {}

    world.ctx.hosted.better_claims |= {(topic_id, 0): COMPLETE, (UUID(int=5), 0): COMPLETE}
    world.advance(10)
    beat = joining.step()

    assert beat is not None
    assert beat.better_claims == {(topic_id, 0): claimed}


@pytest.mark.parametrize("is_only_replica", [False, True])
def test_log_opened_after_a_passing_error_claims_what_it_is(*, is_only_replica: bool) -> None:
    files, tp, topic_id = MemoryFiles(), TopicPartition("t", 0), UUID(int=1)
    wanted = ToHost(tp, topic_id, TopicSettings(), is_only_replica=is_only_replica)
    world = World()
    log = Hosting(LogManager(files), world.clock).open(tp, topic_id, wanted.settings, 0).log
    append(log, [b"a"])
    log.close()
    hosting = Hosting(LogManager(files), world.clock)
    identity = files.names[f"{tp}/partition.json"]
    identity.unreadable.add(0)
    assert hosting.prepare([wanted]).of((topic_id, 0)) is UNREADABLE

    identity.unreadable.clear()
    hosted = hosting.open(tp, topic_id, wanted.settings, 0)

    assert hosted.better_claim is COMPLETE


def test_better_claim_of_a_log_ends_with_it() -> None:
    world = World()
    world.create()
    world.produce(batch_of(b"a"))
    again = World(world.settings, files=world.files, history=world.raft.committed, reconciled=False)
    (wanted,) = to_be_hosted(again.ctx)
    again.hosting._claims = LogClaims(logs={(wanted.topic_id, 0): UNREADABLE})
    again.follow()
    assert again.ctx.hosted.better_claims == {(wanted.topic_id, 0): COMPLETE}

    again.delete("orders")

    assert again.ctx.hosted.better_claims == {}
