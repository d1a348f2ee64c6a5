"""Metadata and its like: what a client learns of the cluster."""

from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.changes import CreateTopic, Decision, PartitionState
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import (
    describe_cluster,
    describe_log_dirs,
    describe_topic_partitions,
    metadata,
)
from tests.unit.josefine_broker.api.world import TERM, World, batch_of


def ask(world: World, topics: tuple[str | UUID, ...] | None, *, create: bool = True) -> Any:
    wanted = None
    if topics is not None:
        wanted = tuple(
            metadata.MetadataRequestTopic(topic_id=each)
            if isinstance(each, UUID)
            else metadata.MetadataRequestTopic(name=each)
            for each in topics
        )
    return world.ask(3, metadata.MetadataRequest(topics=wanted, allow_auto_topic_creation=create))


def names(response: Any) -> list[str]:
    return [topic.name for topic in response.topics]


def test_cluster_brokers_and_controller_are_the_images() -> None:
    """Checklist row 19."""
    world = World(brokers=2)
    world.ctx.cluster.controller_id = 2

    response = ask(world, ())

    assert (response.cluster_id, response.controller_id) == ("test-cluster", 2)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "host1", 9091),
        (2, "host2", 9092),
    ]


def test_all_topics_none_by_name_and_by_id() -> None:
    """Checklist row 19."""
    world = World()
    topic_id = world.create("a")
    world.create("b")

    assert names(ask(world, None)) == ["a", "b"]
    assert names(ask(world, ())) == []
    assert names(ask(world, ("b",))) == ["b"]
    assert names(ask(world, (topic_id,))) == ["a"]


def test_partitions_carry_leader_epoch_and_isr() -> None:
    """Checklist row 19."""
    world = World(brokers=3)
    replicas = ((1, 2, 3), (3, 1, 2))
    topic_id = world.topic_id()
    world.propose(CreateTopic(name="orders", topic_id=topic_id, replicas=replicas))
    entry = world.ctx.image.topics["orders"].partitions[0]
    moved = PartitionState.of(topic_id, 0, entry, entry)._replace(
        leader=2, leader_epoch=1, isr=(2, 3)
    )
    world.propose(Decision(controller_term=TERM, reason="test", partitions=(moved,)))

    partitions = ask(world, ("orders",)).topics[0].partitions

    assert [
        (p.partition_index, p.leader_id, p.leader_epoch, p.replica_nodes, p.isr_nodes)
        for p in partitions
    ] == [(0, 2, 1, (1, 2, 3), (2, 3)), (1, 3, 0, (3, 1, 2), (3, 1, 2))]


def test_unknown_name_and_id_have_their_errors() -> None:
    """Checklist row 19."""
    world = World()

    topics = ask(world, ("nope", UUID(int=5), "no/name")).topics

    assert [t.error_code for t in topics] == [
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
        ErrorCode.invalid_topic_exception,
    ]
    assert topics[1].name is None


def test_unknown_topic_is_made_when_client_and_broker_allow_it() -> None:
    world = World(BrokerSettings(auto_create_topics=True, default_partitions=3))

    refused = ask(world, ("orders",), create=False).topics[0]
    created = ask(world, ("orders", "orders")).topics

    assert refused.error_code == ErrorCode.unknown_topic_or_partition
    assert [t.error_code for t in created] == [ErrorCode.none]
    assert len(created[0].partitions) == 3


def test_topic_asked_for_by_id_is_never_made() -> None:
    world = World(BrokerSettings(auto_create_topics=True))
    both = metadata.MetadataRequestTopic(name="orders", topic_id=UUID(int=5))

    topics = world.ask(3, metadata.MetadataRequest(topics=(both,))).topics

    assert [t.error_code for t in topics] == [ErrorCode.unknown_topic_id]
    assert dict(world.ctx.image.topics) == {}


def test_answer_waits_for_the_topic_it_makes() -> None:
    world = World(BrokerSettings(auto_create_topics=True))
    world.raft.at_once = False

    waiting = ask(world, ("orders",))
    assert isinstance(waiting, Parked)
    world.raft.deliver()

    response: Any = waiting.response
    assert response.topics[0].error_code == ErrorCode.none


def test_topic_that_cannot_be_made_has_the_reason() -> None:
    world = World(BrokerSettings(auto_create_topics=True, default_replication_factor=3))

    topics = ask(world, ("orders", "no/name", "__consumer_offsets")).topics

    assert [t.error_code for t in topics] == [
        ErrorCode.invalid_replication_factor,
        ErrorCode.invalid_topic_exception,
        ErrorCode.unknown_topic_or_partition,
    ]


def test_client_of_an_unknown_listener_sees_no_leaders() -> None:
    world = World()
    world.create()
    api_request = metadata.MetadataRequest(topics=None)
    world.ctx.image = type(world.ctx.image)(
        cluster_id="c", topics=world.ctx.image.topics, topic_names=world.ctx.image.topic_names
    )

    partition = world.ask(3, api_request).topics[0].partitions[0]

    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)


def test_operations_are_told_only_when_asked_for() -> None:
    """KIP-430."""
    world = World()
    world.create()
    request = metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True)

    assert world.ask(3, request).topics[0].topic_authorized_operations == 3576
    assert ask(world, None).topics[0].topic_authorized_operations == -(2**31)


def test_operations_on_the_cluster_are_told_in_the_versions_that_have_them() -> None:
    """librdkafka describes clusters so; newer clients have DescribeCluster."""
    world = World()
    asked = metadata.MetadataRequest(topics=(), include_cluster_authorized_operations=True)

    assert world.ask(3, asked, version=10).cluster_authorized_operations == 8096
    assert ask(world, ()).cluster_authorized_operations == -(2**31)


def test_cluster_is_described() -> None:
    world = World(brokers=2)

    response = world.ask(60, describe_cluster.DescribeClusterRequest())

    assert [b.broker_id for b in response.brokers] == [1, 2]
    controllers = describe_cluster.DescribeClusterRequest(endpoint_type=2)
    assert world.ask(60, controllers).error_code == ErrorCode.mismatched_endpoint_type
    nobody = describe_cluster.DescribeClusterRequest(endpoint_type=3)
    assert world.ask(60, nobody).error_code == ErrorCode.unsupported_endpoint_type


def test_log_directories_tell_the_size_of_each_partition() -> None:
    world = World()
    world.create(partitions=2)
    batch = batch_of(b"a")
    world.produce(batch)

    everything = world.ask(35, describe_log_dirs.DescribeLogDirsRequest(topics=None))
    one = describe_log_dirs.DescribableLogDirTopic(topic="orders", partitions=(1, 7))
    some = world.ask(35, describe_log_dirs.DescribeLogDirsRequest(topics=(one,)))

    sizes = [p.partition_size for p in everything.results[0].topics[0].partitions]
    assert sizes == [len(batch), 0]
    assert [p.partition_index for p in some.results[0].topics[0].partitions] == [1]


@pytest.mark.parametrize("limit", range(1, 8))
def test_pages_of_partitions_make_the_whole(limit: int) -> None:
    """KIP-966."""
    world = World()
    for name, partitions in (("a", 3), ("b", 1), ("c", 2)):
        world.create(name, partitions)
    seen = []
    cursor = None
    while True:
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=limit, cursor=cursor
        )
        response = world.ask(75, request)
        page = [(t.name, p.partition_index) for t in response.topics for p in t.partitions]
        assert 1 <= len(page) <= limit
        seen += page
        cursor = response.next_cursor
        if cursor is None:
            break

    assert seen == [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("c", 0), ("c", 1)]


def test_unknown_topic_is_described_as_such() -> None:
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=(describe_topic_partitions.TopicRequest(name="nope"),)
    )

    (topic,) = World().ask(75, request).topics

    assert topic.error_code == ErrorCode.unknown_topic_or_partition


def test_page_behind_a_topic_that_is_gone_begins_with_the_first_partition_of_the_next() -> None:
    world = World()
    world.create("a", 3)
    world.create("c", 3)
    cursor = describe_topic_partitions.Cursor(topic_name="b", partition_index=2)
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=(), cursor=cursor)

    response = world.ask(75, request)

    seen = [(t.name, p.partition_index) for t in response.topics for p in t.partitions]
    assert seen == [("c", 0), ("c", 1), ("c", 2)]
