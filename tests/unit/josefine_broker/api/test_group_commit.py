"""Where a topic's records must be synced to count (`flush.messages=1`), nothing is acknowledged,
counted or shown before; the syncs are apart from the appends."""

from __future__ import annotations

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.coordinators.offsets_topic import store_offsets
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.api.world import World, batch_of, values_in


def produce(world: World, value: bytes, acks: int = -1) -> object:
    """The answer, or the Parked that waits for it."""
    parts = (ProducePartition(0, memoryview(bytearray(batch_of(value)))),)
    request = ProduceRequest(None, acks, 1_000, (ProduceTopic("orders", None, parts),))
    return world.ask(0, request, version=12)


def test_only_replica_acknowledges_and_shows_a_record_once_it_is_synced() -> None:
    syncs = ManualSyncs()
    world = World(group=syncs.group)
    world.create(flush_messages="1")

    waiting = produce(world, b"a")
    assert isinstance(waiting, Parked)
    assert values_in(world.fetch(0)) == []

    syncs.settle()
    assert waiting.response.topics[0].partitions[0].error_code == 0  # type: ignore[union-attr]
    assert values_in(world.fetch(0)) == [b"a"]


def test_acks_1_does_not_wait_for_the_sync() -> None:
    syncs = ManualSyncs()
    world = World(group=syncs.group)
    world.create(flush_messages="1")

    assert not isinstance(produce(world, b"a", acks=1), Parked)
    assert values_in(world.fetch(0)) == []


def test_failed_sync_refuses_whoever_waits_for_it() -> None:
    syncs = ManualSyncs()
    world = World(group=syncs.group)
    world.create(flush_messages="1")
    waiting = produce(world, b"a")
    assert isinstance(waiting, Parked)

    world.files.failing_sync = True
    syncs.settle()

    part = waiting.response.topics[0].partitions[0]  # type: ignore[union-attr]
    assert part.error_code == ErrorCode.kafka_storage_error
    assert "sync failed" in part.error_message
    assert values_in(world.fetch(0)) == []


def test_high_watermark_waits_for_the_sync_of_each_replica_in_sync() -> None:
    syncs = {1: ManualSyncs(), 2: ManualSyncs()}
    cluster = Replicas(2, groups={id_: each.group for id_, each in syncs.items()})
    cluster.create(replicas=((1, 2),), flush_messages="1")
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()
    assert cluster.log_end(2) == 1
    assert cluster.high_watermark(1) == 0

    syncs[1].settle()
    cluster.run()
    assert cluster.high_watermark(1) == 0

    syncs[2].settle()
    cluster.run()
    assert cluster.high_watermark(1) == 1


def test_high_watermark_waits_for_the_leaders_own_sync_last() -> None:
    syncs = {1: ManualSyncs(), 2: ManualSyncs()}
    cluster = Replicas(2, groups={id_: each.group for id_, each in syncs.items()})
    cluster.create(replicas=((1, 2),), flush_messages="1")
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()
    syncs[2].settle()
    cluster.run()
    assert cluster.high_watermark(1) == 0

    syncs[1].settle()
    assert cluster.high_watermark(1) == 1


def test_follower_takes_what_came_while_it_synced_with_its_next_fetch() -> None:
    """Nothing is lost of the throughput: a fetch takes all that there is by then."""
    syncs = {2: ManualSyncs()}
    cluster = Replicas(2, groups={2: syncs[2].group})
    cluster.create(replicas=((1, 2),), flush_messages="1")
    cluster.run()
    for number in range(5):
        cluster.produce(1, b"%d" % number)
        cluster.run()
    assert cluster.log_end(2) == 1

    syncs[2].settle()
    cluster.run()
    assert cluster.log_end(2) == 5
    syncs[2].settle()
    cluster.run()
    assert cluster.high_watermark(1) == 5


def test_leader_that_was_a_follower_counts_only_what_it_has_synced() -> None:
    syncs = {2: ManualSyncs()}
    cluster = Replicas(2, groups={2: syncs[2].group})
    cluster.create(replicas=((1, 2),), flush_messages="1")
    cluster.run()
    cluster.produce(1, b"a")
    cluster.run()

    cluster.kill(1)
    assert cluster.hosted(2).partition.is_leader
    assert cluster.high_watermark(2) == 0

    syncs[2].settle()
    assert cluster.high_watermark(2) == 1


def test_offset_commit_counts_once_it_is_synced_unless_the_broker_is_told_otherwise() -> None:
    tp = TopicPartition("orders", 0)
    for flush in (True, False):
        syncs = ManualSyncs()
        offsets = OffsetsSettings(flush=flush)
        settings = BrokerSettings(auto_create_topics=False, offsets=offsets)
        world = World(settings, group=syncs.group)
        world.create(OFFSETS_TOPIC)
        told: list[object] = []

        token = store_offsets(world.ctx, "g", [(tp, CommittedOffset(5, -1, "", 0))], told.append)

        assert isinstance(token, Parked) is flush
        committed = world.ctx.clients.groups.coordinator.offsets
        assert (tp not in committed.committed("g")) is flush
        syncs.settle()
        assert told == [None]
        assert tp in committed.committed("g")
