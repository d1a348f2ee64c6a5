"""Well-behaved clients are not made to ask all the time, whatever they are answered: every polling
API with the codes that it has. (Fetch is in test_fetch_waits.py.)"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.coordinators.loading_groups import begin_loading, groups_moved
from josefine_broker.engine.coordinators.offsets_topic import coordinator_of
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.engine.metadata.image import OFFSETS_TOPIC
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.group_clients import GROUP, commit, group_world
from tests.unit.josefine_broker.api.polling_clients import (
    BACK_OFF_MS,
    Client,
    Polls,
    consumer,
    member,
    poller,
)
from tests.unit.josefine_broker.api.world import World, batch_of

SPAN_MS = 30_000
_E = ErrorCode
FIND, JOIN, SYNC, BEAT = (
    apis.FIND_COORDINATOR, apis.JOIN_GROUP, apis.SYNC_GROUP, apis.HEARTBEAT,
)  # fmt: skip
CONSUME = apis.CONSUMER_GROUP_HEARTBEAT
FEW = 40
"""Requests of a client for which all is well in the end, or which gives up."""
PACED = 2 * SPAN_MS // BACK_OFF_MS + FEW
"""Of one that asks again after a pause for all of the time, and for the coordinator besides."""


class Case(NamedTuple):
    """What is wrong, what clients are told of it, and how many requests that takes at most."""

    world: Callable[[], World]
    clients: Callable[[Polls], tuple[Client, ...]]
    told: set[tuple[int, ErrorCode]]
    requests_max: int


def forbidding() -> World:
    world = group_world()
    world.ctx.clients.authorizer = Authorizer(frozenset())
    return world


def coordinated_elsewhere() -> World:
    world = World(BrokerSettings(auto_create_topics=False), brokers=2)
    world.create()
    world.propose(CreateTopic(name=OFFSETS_TOPIC, topic_id=world.topic_id(), replicas=((2,),) * 8))
    return world


def too_few_brokers() -> World:
    return World(BrokerSettings(default_replication_factor=3))


def loading() -> World:
    """The disk fails for as long as the test takes: nothing of its partition can be read."""
    world = group_world()
    commit(world, 1)
    tp, hosted = coordinator_of(world.ctx, GROUP)

    def failing(*_: Any, **__: Any) -> Any:
        raise KafkaError(ErrorCode.kafka_storage_error, "no")

    hosted.log.read = failing  # type: ignore[method-assign]
    begin_loading(world.ctx, tp, hosted)
    groups_moved(world.ctx)
    return world


def full() -> World:
    return group_world(size_max=1)


def of_other_protocol() -> World:
    """Consumers are in the group, and classic members may not come."""
    world = group_world()
    polls = Polls(world)
    polls.run(consumer(polls, "there"), span_ms=1)
    return world


def one(**fields: Any) -> Callable[[Polls], tuple[Client, ...]]:
    return lambda polls: (member(polls, **fields),)


def two(**fields: Any) -> Callable[[Polls], tuple[Client, ...]]:
    """The second comes when the first has all."""
    return lambda polls: (member(polls, **fields), member(polls, after_ms=10_000, **fields))


def consumers(*names: str, **fields: Any) -> Callable[[Polls], tuple[Client, ...]]:
    return lambda polls: tuple(consumer(polls, name, **fields) for name in names)


CASES: dict[str, Case] = {
    "all is well": Case(group_world, one(), {(JOIN, _E.member_id_required)}, FEW),
    "a second member": Case(group_world, two(), {(BEAT, _E.rebalance_in_progress)}, FEW),
    "an instance id that is another's": Case(
        group_world, two(instance_id="i"), {(BEAT, _E.fenced_instance_id)}, FEW
    ),
    "a group that is full": Case(full, two(), {(JOIN, _E.group_max_size_reached)}, FEW),
    "a session that is too short": Case(
        group_world, one(session_ms=1), {(JOIN, _E.invalid_session_timeout)}, FEW
    ),
    "a group without a name": Case(group_world, one(group=""), {(JOIN, _E.invalid_group_id)}, FEW),
    "no protocol in common": Case(
        group_world,
        lambda polls: (member(polls, protocols=("a",)), member(polls, protocols=("b",))),
        {(JOIN, _E.inconsistent_group_protocol)},
        FEW,
    ),
    "a group of the other protocol": Case(
        of_other_protocol, one(), {(JOIN, _E.inconsistent_group_protocol)}, FEW
    ),
    "no ACL": Case(forbidding, one(), {(FIND, _E.group_authorization_failed)}, FEW),
    "a coordinator that is elsewhere": Case(
        coordinated_elsewhere, one(), {(JOIN, _E.not_coordinator)}, PACED
    ),
    "no coordinator": Case(
        too_few_brokers, one(), {(FIND, _E.coordinator_not_available)}, PACED
    ),
    "a coordinator that reads its log": Case(
        loading, one(), {(JOIN, _E.coordinator_load_in_progress)}, PACED
    ),
    "consumers": Case(group_world, consumers("a", "b"), {(CONSUME, _E.none)}, FEW),
    "a consumer group that is full": Case(
        lambda: group_world(size_max=1), consumers("a", "b"),
        {(CONSUME, _E.group_max_size_reached)}, FEW,
    ),
    "an assignor that there is not": Case(
        group_world, consumers("a", server_assignor="odd"),
        {(CONSUME, _E.unsupported_assignor)}, FEW,
    ),
    "an expression that is none": Case(
        group_world,
        consumers("a", subscribed_topic_regex="(", subscribed_topic_names=()),
        {(CONSUME, _E.invalid_regular_expression)},
        FEW,
    ),
    "an instance id that a consumer has": Case(
        group_world, consumers("a", "b", instance_id="i"),
        {(CONSUME, _E.unreleased_instance_id)}, FEW,
    ),
    "consumers without an ACL": Case(
        forbidding, consumers("a"), {(CONSUME, _E.group_authorization_failed)}, FEW
    ),
    "consumers of a coordinator that is elsewhere": Case(
        coordinated_elsewhere, consumers("a"), {(CONSUME, _E.not_coordinator)}, PACED
    ),
    "consumers of a coordinator that reads its log": Case(
        loading, consumers("a"), {(CONSUME, _E.coordinator_load_in_progress)}, PACED
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_clients_of_groups_do_not_spin(name: str) -> None:
    case = CASES[name]
    polls = Polls(case.world())

    polls.run(*case.clients(polls), span_ms=SPAN_MS)

    assert case.told <= polls.told
    assert polls.asked.total() <= case.requests_max, polls.asked


def test_members_who_were_forgotten_join_again_once() -> None:
    world = group_world()
    polls = Polls(world)
    polls.run(member(polls), consumer(polls, "a", group="other"), span_ms=5_000)
    before = polls.asked.total()

    world.clock.elapsed_ms += 60_000  # nobody was heard of for a minute
    world.advance(1)
    polls.run(span_ms=SPAN_MS)

    assert polls.told >= {(BEAT, _E.unknown_member_id), (CONSUME, _E.unknown_member_id)}
    assert polls.asked.total() - before <= FEW


# What is asked of partitions.


def metadata(**topic: Any) -> e.metadata.MetadataRequest:
    return e.metadata.MetadataRequest(
        topics=(e.metadata.MetadataRequestTopic(**topic),), allow_auto_topic_creation=False
    )


def offsets(topic: str = "orders", epoch: int = -1, timestamp: int = -1) -> Any:
    lo = e.list_offsets
    part = lo.ListOffsetsPartition(
        partition_index=0, timestamp=timestamp, current_leader_epoch=epoch
    )
    wanted = lo.ListOffsetsTopic(name=topic, partitions=(part,))
    return lo.ListOffsetsRequest(replica_id=-1, topics=(wanted,))


def epoch_end(topic: str = "orders", epoch: int = -1) -> Any:
    oe = e.offset_for_leader_epoch
    part = oe.OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    wanted = oe.OffsetForLeaderTopic(topic=topic, partitions=(part,))
    return oe.OffsetForLeaderEpochRequest(topics=(wanted,))


def led_elsewhere() -> World:
    world = World(BrokerSettings(auto_create_topics=False), brokers=2)
    world.propose(CreateTopic(name="orders", topic_id=world.topic_id(), replicas=((2,),)))
    return world


def leaderless() -> World:
    world = led_elsewhere()
    world.fence(2)
    return world


def plain() -> World:
    world = World(BrokerSettings(auto_create_topics=False))
    world.create()
    world.produce(batch_of(b"v"))
    return world


def closed() -> World:
    world = plain()
    world.ctx.clients.authorizer = Authorizer(frozenset())
    return world


PARTITIONS: list[tuple[Callable[[], World], int, Any, ErrorCode]] = [
    (plain, apis.METADATA, metadata(name="none"), _E.unknown_topic_or_partition),
    (plain, apis.METADATA, metadata(name="a/b"), _E.invalid_topic_exception),
    (plain, apis.METADATA, metadata(), _E.unknown_topic_id),
    (closed, apis.METADATA, metadata(name="orders"), _E.topic_authorization_failed),
    (leaderless, apis.METADATA, metadata(name="orders"), _E.leader_not_available),
    (plain, apis.LIST_OFFSETS, offsets("none"), _E.unknown_topic_or_partition),
    (plain, apis.LIST_OFFSETS, offsets(epoch=9), _E.unknown_leader_epoch),
    (plain, apis.LIST_OFFSETS, offsets(timestamp=-9), _E.unsupported_version),
    (closed, apis.LIST_OFFSETS, offsets(), _E.topic_authorization_failed),
    (led_elsewhere, apis.LIST_OFFSETS, offsets(), _E.not_leader_or_follower),
    (plain, apis.OFFSET_FOR_LEADER_EPOCH, epoch_end("none"), _E.unknown_topic_or_partition),
    (plain, apis.OFFSET_FOR_LEADER_EPOCH, epoch_end(epoch=9), _E.unknown_leader_epoch),
    (closed, apis.OFFSET_FOR_LEADER_EPOCH, epoch_end(), _E.topic_authorization_failed),
    (led_elsewhere, apis.OFFSET_FOR_LEADER_EPOCH, epoch_end(), _E.not_leader_or_follower),
]


@pytest.mark.parametrize(("make", "key", "request_", "code"), PARTITIONS)
def test_clients_of_partitions_do_not_spin(
    make: Callable[[], World], key: int, request_: Any, code: ErrorCode
) -> None:
    polls = Polls(make())

    polls.run(poller(polls, key, request_), span_ms=SPAN_MS)

    assert (key, code) in polls.told
    assert polls.asked.total() <= SPAN_MS // BACK_OFF_MS + 1
