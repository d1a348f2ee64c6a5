"""New replicas go to live brokers over racks; clients are told of those that serve."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.api.shared.topics import LISTED_MS
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.metadata.changes import (
    CreateTopic,
    Decision,
    PartitionState,
    UnregisterBroker,
)
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import NO_LEADER, PartitionEntry
from josefine_broker.wire.entities import (
    api_versions,
    create_partitions,
    create_topics,
    describe_cluster,
    describe_topic_partitions,
    find_coordinator,
    metadata,
)
from tests.unit.josefine_broker.api.world import TERM, World


def create(
    world: World,
    partitions: int = 4,
    factor: int = 2,
    assignments: dict[int, tuple[int, ...]] | None = None,
) -> Any:
    e = create_topics
    topic = e.CreatableTopic(
        name="orders",
        num_partitions=-1 if assignments else partitions,
        replication_factor=-1 if assignments else factor,
        assignments=tuple(
            e.CreatableReplicaAssignment(partition_index=index, broker_ids=ids)
            for index, ids in (assignments or {}).items()
        ),
        configs=(),
    )
    return world.ask(19, e.CreateTopicsRequest(topics=(topic,))).topics[0]


def grow(world: World, count: int, assignments: tuple[tuple[int, ...], ...] | None = None) -> Any:
    e = create_partitions
    wanted = e.CreatePartitionsTopic(
        name="orders",
        count=count,
        assignments=None
        if assignments is None
        else tuple(e.CreatePartitionsAssignment(broker_ids=ids) for ids in assignments),
    )
    request = e.CreatePartitionsRequest(topics=(wanted,), timeout_ms=1000)
    return world.ask(37, request).results[0]


def entries(world: World) -> tuple[PartitionEntry, ...]:
    return world.ctx.image.topics["orders"].partitions


def used(world: World) -> set[int]:
    return {each for entry in entries(world) for each in entry.replicas}


@pytest.mark.parametrize("how", ["fenced", "shutting_down"])
def test_new_replicas_go_to_live_brokers_only(how: str) -> None:
    """Checklist row 20."""
    world = World(brokers=4)
    world.judge(3, fenced=how == "fenced", shutting_down=how == "shutting_down")

    assert create(world, 8).error_code == ErrorCode.none
    assert grow(world, 12).error_code == ErrorCode.none

    assert used(world) == {1, 2, 4}


def test_more_replicas_than_registered_brokers_are_refused_in_one_clear_sentence() -> None:
    """Checklist row 20."""
    world = World(brokers=3)
    world.fence(3)

    result = create(world, factor=4)

    assert result.error_code == ErrorCode.invalid_replication_factor
    assert result.error_message == "replication factor 4 is not possible: 3 brokers are registered"


@pytest.mark.parametrize("how", ["fenced", "shutting_down"])
def test_a_topic_is_made_while_one_of_its_brokers_restarts(how: str) -> None:
    """That broker is not in sync at birth, and leads nothing."""
    world = World(brokers=3)
    world.judge(3, fenced=how == "fenced", shutting_down=how == "shutting_down")

    assert create(world, 4, factor=3).error_code == ErrorCode.none
    assert grow(world, 6).error_code == ErrorCode.none

    assert len(entries(world)) == 6
    for entry in entries(world):
        assert set(entry.replicas[:2]) == {1, 2} == set(entry.isr)
        assert entry.replicas[2] == 3
        assert entry.leader == entry.replicas[0]


def test_replicas_of_a_partition_are_in_different_racks() -> None:
    """KIP-36."""
    world = World(brokers=1)
    racks = {1: "a", 2: "a", 3: "b", 4: "b"}
    for broker_id, rack in racks.items():
        world.start_broker(broker_id, rack)

    create(world, 12, 2)
    grow(world, 24)

    for entry in entries(world):
        assert len({racks[each] for each in entry.replicas}) == 2


def test_chosen_broker_that_is_not_live_is_not_in_sync_at_birth() -> None:
    world = World(brokers=3)
    world.fence(3)

    create(world, assignments={0: (3, 1), 1: (2, 3)})
    grow(world, 3, ((3, 2),))

    assert [(each.leader, each.isr) for each in entries(world)] == [
        (1, (1,)),
        (2, (2,)),
        (2, (2,)),
    ]


def test_partition_needs_one_chosen_broker_that_is_live() -> None:
    world = World(brokers=2)
    world.fence(2)

    result = create(world, assignments={0: (2,)})

    assert result.error_code == ErrorCode.invalid_replica_assignment
    assert result.error_message == "partition 0: none of brokers [2] is live"


def test_partitions_are_added_after_the_first_leader_was_unregistered() -> None:
    world = World(brokers=3)
    world.propose(CreateTopic(name="orders", topic_id=world.topic_id(), replicas=((2, 1),)))
    topic = world.ctx.image.topics["orders"]
    old = topic.partitions[0]
    moved = PartitionState.of(topic.topic_id, 0, old, old)._replace(
        replicas=(1, 3), isr=(1,), leader=1, leader_epoch=1
    )
    world.propose(Decision(controller_term=TERM, reason="moved", partitions=(moved,)))
    world.propose(UnregisterBroker(broker_id=2))

    assert grow(world, 4).error_code == ErrorCode.none
    assert used(world) == {1, 3}


def test_partitions_are_added_while_the_first_leader_is_not_live() -> None:
    world = World(brokers=3)
    world.propose(CreateTopic(name="orders", topic_id=world.topic_id(), replicas=((3,),)))
    world.fence(3)

    assert grow(world, 3).error_code == ErrorCode.none
    assert [each.replicas for each in entries(world)[1:]] == [(2,), (1,)]


def test_new_partitions_have_as_many_replicas_as_the_topic_will_have() -> None:
    """A reassignment under way has more for a while."""
    world = World(brokers=3)
    world.propose(CreateTopic(name="orders", topic_id=world.topic_id(), replicas=((1,),)))
    topic = world.ctx.image.topics["orders"]
    old = topic.partitions[0]
    moving = PartitionState.of(topic.topic_id, 0, old, old)._replace(
        replicas=(2, 1), adding=(2,), removing=(1,)
    )
    world.propose(Decision(controller_term=TERM, reason="moving", partitions=(moving,)))

    grow(world, 2)

    assert len(entries(world)[1].replicas) == 1


def describe(world: World, **fields: Any) -> list[tuple[int, bool]]:
    answer = world.ask(60, describe_cluster.DescribeClusterRequest(**fields))
    return [(each.broker_id, each.is_fenced) for each in answer.brokers]


def test_clients_learn_of_brokers_that_serve() -> None:
    """Checklist row 19; one that is about to stop still leads."""
    world = World(brokers=4)
    world.fence(2)
    world.judge(3, shutting_down=True)
    world.advance(LISTED_MS)

    answer = world.ask(3, metadata.MetadataRequest(topics=()))

    assert [each.node_id for each in answer.brokers] == [1, 3, 4]
    assert describe(world) == [(1, False), (3, False), (4, False)]


def test_fenced_broker_stays_named_behind_the_others_while_clients_find_the_new_leader() -> None:
    world = World(brokers=3)

    def named() -> list[int]:
        answer = world.ask(3, metadata.MetadataRequest(topics=()))
        return [each.node_id for each in answer.brokers]

    world.fence(2)
    world.advance(LISTED_MS - 1)
    assert named() == [1, 3, 2]
    world.advance(1)
    assert named() == [1, 3]
    world.fence(2, fenced=False)
    assert named() == [1, 2, 3]


def test_fenced_brokers_are_told_to_who_asks_for_them() -> None:
    """KIP-1073."""
    world = World(brokers=2)
    world.fence(2)

    assert describe(world, include_fenced_brokers=True) == [(1, False), (2, True)]


def test_racks_are_told() -> None:
    world = World(brokers=1)
    world.start_broker(2, "east")

    brokers = world.ask(3, metadata.MetadataRequest(topics=())).brokers

    assert [each.rack for each in brokers] == [None, "east"]


def test_partition_without_a_leader_says_so_and_which_replicas_are_away() -> None:
    world = World(brokers=3)
    world.propose(CreateTopic(name="orders", topic_id=world.topic_id(), replicas=((2, 3),)))
    topic = world.ctx.image.topics["orders"]
    old = topic.partitions[0]
    nobody = PartitionState.of(topic.topic_id, 0, old, old)._replace(
        leader=NO_LEADER, leader_epoch=1, isr=(2,), elr=(3,)
    )
    world.propose(Decision(controller_term=TERM, reason="gone", partitions=(nobody,)))
    world.fence(2)

    named = metadata.MetadataRequestTopic(name="orders")
    told = world.ask(3, metadata.MetadataRequest(topics=(named,))).topics[0].partitions[0]
    page = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=())
    described = world.ask(75, page).topics[0].partitions[0]

    for each in (told, described):
        assert each.error_code == ErrorCode.leader_not_available
        assert (each.leader_id, each.leader_epoch) == (-1, 1)
        assert (each.isr_nodes, each.offline_replicas) == ((2,), (2,))
    assert described.eligible_leader_replicas == (3,)


def coordinator(world: World) -> Any:
    request = find_coordinator.FindCoordinatorRequest(coordinator_keys=("g",))
    return world.ask(10, request).coordinators[0]


def test_coordinator_is_not_available_while_its_broker_is_fenced() -> None:
    world = World(BrokerSettings(offsets=OffsetsSettings(partitions=1)), brokers=1)
    assert coordinator(world).node_id == 1

    world.fence(1)

    assert coordinator(world).error_code == ErrorCode.coordinator_not_available


def test_coordinator_waits_for_enough_brokers_to_hold_the_offsets_topic() -> None:
    """Every client asks again after this code; none does after INVALID_REPLICATION_FACTOR."""
    world = World(BrokerSettings(default_replication_factor=3), brokers=2)

    answer = coordinator(world)

    assert answer.error_code == ErrorCode.coordinator_not_available
    assert answer.error_message == "replication factor 3 is not possible: 2 brokers are registered"


def test_features_are_told_to_every_client() -> None:
    """KIP-584."""
    world = World(brokers=2)

    answer = world.ask(18, api_versions.ApiVersionsRequest())

    assert [(f.name, f.min_version, f.max_version) for f in answer.supported_features] == [
        (each.name, each.min_level, each.max_level) for each in SUPPORTED
    ]
    assert [
        (f.name, f.min_version_level, f.max_version_level) for f in answer.finalized_features
    ] == sorted((each.name, each.max_level, each.max_level) for each in SUPPORTED)
    assert answer.finalized_features_epoch == 1, "the block that set them"


def test_features_that_may_be_at_0_are_not_told_to_who_does_not_expect_it() -> None:
    """KIP-1022: Java clients before 4.0 fail on such a range; they ask in version 3."""
    answer = World().ask(18, api_versions.ApiVersionsRequest(), version=3)

    assert [each.name for each in answer.supported_features] == [
        each.name for each in SUPPORTED if each.min_level
    ]
