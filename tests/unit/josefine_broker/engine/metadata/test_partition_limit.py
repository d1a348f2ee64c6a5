"""No broker is given more partitions than it may host, whichever way they come."""

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.partition_limit import PartitionLimit
from josefine_broker.wire.entities import alter_partition_reassignments as moves
from josefine_broker.wire.entities import create_partitions, create_topics, metadata
from tests.unit.josefine_broker.api.world import World
from tests.unit.josefine_broker.engine.metadata.images import image_of, partition

MAX = 10


@pytest.fixture
def limited_world() -> World:
    """Brokers 1 and 2 may host ten each, and host eight."""
    world = World(BrokerSettings(partitions_max=MAX, auto_create_topics=True), brokers=2)
    assert codes(create(world, first=(8, 2))) == [ErrorCode.none]
    return world


def create(world: World, **topics: tuple[int, int]) -> Any:
    """Topics of so many partitions and replicas, in one request."""
    e = create_topics
    wanted = tuple(
        e.CreatableTopic(
            name=name, num_partitions=count, replication_factor=factor, assignments=(), configs=()
        )
        for name, (count, factor) in topics.items()
    )
    return world.ask(19, e.CreateTopicsRequest(topics=wanted))


def codes(answer: Any) -> list[ErrorCode]:
    return [each.error_code for each in answer.topics]


def grow(world: World, name: str, count: int) -> ErrorCode:
    e = create_partitions
    topic = e.CreatePartitionsTopic(name=name, count=count, assignments=None)
    answer = world.ask(37, e.CreatePartitionsRequest(topics=(topic,), timeout_ms=1000))
    code: ErrorCode = answer.results[0].error_code
    return code


def ask_for(world: World, name: str) -> ErrorCode:
    """As a producer does, to have it made."""
    topic = metadata.MetadataRequestTopic(name=name)
    answer = world.ask(3, metadata.MetadataRequest(topics=(topic,), allow_auto_topic_creation=True))
    code: ErrorCode = answer.topics[0].error_code
    return code


def test_topics_of_one_request_are_counted_together(limited_world: World) -> None:
    """KIP-578; who asks is told the numbers."""
    answer = create(limited_world, fits=(4, 1), fits_no_more=(2, 1), fits_neither=(1, 2))

    assert codes(answer) == [ErrorCode.none, *[ErrorCode.policy_violation] * 2]
    assert answer.topics[1].error_message == (
        "broker 1 hosts 10 partitions and would host 11; broker.partitions_max is 10"
    )


def test_what_is_deleted_makes_room(limited_world: World) -> None:
    create(limited_world, full=(4, 1))
    assert codes(create(limited_world, one=(1, 1))) == [ErrorCode.policy_violation]

    limited_world.delete("full")

    assert codes(create(limited_world, one=(1, 1))) == [ErrorCode.none]


def test_partitions_added_later_are_counted(limited_world: World) -> None:
    assert grow(limited_world, "first", 11) is ErrorCode.policy_violation
    assert grow(limited_world, "first", 10) is ErrorCode.none


def test_topics_made_for_who_asks_are_counted(limited_world: World) -> None:
    create(limited_world, full=(4, 1))

    assert ask_for(limited_world, "new") is ErrorCode.policy_violation
    assert "new" not in limited_world.ctx.image.topics


def test_moves_to_a_broker_are_counted_and_moves_within_it_are_not() -> None:
    world = World(BrokerSettings(partitions_max=2, auto_create_topics=False), brokers=3)
    create(world, both=(2, 2))
    target = next(
        each
        for each in (1, 2, 3)
        if sum(each in entry.replicas for entry in world.ctx.image.topics["both"].partitions) == 2
    )
    create(world, other=(1, 1))
    assert len(world.ctx.image.topics) == 2

    def move(topic: str, replicas: tuple[int, ...]) -> ErrorCode:
        part = moves.ReassignablePartition(partition_index=0, replicas=replicas)
        wanted = moves.ReassignableTopic(name=topic, partitions=(part,))
        request = moves.AlterPartitionReassignmentsRequest(timeout_ms=1000, topics=(wanted,))
        code: ErrorCode = world.ask(45, request).responses[0].partitions[0].error_code
        return code

    before = world.ctx.image.topics["both"].partitions[0].replicas
    assert move("other", (target,)) is ErrorCode.policy_violation
    assert move("both", before[::-1]) is ErrorCode.none


def test_room_is_taken_by_each_topic_of_a_request_or_by_none_of_its_partitions() -> None:
    limit = PartitionLimit(image_of([partition((1, 2)), partition((1, 3))]), 3)

    limit.take([(1,)])
    with pytest.raises(KafkaError, match="broker 1 hosts 3 partitions and would host 4"):
        limit.take([(2,), (1,)])
    limit.take([(2, 3), (2, 3)])
    with pytest.raises(KafkaError, match="broker 2 hosts 3 partitions and would host 4"):
        limit.take([(2,)])
