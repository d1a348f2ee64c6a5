"""Names and ids that mean nothing, or the same thing twice: answered as Apache Kafka does."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.group_clients import (
    commit,
    delete,
    described,
    group_world,
    said,
)
from tests.unit.josefine_broker.api.world import NOW_MS, World, batch_of

METADATA_TOPIC = "__cluster_metadata"


def create(world: World, *names: str) -> list[ErrorCode]:
    topics = tuple(
        e.create_topics.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in names
    )
    request = e.create_topics.CreateTopicsRequest(topics=topics)
    return [each.error_code for each in world.ask(apis.CREATE_TOPICS, request).topics]


def asked(*names: str) -> e.metadata.MetadataRequest:
    topics = tuple(e.metadata.MetadataRequestTopic(name=name) for name in names)
    return e.metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=True)


# Topics.


@pytest.mark.parametrize(("there", "new"), [("a.b", "a_b"), ("a_b", "a.b"), ("a_.c", "a._c")])
def test_topic_that_differs_in_dots_and_underscores_alone_is_refused(there: str, new: str) -> None:
    world = World()
    world.create(there)

    assert create(world, new) == [ErrorCode.invalid_topic_exception]
    assert create(world, there) == [ErrorCode.topic_already_exists]
    assert create(world, "a-b", "ab") == [ErrorCode.none] * 2


def test_topics_of_one_request_do_not_collide_either() -> None:
    assert create(World(), "x.y", "x_y") == [ErrorCode.none, ErrorCode.invalid_topic_exception]


def test_topic_is_not_made_for_a_client_that_asks_for_a_colliding_name() -> None:
    world = World(BrokerSettings(auto_create_topics=True))
    world.create("a.b")

    (topic,) = world.ask(apis.METADATA, asked("a_b")).topics

    assert topic.error_code == ErrorCode.invalid_topic_exception
    assert "a_b" not in world.ctx.image.topics


def test_log_of_the_controllers_cannot_be_created() -> None:
    world = World(BrokerSettings(auto_create_topics=True))

    assert create(world, METADATA_TOPIC) == [ErrorCode.invalid_request]
    (topic,) = world.ask(apis.METADATA, asked(METADATA_TOPIC)).topics
    assert topic.error_code == ErrorCode.unknown_topic_or_partition
    assert METADATA_TOPIC not in world.ctx.image.topics


def test_topic_named_twice_is_described_once() -> None:
    world = World()
    topic_id = world.create("a")
    world.create("b")
    both = asked("a", "b", "a")
    assert [each.name for each in world.ask(apis.METADATA, both).topics] == ["a", "b"]

    topic = e.metadata.MetadataRequestTopic(topic_id=topic_id)
    twice = e.metadata.MetadataRequest(topics=(topic, topic), allow_auto_topic_creation=False)
    assert [each.name for each in world.ask(apis.METADATA, twice).topics] == ["a"]


def delete_topics(world: World, *topics: tuple[str | None, UUID | None]) -> list[ErrorCode]:
    states = tuple(e.delete_topics.DeleteTopicState(name=n, topic_id=i) for n, i in topics)
    request = e.delete_topics.DeleteTopicsRequest(topics=states, timeout_ms=1000)
    return [each.error_code for each in said(world.ask(apis.DELETE_TOPICS, request)).responses]


def test_topic_to_delete_has_a_name_or_an_id() -> None:
    world = World()
    topic_id = world.create("a")
    bad = ErrorCode.invalid_request

    assert delete_topics(world, (None, None)) == [bad]
    assert delete_topics(world, ("a", topic_id)) == [bad]
    assert delete_topics(world, (None, None), ("b", None)) == [
        bad, ErrorCode.unknown_topic_or_partition,
    ]  # fmt: skip


def test_topic_to_delete_that_is_named_by_its_id_too_is_refused_once() -> None:
    """ControllerApis.deleteTopics."""
    world = World()
    topic_id = world.create("a")

    for topics in ([("a", None), (None, topic_id)], [(None, topic_id), ("a", None)]):
        assert delete_topics(world, *topics) == [ErrorCode.invalid_request]
    for topics in ([("a", None)] * 3, [(None, topic_id)] * 3):
        assert delete_topics(world, *topics) == [ErrorCode.invalid_request]
    assert "a" in world.ctx.image.topics


# Groups.


def test_group_with_an_empty_name_is_described_and_deleted() -> None:
    """Simple consumers commit under it; Kafka keeps it for their sake."""
    world = group_world()
    assert described(world, "").error_code is ErrorCode.group_id_not_found
    assert delete(world, "") == {"": ErrorCode.group_id_not_found}

    assert commit(world, 5, group="") is ErrorCode.none
    assert described(world, "").group_state == "Empty"
    assert delete(world, "") == {"": ErrorCode.none}

    assert described(world, "").error_code is ErrorCode.group_id_not_found


def test_offsets_of_an_id_of_zeros_are_of_an_unknown_topic() -> None:
    world = group_world()
    assert commit(world, 5, topic="", version=10) is ErrorCode.unknown_topic_id
    assert commit(world, 5, topic="", version=9) is ErrorCode.unknown_topic_or_partition

    f = e.offset_fetch
    topic = f.OffsetFetchRequestTopics(name="", partition_indexes=(0,))
    group = f.OffsetFetchRequestGroup(group_id="g", topics=(topic,))
    answer = world.ask(apis.OFFSET_FETCH, f.OffsetFetchRequest(groups=(group,)), version=10)
    (part,) = answer.groups[0].topics[0].partitions
    assert part.error_code is ErrorCode.unknown_topic_id


# Offsets, producers, passwords.


@pytest.mark.parametrize(
    ("version", "code"), [(11, ErrorCode.none), (10, ErrorCode.unsupported_version)]
)
def test_earliest_offset_to_be_uploaded_is_none_where_nothing_is(
    version: int, code: ErrorCode
) -> None:
    """KIP-1023."""
    world = World()
    world.create()
    part = e.list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-6)
    topic = e.list_offsets.ListOffsetsTopic(name="orders", partitions=(part,))
    request = e.list_offsets.ListOffsetsRequest(replica_id=-1, topics=(topic,))

    (found,) = world.ask(apis.LIST_OFFSETS, request, version=version).topics[0].partitions

    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (
        code, -1, -1, -1,
    )  # fmt: skip


@pytest.mark.parametrize("transactional_id", [None, "t"])
@pytest.mark.parametrize("fields", [{"producer_id": 5}, {"producer_epoch": 0}])
def test_producer_id_without_its_epoch_is_refused(
    transactional_id: str | None, fields: dict[str, int]
) -> None:
    """TransactionCoordinator.handleInitProducerId."""
    request = e.init_producer_id.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=1_000, **fields
    )

    answer = World().ask(apis.INIT_PRODUCER_ID, request)

    assert (answer.error_code, answer.producer_id) == (ErrorCode.invalid_request, -1)


def test_records_that_are_out_of_time_are_named() -> None:
    """KIP-467."""
    world = World()
    world.create(message_timestamp_before_max_ms="1000")
    good = batch_of(b"a", b"b")
    assert world.produce(good).record_errors == ()

    answer = world.produce(batch_of(b"a", b"b", timestamp_ms=NOW_MS - 1_001))

    assert answer.error_code == ErrorCode.invalid_timestamp
    assert [each.batch_index for each in answer.record_errors] == [0, 1]
    assert "1001 ms before" in (answer.record_errors[0].message or "")


@pytest.mark.parametrize(
    ("users", "whole", "each"),
    [
        (("a", "b"), ErrorCode.none, [ErrorCode.cluster_authorization_failed] * 2),
        ((), ErrorCode.cluster_authorization_failed, []),
        (None, ErrorCode.cluster_authorization_failed, []),
    ],
)
def test_refused_question_for_passwords_is_answered_for_each_user_that_is_named(
    users: tuple[str, ...] | None, whole: ErrorCode, each: list[ErrorCode]
) -> None:
    """librdkafka ends with a segmentation fault on an error of the whole."""
    d = e.describe_user_scram_credentials
    wanted = None if users is None else tuple(d.UserName(name=name) for name in users)
    request = d.DescribeUserScramCredentialsRequest(users=wanted)
    world = World()
    world.ctx.clients.authorizer = Authorizer(frozenset())

    answer = world.ask(apis.DESCRIBE_USER_SCRAM_CREDENTIALS, request)

    assert answer.error_code is whole
    assert [result.user for result in answer.results] == list(users or ())
    assert [result.error_code for result in answer.results] == each


# Configurations.


def describe_configs(world: World, kind: int, name: str) -> ErrorCode:
    d = e.describe_configs
    resource = d.DescribeConfigsResource(resource_type=kind, resource_name=name)
    answer = world.ask(apis.DESCRIBE_CONFIGS, d.DescribeConfigsRequest(resources=(resource,)))
    code: ErrorCode = answer.results[0].error_code
    return code


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (2, "none", ErrorCode.unknown_topic_or_partition),
        (2, "", ErrorCode.invalid_topic_exception),
        (2, "a/b", ErrorCode.invalid_topic_exception),
        (2, "x" * 250, ErrorCode.invalid_topic_exception),
        (4, "2", ErrorCode.invalid_request),
        (4, "one", ErrorCode.invalid_request),
    ],
)
def test_configs_of_what_cannot_be_there_are_refused(kind: int, name: str, code: ErrorCode) -> None:
    assert describe_configs(World(), kind, name) is code
