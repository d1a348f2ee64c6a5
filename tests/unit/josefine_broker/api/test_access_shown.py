"""What a client that may do some of it is told: the rest joins the answer as refused, or is not
there to be seen.
"""

from typing import Any

import pytest

from josefine_broker.base.acls import Operation, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic
from tests.unit.josefine_broker.api.test_access import ALICE, NAME, ROOT, grant, guarded_world
from tests.unit.josefine_broker.api.world import LISTENER, World, batch_of, fetch_request

T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
DENIED = ErrorCode.topic_authorization_failed
SECRET = "secret"


def world_of_two(*needs: tuple[Operation, ResourceType]) -> World:
    """alice's topic and another."""
    world = guarded_world(*needs)
    world.create(SECRET)
    return world


def metadata(world: World, *names: str, principal: str = ALICE, creates: bool = False) -> Any:
    topics = tuple(e.metadata.MetadataRequestTopic(name=name) for name in names) or None
    request = e.metadata.MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=creates,
        include_topic_authorized_operations=True,
    )
    return world.ask(apis.METADATA, request, principal=principal)


def produce(*names: str, acks: int = -1) -> ProduceRequest:
    topics = [
        ProduceTopic(name, None, (ProducePartition(0, memoryview(bytearray(batch_of(b"v")))),))
        for name in names
    ]
    return ProduceRequest(None, acks, 1_000, tuple(topics))


def test_metadata_of_all_topics_has_those_that_may_be_described() -> None:
    world = world_of_two((Operation.DESCRIBE, T))

    assert [each.name for each in metadata(world).topics] == [NAME]
    assert {each.name for each in metadata(world, principal=ROOT).topics} == {NAME, SECRET}
    assert metadata(world).brokers


def test_topic_that_is_hidden_and_one_that_is_not_there_look_the_same() -> None:
    world = world_of_two((Operation.DESCRIBE, T))

    hidden, missing = metadata(world, SECRET, "nothing").topics

    assert hidden.error_code is missing.error_code is DENIED
    assert (hidden.topic_id, hidden.partitions) == (missing.topic_id, missing.partitions)


def test_asking_for_a_topic_does_not_make_it_without_create() -> None:
    world = World(BrokerSettings(auto_create_topics=True, data_directory="/data"))
    world.ctx.clients.authorizer = Authorizer(frozenset({ROOT}))
    grant(world, (Operation.DESCRIBE, T))

    (answer,) = metadata(world, NAME, creates=True).topics
    assert answer.error_code is DENIED
    assert NAME not in world.ctx.image.topics
    grant(world, (Operation.CREATE, T))
    (answer,) = metadata(world, NAME, creates=True).topics
    assert answer.error_code is ErrorCode.none


def test_answer_says_which_operations_are_allowed() -> None:
    world = guarded_world((Operation.READ, T), (Operation.DESCRIBE, C))

    (topic,) = metadata(world).topics
    asked = e.describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    cluster = world.ask(apis.DESCRIBE_CLUSTER, asked, principal=ALICE)
    older = e.metadata.MetadataRequest(topics=(), include_cluster_authorized_operations=True)
    by_metadata = world.ask(apis.METADATA, older, version=10, principal=ALICE)

    assert topic.topic_authorized_operations == 1 << Operation.READ | 1 << Operation.DESCRIBE
    assert cluster.cluster_authorized_operations == 1 << Operation.DESCRIBE
    assert by_metadata.cluster_authorized_operations == 1 << Operation.DESCRIBE


def test_produce_writes_what_it_may_and_refuses_the_rest() -> None:
    world = world_of_two((Operation.WRITE, T))

    answer = world.ask(apis.PRODUCE, produce(SECRET, NAME), version=12, principal=ALICE)

    found = {topic.name: topic.partitions[0].error_code for topic in answer.topics}
    assert found == {NAME: 0, SECRET: DENIED.value}
    assert world.ctx.hosted.partitions[SECRET, 0].log.log_end_offset == 0
    assert world.ctx.hosted.partitions[NAME, 0].log.log_end_offset == 1


def test_brokers_write_letters_where_a_topic_takes_them_and_clients_do_not() -> None:
    world = guarded_world((Operation.CLUSTER_ACTION, C))
    world.create("dlq.a", errors_deadletterqueue_group_enable="true")
    world.create(SECRET)
    found = []
    for listener in (LISTENER, "outside"):
        world.ctx.clients.listeners_apart = frozenset({"outside"})
        for name in ("dlq.a", SECRET):
            request = produce(name)
            answer: Any = world.ask(
                apis.PRODUCE, request, version=12, principal=ALICE, listener=listener
            )
            found.append(answer.topics[0].partitions[0].error_code)
    assert found == [0, DENIED.value, DENIED.value, DENIED.value]
    other = guarded_world()
    other.create("dlq.a", errors_deadletterqueue_group_enable="true")
    answer = other.ask(apis.PRODUCE, produce("dlq.a"), version=12, principal=ALICE)
    assert answer.topics[0].partitions[0].error_code == DENIED.value


def test_refused_produce_without_acks_ends_its_connection() -> None:
    world = world_of_two((Operation.WRITE, T))

    answer = world.ask(apis.PRODUCE, produce(SECRET, acks=0), version=12, principal=ALICE)

    assert isinstance(answer, Hangup)
    assert answer.answer is None
    assert world.ctx.hosted.partitions[SECRET, 0].log.log_end_offset == 0


def test_fetch_that_waits_is_told_when_it_may_read_no_more() -> None:
    world = guarded_world((Operation.READ, T))
    request = fetch_request(topic=NAME, max_wait_ms=1_000)
    waiting = world.ask(apis.FETCH, request, version=12, principal=ALICE)
    assert isinstance(waiting, Parked)

    removal = e.delete_acls.DeleteAclsRequest(filters=(everything(),))
    world.ask(apis.DELETE_ACLS, removal, principal=ROOT)
    world.produce(topic=NAME, acks=1)  # by nobody: nothing is appended
    world.ask(apis.PRODUCE, produce(NAME, acks=1), version=12, principal=ROOT)

    assert waiting.response.topics[0].partitions[0].error_code == DENIED.value


def test_session_does_not_carry_what_another_client_may_read() -> None:
    """A fetch session is known by a number; whoever guesses it reads nothing with it."""
    world = guarded_world((Operation.READ, T))
    first = world.ask(
        apis.FETCH, fetch_request(topic=NAME)._replace(session_epoch=0), version=12, principal=ALICE
    )
    world.ask(apis.PRODUCE, produce(NAME), version=12, principal=ROOT)

    stolen = fetch_request()._replace(session_id=first.session_id, session_epoch=1, topics=())
    answer = world.ask(apis.FETCH, stolen, version=12, principal="User:bob")

    (part,) = answer.topics[0].partitions
    assert (part.error_code, len(part.records or ())) == (DENIED.value, 0)


def test_answer_that_comes_later_gets_its_refusals_too() -> None:
    world = world_of_two((Operation.CREATE, T))
    world.delete(NAME)
    world.raft.at_once = False
    topics = tuple(
        e.create_topics.CreatableTopic(
            name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
        )
        for name in (NAME, "mine")
    )

    answer = world.ask(
        apis.CREATE_TOPICS, e.create_topics.CreateTopicsRequest(topics=topics), principal=ALICE
    )
    assert isinstance(answer, Parked)
    world.raft.deliver()

    made, refused = answer.response.topics
    assert (made.name, made.error_code, made.configs) == (NAME, ErrorCode.none, None)
    assert (refused.name, refused.error_code) == ("mine", DENIED)


def test_deleting_by_id_tells_no_name() -> None:
    world = world_of_two((Operation.DELETE, T))
    topic_id = world.ctx.image.topics[SECRET].topic_id
    wanted = (e.delete_topics.DeleteTopicState(topic_id=topic_id),)
    request = e.delete_topics.DeleteTopicsRequest(topics=wanted, timeout_ms=1_000)

    (told,) = world.ask(apis.DELETE_TOPICS, request, principal=ALICE).responses

    assert (told.name, told.error_code) == (None, DENIED)
    assert SECRET in world.ctx.image.topics


def test_transaction_whose_topics_are_not_all_allowed_begins_in_none() -> None:
    world = world_of_two((Operation.WRITE, T), (Operation.WRITE, ResourceType.TRANSACTIONAL_ID))
    request = e.add_partitions_to_txn.AddPartitionsToTxnRequest(
        transactions=(
            e.add_partitions_to_txn.AddPartitionsToTxnTransaction(
                transactional_id=NAME,
                producer_id=1,
                producer_epoch=0,
                topics=tuple(
                    e.add_partitions_to_txn.AddPartitionsToTxnTopic(name=name, partitions=(0,))
                    for name in (SECRET, NAME)
                ),
            ),
        )
    )

    answer = world.ask(apis.ADD_PARTITIONS_TO_TXN, request, version=3, principal=ALICE)

    told = {
        topic.name: topic.results_by_partition[0].partition_error_code
        for topic in answer.results_by_transaction[0].topic_results
    }
    assert told == {SECRET: DENIED, NAME: ErrorCode.operation_not_attempted}


def everything() -> e.delete_acls.DeleteAclsFilter:
    return e.delete_acls.DeleteAclsFilter(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )


def creation(**changes: Any) -> e.create_acls.AclCreation:
    words: dict[str, Any] = {
        "resource_type": 2,
        "resource_name": "orders",
        "resource_pattern_type": 3,
        "principal": ALICE,
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }
    return e.create_acls.AclCreation(**(words | changes))


def create(world: World, *creations: e.create_acls.AclCreation) -> list[ErrorCode]:
    request = e.create_acls.CreateAclsRequest(creations=creations)
    return [r.error_code for r in world.ask(apis.CREATE_ACLS, request, principal=ROOT).results]


def described(world: World, **changes: Any) -> list[tuple[str, int, str, int]]:
    words: dict[str, Any] = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    request = e.describe_acls.DescribeAclsRequest(**(words | changes))
    answer = world.ask(apis.DESCRIBE_ACLS, request, principal=ROOT)
    assert answer.error_code is ErrorCode.none
    return [
        (each.resource_name, each.pattern_type, acl.principal, acl.operation)
        for each in answer.resources
        for acl in each.acls
    ]


def test_acls_are_made_found_and_deleted_by_filters() -> None:
    world = guarded_world()
    prefixed = creation(resource_name="or", resource_pattern_type=4, operation=4)
    other = creation(resource_name="orders", principal="User:bob")

    assert create(world, creation(), prefixed, other, creation()) == [ErrorCode.none] * 4
    assert described(world) == [
        ("or", 4, ALICE, 4), ("orders", 3, ALICE, 3), ("orders", 3, "User:bob", 3),
    ]  # fmt: skip
    assert described(world, resource_name_filter="orders", pattern_type_filter=2) == described(
        world
    )
    assert described(world, resource_name_filter="orders") == described(world)[1:]
    assert described(world, principal_filter=ALICE, pattern_type_filter=4) == [("or", 4, ALICE, 4)]
    mine = e.delete_acls.DeleteAclsFilter(
        **{name: getattr(everything(), name) for name in everything().__slots__}
        | {"principal_filter": ALICE}
    )
    (gone,) = world.ask(
        apis.DELETE_ACLS, e.delete_acls.DeleteAclsRequest(filters=(mine,)), principal=ROOT
    ).filter_results
    assert len(gone.matching_acls) == 2
    assert described(world) == [("orders", 3, "User:bob", 3)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_type": 6},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"operation": 9},
        {"permission_type": 1},
        {"permission_type": 0},
        {"resource_name": ""},
        {"principal": "alice"},
        {"principal": "Group:alice"},
        {"principal": ""},
        {"host": ""},
        {"resource_type": 4, "operation": 7},
        {"resource_name": "x" * 1_025},
    ],
)
def test_acl_that_would_mean_nothing_is_refused_alone(wrong: dict[str, Any]) -> None:
    world = guarded_world()

    assert create(world, creation(**wrong), creation()) == [
        ErrorCode.invalid_request, ErrorCode.none,
    ]  # fmt: skip
    assert len(described(world)) == 1


def test_acls_survive_a_restart_and_a_snapshot() -> None:
    world = guarded_world()
    create(world, creation(), creation(resource_name="or", resource_pattern_type=4))
    image = world.ctx.image

    assert world.restart().ctx.image.acls == image.acls
    assert type(image).from_bytes(image.to_bytes()) == image


def test_broker_without_acls_enabled_keeps_none() -> None:
    world = World()

    assert create(world, creation()) == [ErrorCode.security_disabled]
    assert world.ctx.image.acls == frozenset()
