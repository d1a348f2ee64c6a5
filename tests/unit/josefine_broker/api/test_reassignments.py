"""AlterPartitionReassignments and ListPartitionReassignments (KIP-455)."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.changes import CreateTopic, UnregisterBroker
from josefine_broker.engine.metadata.image import PartitionEntry
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import alter_partition_reassignments as e
from josefine_broker.wire.entities import list_partition_reassignments as listing
from tests.unit.josefine_broker.api.world import World

NONE = ErrorCode.none
INVALID = ErrorCode.invalid_replica_assignment


def four_brokers(*replicas: tuple[int, ...]) -> World:
    world = World(brokers=4)
    change = CreateTopic(name="orders", topic_id=world.topic_id(), replicas=replicas or ((1, 2),))
    world.propose(change)
    return world


def entry(world: World, index: int = 0) -> PartitionEntry:
    return world.ctx.image.topics["orders"].partitions[index]


def move(world: World, *targets: tuple[int, ...] | None, **fields: Any) -> Any:
    """Partition 0, 1, ... to these replicas; None cancels."""
    partitions = tuple(
        e.ReassignablePartition(partition_index=index, replicas=target)
        for index, target in enumerate(targets)
    )
    return ask(world, "orders", *partitions, **fields)


def ask(world: World, topic: str, *partitions: e.ReassignablePartition, **fields: Any) -> Any:
    topics = (e.ReassignableTopic(name=topic, partitions=partitions),)
    return world.ask(45, e.AlterPartitionReassignmentsRequest(topics=topics, **fields))


def codes(answer: e.AlterPartitionReassignmentsResponse) -> list[ErrorCode]:
    return [each.error_code for topic in answer.responses for each in topic.partitions]


def ongoing(world: World, *indexes: int, topic: str | None = "orders") -> Any:
    topics = None
    if topic is not None:
        wanted = listing.ListPartitionReassignmentsTopics(name=topic, partition_indexes=indexes)
        topics = (wanted,)
    answer = world.ask(46, listing.ListPartitionReassignmentsRequest(topics=topics))
    return {
        (found.name, each.partition_index): (
            each.replicas,
            each.adding_replicas,
            each.removing_replicas,
        )
        for found in answer.topics
        for each in found.partitions
    }


def test_partition_begins_to_move() -> None:
    world = four_brokers((1, 2), (2, 1))
    before = len(world.raft.committed)

    answer = move(world, (1, 3), (4, 2))

    assert codes(answer) == [NONE, NONE]
    assert len(world.raft.committed) == before + 1, "one proposal for the whole request"
    assert (entry(world).replicas, entry(world).isr) == ((1, 3, 2), (1, 2))
    assert (entry(world).adding, entry(world).removing) == ((3,), (2,))
    assert entry(world, 1).target == (4, 2)


def test_moves_are_listed_until_they_end() -> None:
    world = four_brokers((1, 2), (1, 2))
    move(world, (1, 3))

    moving = {("orders", 0): ((1, 3, 2), (3,), (2,))}
    assert ongoing(world, topic=None) == moving
    assert ongoing(world, 0, 1, 0, 9) == moving
    assert ongoing(world, 1) == {}
    assert ongoing(world, 0, topic="nope") == {}

    move(world, None)

    assert ongoing(world, topic=None) == {}


def test_null_cancels_a_move() -> None:
    world = four_brokers()
    move(world, (3, 4))

    assert codes(move(world, None)) == [NONE]
    assert entry(world).replicas == (1, 2)
    assert not entry(world).is_reassigning


def test_nothing_to_cancel_is_an_error() -> None:
    assert codes(move(four_brokers(), None)) == [ErrorCode.no_reassignment_in_progress]


def test_later_target_replaces_an_earlier_one() -> None:
    world = four_brokers()
    move(world, (3, 1))

    assert codes(move(world, (4, 1))) == [NONE]
    assert entry(world).target == (4, 1)
    assert entry(world).adding == (4,)


def test_partition_that_is_there_already_is_no_error() -> None:
    world = four_brokers()

    assert codes(move(world, (1, 2))) == [NONE]
    assert entry(world).partition_epoch == 0


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ((), "empty or repeated brokers []"),
        ((1, 1), "empty or repeated brokers [1, 1]"),
        ((1, 9), "unknown brokers [9]"),
        ((-1, 1), "unknown brokers [-1]"),
    ],
)
def test_target_that_no_partition_can_have_is_refused(
    target: tuple[int, ...], message: str
) -> None:
    world = four_brokers()
    before = len(world.raft.committed)

    (result,) = move(world, target).responses[0].partitions

    assert (result.error_code, result.error_message) == (INVALID, message)
    assert len(world.raft.committed) == before


def test_wrong_partition_does_not_hold_back_the_others() -> None:
    world = four_brokers((1, 2), (1, 2))

    assert codes(move(world, (9,), (1, 3), (1, 3))) == [
        INVALID,
        NONE,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert entry(world, 1).is_reassigning


def test_unknown_topic_is_told_as_such() -> None:
    answer = ask(four_brokers(), "nope", e.ReassignablePartition(partition_index=0, replicas=(1,)))

    assert codes(answer) == [ErrorCode.unknown_topic_or_partition]


def test_partition_named_twice_is_refused() -> None:
    part = e.ReassignablePartition(partition_index=0, replicas=(3, 1))

    assert codes(ask(four_brokers(), "orders", part, part)) == [ErrorCode.invalid_request] * 2


def test_replication_factor_is_kept_when_the_client_says_so() -> None:
    """KIP-860."""
    world = four_brokers()
    more = (1, 2, 3)

    refused = move(world, more, allow_replication_factor_change=False)
    assert codes(refused) == [ErrorCode.invalid_replication_factor]
    assert not refused.allow_replication_factor_change

    assert codes(move(world, more)) == [NONE]
    assert codes(move(world, (3, 4, 1), allow_replication_factor_change=False)) == [NONE]


def test_isr_keeps_its_members_until_the_new_replicas_are_in_sync() -> None:
    world = four_brokers((1,))
    move(world, (1, 2))
    move(world, (2, 3))

    assert codes(move(world, (2, 3))) == [NONE]
    assert entry(world).isr == (1,), "1 stays until the others are in sync"


def test_answer_waits_for_the_block_and_tells_what_came_of_it() -> None:
    world = four_brokers()
    world.raft.at_once = False
    first, second = move(world, (3, 1)), move(world, (4, 1))
    assert isinstance(first, Parked)
    world.raft.waiting.reverse()

    world.raft.deliver()

    assert codes(second.response) == [NONE]
    response: Any = first.response
    assert codes(response) == [NONE], "the last block holds"
    assert entry(world).target == (3, 1)


def test_move_of_a_topic_deleted_meanwhile_is_told() -> None:
    world = four_brokers()
    world.raft.at_once = False
    waiting = move(world, (3, 1))
    moving = world.raft.waiting.pop()
    world.raft.at_once = True
    world.delete("orders")

    world.raft.waiting.append(moving)
    world.raft.deliver()

    assert codes(waiting.response) == [ErrorCode.unknown_topic_or_partition]


def test_move_that_is_not_committed_in_time_is_a_timeout() -> None:
    world = four_brokers()
    world.raft.at_once = False

    waiting = move(world, (3, 1), timeout_ms=100)
    world.advance(100)

    assert codes(waiting.response) == [ErrorCode.request_timed_out]


def test_move_that_no_longer_fitted_its_block_is_told() -> None:
    """Its target left the cluster between the question and the block."""
    world = four_brokers()
    world.raft.at_once = False
    waiting = move(world, (4, 1))
    moving = world.raft.waiting.pop()
    world.raft.at_once = True
    world.propose(UnregisterBroker(broker_id=4))

    world.raft.waiting.append(moving)
    world.raft.deliver()

    assert codes(waiting.response) == [INVALID]
    assert entry(world).target == (1, 2)


def test_replication_factor_of_a_moving_partition_is_that_of_its_target() -> None:
    """KIP-860: the replicas that go are among its replicas until they are gone."""
    world = four_brokers()
    assert codes(move(world, (3, 4))) == [NONE]
    assert len(entry(world).replicas) == 4

    assert codes(move(world, (2, 3), allow_replication_factor_change=False)) == [NONE]
