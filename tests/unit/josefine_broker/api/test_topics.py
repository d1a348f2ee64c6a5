"""CreateTopics, DeleteTopics, CreatePartitions: one proposal each, answered when it is applied."""

from typing import Any
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.change_codec import decode_change
from josefine_broker.engine.metadata.changes import CreateTopic
from josefine_broker.engine.metadata_quorum.apply_committed import replace_image
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.wire.entities import create_partitions, create_topics, delete_topics
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.world import World, batch_of, values_in

NO_AUTO = BrokerSettings(auto_create_topics=False)


def wanted(
    name: str = "orders",
    partitions: int = 1,
    factor: int = 1,
    assignments: dict[int, tuple[int, ...]] | None = None,
    **config: str,
) -> create_topics.CreatableTopic:
    e = create_topics
    return e.CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=factor,
        assignments=tuple(
            e.CreatableReplicaAssignment(partition_index=p, broker_ids=ids)
            for p, ids in (assignments or {}).items()
        ),
        configs=tuple(
            e.CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in config.items()
        ),
    )


def create(world: World, *topics: create_topics.CreatableTopic, **fields: Any) -> Any:
    return world.ask(19, create_topics.CreateTopicsRequest(topics=topics, **fields))


def error_of(world: World, topic: create_topics.CreatableTopic) -> ErrorCode:
    code: ErrorCode = create(world, topic).topics[0].error_code
    return code


def delete(world: World, name: str | None = "orders", topic_id: UUID | None = None) -> Any:
    state = delete_topics.DeleteTopicState(name=name, topic_id=topic_id)
    return world.ask(20, delete_topics.DeleteTopicsRequest(topics=(state,), timeout_ms=1000))


def grow(world: World, count: int, assignments: Any = None, **fields: Any) -> Any:
    e = create_partitions
    topic = e.CreatePartitionsTopic(name="orders", count=count, assignments=assignments)
    request = e.CreatePartitionsRequest(topics=(topic,), timeout_ms=1000, **fields)
    return world.ask(37, request).results[0]


def test_refused_topics_leave_nothing_to_the_collector() -> None:
    """An error's frames have the request's, and the bytes that its connection has received."""
    world = World()
    world.create("orders")
    with uncollected():
        before = alive(KafkaError)  # those of other tests
        assert error_of(world, wanted()) is ErrorCode.topic_already_exists
        assert delete(world, "none").responses[0].error_code is not ErrorCode.none
        assert grow(world, 1).error_code is not ErrorCode.none
        assert alive(KafkaError) == before


def test_created_topic_is_there_when_the_answer_comes() -> None:
    world = World()

    result = create(world, wanted(partitions=3, retention_ms="5")).topics[0]

    topic = world.ctx.image.topics["orders"]
    assert result.error_code == ErrorCode.none
    assert (result.topic_id, result.num_partitions, result.replication_factor) == (
        topic.topic_id,
        3,
        1,
    )
    assert world.produce(partition=2).error_code == 0
    assert {c.name: c.value for c in result.configs}["retention.ms"] == "5"


def test_topic_is_one_atomic_change_with_all_its_partitions() -> None:
    """Checklist row 20."""
    world = World(brokers=3)
    before = len(world.raft.committed)

    create(world, wanted(partitions=6, factor=3))

    (payload,) = world.raft.committed[before:]
    change = decode_change(payload)[0]
    assert isinstance(change, CreateTopic)
    assert len(change.replicas) == 6


def test_leaders_are_spread_over_brokers() -> None:
    """Checklist row 20."""
    world = World(brokers=3)

    create(world, wanted(partitions=6, factor=2))

    partitions = world.ctx.image.topics["orders"].partitions
    assert sorted(p.leader for p in partitions) == [1, 1, 2, 2, 3, 3]
    assert all(len(set(p.replicas)) == 2 for p in partitions)


def test_answer_waits_for_the_block() -> None:
    world = World()
    world.raft.at_once = False

    waiting = create(world, wanted())
    assert isinstance(waiting, Parked)
    assert not waiting.done
    world.raft.deliver()

    response: Any = waiting.response
    assert response.topics[0].error_code == ErrorCode.none
    assert len(world.ctx.parked) == 0


def test_answer_of_an_uncommitted_topic_says_that_there_is_no_controller() -> None:
    world = World()
    world.raft.at_once = False
    world.ctx.ports.why_no_controller = lambda: "no controller: as it happens"

    waiting = create(world, wanted(), timeout_ms=100)
    world.advance(100)

    (topic,) = waiting.response.topics
    assert topic.error_code == ErrorCode.request_timed_out
    assert topic.error_message == "no controller: as it happens"


def test_answer_of_an_uncommitted_topic_is_a_timeout() -> None:
    world = World()
    world.raft.at_once = False

    waiting = create(world, wanted(), timeout_ms=100)
    world.advance(100)
    response: Any = waiting.response
    world.raft.deliver()

    assert response.topics[0].error_code == ErrorCode.request_timed_out
    assert "orders" in world.ctx.image.topics


def test_two_creations_at_once_give_one_topic() -> None:
    world = World()
    world.raft.at_once = False

    first, second = create(world, wanted()), create(world, wanted())
    world.raft.deliver()

    assert first.response.topics[0].error_code == ErrorCode.none
    assert second.response.topics[0].error_code == ErrorCode.topic_already_exists


def test_topic_whose_first_block_came_in_a_snapshot_is_no_stranger() -> None:
    """The leader fails behind the block, the proposer lags so far that it gets a snapshot, and the
    proposal is made again: its block is refused, for the topic is there."""
    world, elsewhere = World(), World()
    world.raft.at_once = False
    waiting = create(world, wanted())
    (payload,) = world.raft.waiting
    elsewhere.apply(payload)
    assert not waiting.done

    replace_image(world.ctx, elsewhere.ctx.image, world.height + 1)
    world.apply(payload)

    assert waiting.response.topics[0].error_code == ErrorCode.none
    assert world.produce().error_code == ErrorCode.none


def test_topic_whose_block_is_in_the_chain_twice_is_created_once() -> None:
    world = World()
    world.raft.at_once = False
    waiting = create(world, wanted())
    world.raft.waiting *= 2

    world.raft.deliver()

    assert waiting.response.topics[0].error_code == ErrorCode.none


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (wanted(factor=2), ErrorCode.invalid_replication_factor),
        (wanted(factor=0), ErrorCode.invalid_replication_factor),
        (wanted(partitions=0), ErrorCode.invalid_partitions),
        (wanted(partitions=10_001), ErrorCode.invalid_partitions),
        (wanted("exists"), ErrorCode.topic_already_exists),
        (wanted("a/b"), ErrorCode.invalid_topic_exception),
        (wanted(""), ErrorCode.invalid_topic_exception),
        (wanted(".."), ErrorCode.invalid_topic_exception),
        (wanted("x" * 250), ErrorCode.invalid_topic_exception),
        (wanted("ä"), ErrorCode.invalid_topic_exception),
        (wanted(retention_ms="soon"), ErrorCode.invalid_config),
        (wanted(compression_type="brotli"), ErrorCode.invalid_config),
        (wanted(assignments={0: (1,)}), ErrorCode.invalid_request),
        (wanted("t", -1, -1, {0: (9,)}), ErrorCode.invalid_replica_assignment),
    ],
)
def test_wrong_topic_is_refused(topic: create_topics.CreatableTopic, code: ErrorCode) -> None:
    """Checklist row 20."""
    world = World()
    world.create("exists")
    before = len(world.raft.committed)

    assert error_of(world, topic) is code
    assert len(world.raft.committed) == before


def test_one_wrong_topic_does_not_hold_back_the_others() -> None:
    world = World()

    results = create(world, wanted("bad name"), wanted("good")).topics

    assert [r.error_code for r in results] == [ErrorCode.invalid_topic_exception, ErrorCode.none]


def test_topic_named_twice_is_refused_once() -> None:
    world = World()

    results = create(world, wanted(), wanted()).topics

    assert [r.error_code for r in results] == [ErrorCode.invalid_request]


def test_validate_only_creates_nothing() -> None:
    """Checklist row 20."""
    world = World()

    result = create(world, wanted(partitions=3), validate_only=True).topics[0]

    assert (result.error_code, result.num_partitions) == (ErrorCode.none, 3)
    assert "orders" not in world.ctx.image.topics


def test_manual_assignment_is_followed() -> None:
    """Checklist row 20."""
    world = World(brokers=3)

    create(world, wanted(partitions=-1, factor=-1, assignments={0: (3, 1), 1: (2, 3)}))

    partitions = world.ctx.image.topics["orders"].partitions
    assert [p.replicas for p in partitions] == [(3, 1), (2, 3)]
    assert [p.leader for p in partitions] == [3, 2]


def test_minus_one_stands_for_the_brokers_defaults() -> None:
    """KIP-464."""
    world = World(BrokerSettings(default_partitions=4, default_replication_factor=2), brokers=2)

    create(world, wanted(partitions=-1, factor=-1))

    partitions = world.ctx.image.topics["orders"].partitions
    assert (len(partitions), len(partitions[0].replicas)) == (4, 2)


def test_topics_survive_a_restart_with_their_records() -> None:
    world = World()
    create(world, wanted(partitions=2, max_message_bytes="500"))
    world.produce(batch_of(b"a"), partition=1)

    world = world.restart()

    assert values_in(world.fetch(0, partition=1)) == [b"a"]
    assert world.produce(batch_of(b"x" * 500)).error_code == ErrorCode.message_too_large


def test_deleted_topic_is_gone_with_its_files() -> None:
    """Checklist row 21."""
    world = World()
    world.create(partitions=2)
    world.produce(batch_of(b"a"))

    result = delete(world).responses[0]

    assert result.error_code == ErrorCode.none
    assert world.fetch(0).error_code == ErrorCode.unknown_topic_or_partition
    assert not [path for path in world.files.names if path.startswith("orders-")]


def test_topic_made_anew_begins_at_zero() -> None:
    world = World()
    world.create()
    world.produce(batch_of(b"old"))

    delete(world)
    create(world, wanted())

    assert world.produce(batch_of(b"new")).base_offset == 0
    assert values_in(world.restart().fetch(0)) == [b"new"]


def test_topic_is_deleted_by_id() -> None:
    world = World()
    topic_id = world.create()

    assert delete(world, None, UUID(int=5)).responses[0].error_code == ErrorCode.unknown_topic_id
    result = delete(world, None, topic_id).responses[0]

    assert (result.error_code, result.name) == (ErrorCode.none, "orders")
    assert "orders" not in world.ctx.image.topics


@pytest.mark.parametrize("validate_only", [False, True])
def test_clients_do_not_make_the_brokers_own_topic(validate_only: bool) -> None:
    """Else a group's offsets would lie in as many partitions, under as many replicas, as a client
    chose; Kafka's code for what clients may not do to internal topics."""
    world = World()

    answer = create(world, wanted("__consumer_offsets", 3), validate_only=validate_only).topics[0]

    assert answer.error_code == ErrorCode.invalid_topic_exception
    assert answer.error_message == "'__consumer_offsets' is the broker's own topic"
    assert "__consumer_offsets" not in world.ctx.image.topics


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (".", "a topic cannot be named '.' or '..'"),
        ("..", "a topic cannot be named '.' or '..'"),
        ("a/b", "a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, not 'a/b'"),
        ("", "a topic name is 1 to 249 of a-z A-Z 0-9 . _ -, not ''"),
    ],
)
def test_a_bad_name_is_refused_by_the_rule_that_it_breaks(name: str, sentence: str) -> None:
    answer = create(World(), wanted(name)).topics[0]

    assert answer.error_code == ErrorCode.invalid_topic_exception
    assert answer.error_message == sentence


def test_deleting_what_is_not_there_or_internal_is_refused() -> None:
    world = World()
    world.create("__consumer_offsets")

    unknown = delete(world, "nope").responses[0].error_code
    internal = delete(world, "__consumer_offsets").responses[0].error_code

    assert unknown == ErrorCode.unknown_topic_or_partition
    assert internal == ErrorCode.invalid_request


def test_partitions_are_added_and_old_records_stay() -> None:
    """Checklist row 21."""
    world = World()
    world.create()
    world.produce(batch_of(b"a"))

    assert grow(world, 3).error_code == ErrorCode.none

    assert world.produce(partition=2).error_code == 0
    assert values_in(world.fetch(0)) == [b"a"]


def test_topic_does_not_shrink() -> None:
    world = World()
    world.create(partitions=3)

    assert grow(world, 3).error_code == ErrorCode.invalid_partitions
    assert grow(world, 2).error_code == ErrorCode.invalid_partitions


def test_growing_may_be_assigned_by_hand_and_only_validated() -> None:
    world = World(brokers=2)
    create(world, wanted(partitions=-1, factor=-1, assignments={0: (1,)}))
    by_hand = (create_partitions.CreatePartitionsAssignment(broker_ids=(2,)),)

    assert grow(world, 2, by_hand, validate_only=True).error_code == ErrorCode.none
    assert len(world.ctx.image.topics["orders"].partitions) == 1
    assert grow(world, 3, by_hand).error_code == ErrorCode.invalid_replica_assignment
    assert grow(world, 2, by_hand).error_code == ErrorCode.none
    assert world.ctx.image.topics["orders"].partitions[1].leader == 2


@pytest.mark.parametrize(
    ("name", "count", "code"),
    [
        ("nope", 2, ErrorCode.unknown_topic_or_partition),
        ("__consumer_offsets", 2, ErrorCode.invalid_request),
        ("orders", 10_001, ErrorCode.invalid_partitions),
    ],
)
def test_wrong_growth_is_refused(name: str, count: int, code: ErrorCode) -> None:
    world = World()
    world.create()
    world.create("__consumer_offsets")
    e = create_partitions
    topic = e.CreatePartitionsTopic(name=name, count=count, assignments=None)

    results = world.ask(37, e.CreatePartitionsRequest(topics=(topic,), timeout_ms=1)).results

    assert [each.error_code for each in results] == [code]


def test_topic_grown_twice_in_one_request_is_refused() -> None:
    world = World()
    world.create()
    e = create_partitions
    topic = e.CreatePartitionsTopic(name="orders", count=2, assignments=None)

    results = world.ask(37, e.CreatePartitionsRequest(topics=(topic,) * 2, timeout_ms=1)).results

    assert [each.error_code for each in results] == [ErrorCode.invalid_request]


def test_new_partitions_have_as_many_replicas_as_the_old() -> None:
    world = World(brokers=2)
    create(world, wanted(factor=2))
    one = (create_partitions.CreatePartitionsAssignment(broker_ids=(2,)),)

    assert grow(world, 2, one).error_code == ErrorCode.invalid_replica_assignment


def test_two_growths_at_once_make_one() -> None:
    world = World()
    world.create()
    world.raft.at_once = False
    e = create_partitions
    topic = e.CreatePartitionsTopic(name="orders", count=3, assignments=None)
    request = e.CreatePartitionsRequest(topics=(topic,), timeout_ms=1000)

    first, second = world.ask(37, request), world.ask(37, request)
    world.raft.deliver()

    assert first.response.results[0].error_code == ErrorCode.none
    assert second.response.results[0].error_code == ErrorCode.invalid_partitions
    assert len(world.ctx.image.topics["orders"].partitions) == 3


def test_partition_assigned_twice_is_refused() -> None:
    e = create_topics
    twice = (e.CreatableReplicaAssignment(partition_index=0, broker_ids=(1,)),) * 2
    topic = e.CreatableTopic(
        name="t", num_partitions=-1, replication_factor=-1, assignments=twice, configs=()
    )

    assert error_of(World(), topic) is ErrorCode.invalid_replica_assignment


def test_a_topic_that_is_named_twice_is_not_deleted() -> None:
    """As Apache Kafka answers it."""
    world = World()
    world.create()
    state = delete_topics.DeleteTopicState(name="orders")
    request = delete_topics.DeleteTopicsRequest(topics=(state, state), timeout_ms=1000)

    responses = world.ask(20, request).responses

    assert {each.error_code for each in responses} == {ErrorCode.invalid_request}
    assert "orders" in world.ctx.image.topics


def test_deleting_by_name_and_id_at_once_is_refused() -> None:
    world = World()
    topic_id = world.create()

    assert delete(world, "orders", topic_id).responses[0].error_code == ErrorCode.invalid_request
