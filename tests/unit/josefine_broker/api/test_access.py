"""Every API key against every kind of client: a stranger, one without an ACL, one who lacks one of
them, one who has them all. Driven from the table of what is served.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple

import pytest

from josefine_broker.api.access import RULES
from josefine_broker.api.declined import REASONS
from josefine_broker.api.table import SERVED
from josefine_broker.base.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.purgatory.purgatory import Hangup, Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from josefine_broker.wire.produce import ProduceRequest
from tests.unit.josefine_broker.api.test_table import empty_request
from tests.unit.josefine_broker.api.world import World, fetch_request

ALICE, ROOT = "User:alice", "User:root"
NAME = "t"
"""Of every resource that the requests name."""
T, G, C = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
X = ResourceType.TRANSACTIONAL_ID
_ = Operation
REFUSALS = frozenset(
    (
        ErrorCode.topic_authorization_failed,
        ErrorCode.group_authorization_failed,
        ErrorCode.cluster_authorization_failed,
        ErrorCode.transactional_id_authorization_failed,
    )
)
Needs = tuple[tuple[Operation, ResourceType], ...]
OPEN: Needs = ()

NEEDS: dict[int, Needs] = {
    apis.PRODUCE: ((_.WRITE, T),),
    apis.FETCH: ((_.READ, T),),
    apis.LIST_OFFSETS: ((_.DESCRIBE, T),),
    apis.METADATA: OPEN,  # all topics: what may not be seen is not there
    apis.OFFSET_COMMIT: ((_.READ, G), (_.READ, T)),
    apis.OFFSET_FETCH: ((_.DESCRIBE, G),),
    apis.FIND_COORDINATOR: ((_.DESCRIBE, G),),
    apis.JOIN_GROUP: ((_.READ, G),),
    apis.HEARTBEAT: ((_.READ, G),),
    apis.LEAVE_GROUP: ((_.READ, G),),
    apis.SYNC_GROUP: ((_.READ, G),),
    apis.DESCRIBE_GROUPS: ((_.DESCRIBE, G),),
    apis.LIST_GROUPS: OPEN,
    apis.SASL_HANDSHAKE: OPEN,
    apis.API_VERSIONS: OPEN,
    apis.CREATE_TOPICS: ((_.CREATE, T),),
    apis.DELETE_TOPICS: ((_.DELETE, T),),
    apis.DELETE_RECORDS: ((_.DELETE, T),),
    apis.INIT_PRODUCER_ID: ((_.IDEMPOTENT_WRITE, C),),
    apis.OFFSET_FOR_LEADER_EPOCH: ((_.DESCRIBE, T),),
    apis.ADD_PARTITIONS_TO_TXN: ((_.CLUSTER_ACTION, C),),
    apis.ADD_OFFSETS_TO_TXN: ((_.WRITE, X), (_.READ, G)),
    apis.END_TXN: ((_.WRITE, X),),
    apis.WRITE_TXN_MARKERS: ((_.CLUSTER_ACTION, C),),
    apis.TXN_OFFSET_COMMIT: ((_.WRITE, X), (_.READ, G), (_.READ, T)),
    apis.DESCRIBE_ACLS: ((_.DESCRIBE, C),),
    apis.CREATE_ACLS: ((_.ALTER, C),),
    apis.DELETE_ACLS: ((_.ALTER, C),),
    apis.DESCRIBE_CONFIGS: ((_.DESCRIBE_CONFIGS, T),),
    apis.ALTER_CONFIGS: ((_.ALTER_CONFIGS, T),),
    apis.DESCRIBE_LOG_DIRS: ((_.DESCRIBE, C),),
    apis.SASL_AUTHENTICATE: OPEN,
    apis.CREATE_PARTITIONS: ((_.ALTER, T),),
    apis.DELETE_GROUPS: ((_.DELETE, G),),
    apis.ELECT_LEADERS: ((_.ALTER, C),),
    apis.INCREMENTAL_ALTER_CONFIGS: ((_.ALTER_CONFIGS, T),),
    apis.ALTER_PARTITION_REASSIGNMENTS: ((_.ALTER, C),),
    apis.LIST_PARTITION_REASSIGNMENTS: ((_.DESCRIBE, C),),
    apis.OFFSET_DELETE: ((_.DELETE, G), (_.READ, T)),
    apis.DESCRIBE_CLIENT_QUOTAS: ((_.DESCRIBE_CONFIGS, C),),
    apis.ALTER_CLIENT_QUOTAS: ((_.ALTER_CONFIGS, C),),
    apis.DESCRIBE_USER_SCRAM_CREDENTIALS: ((_.DESCRIBE, C),),
    apis.ALTER_USER_SCRAM_CREDENTIALS: ((_.ALTER, C),),
    apis.DESCRIBE_QUORUM: ((_.DESCRIBE, C),),
    apis.UPDATE_FEATURES: ((_.ALTER, C),),
    apis.DESCRIBE_CLUSTER: OPEN,
    apis.DESCRIBE_PRODUCERS: ((_.READ, T),),
    apis.UNREGISTER_BROKER: ((_.ALTER, C),),
    apis.DESCRIBE_TRANSACTIONS: ((_.DESCRIBE, X),),
    apis.LIST_TRANSACTIONS: OPEN,
    apis.GET_TELEMETRY_SUBSCRIPTIONS: OPEN,
    apis.PUSH_TELEMETRY: OPEN,
    apis.CONSUMER_GROUP_HEARTBEAT: ((_.READ, G),),
    apis.CONSUMER_GROUP_DESCRIBE: ((_.DESCRIBE, G),),
    apis.DESCRIBE_TOPIC_PARTITIONS: ((_.DESCRIBE, T),),
    apis.REMOVE_RAFT_VOTER: ((_.ALTER, C),),
    apis.ALTER_REPLICA_LOG_DIRS: ((_.ALTER, C),),
    apis.LIST_CONFIG_RESOURCES: ((_.DESCRIBE_CONFIGS, C),),
    **dict.fromkeys(REASONS, OPEN),
    apis.ADD_RAFT_VOTER: ((_.ALTER, C),),
    apis.SHARE_GROUP_HEARTBEAT: ((_.READ, G),),
    apis.SHARE_GROUP_DESCRIBE: ((_.DESCRIBE, G),),
    apis.SHARE_FETCH: OPEN,  # without a group; see test_share_refusals.py
    apis.SHARE_ACKNOWLEDGE: OPEN,
    apis.DESCRIBE_SHARE_GROUP_OFFSETS: ((_.DESCRIBE, G),),
    apis.ALTER_SHARE_GROUP_OFFSETS: ((_.READ, G), (_.READ, T)),
    apis.DELETE_SHARE_GROUP_OFFSETS: ((_.DELETE, G), (_.READ, T)),
    apis.INITIALIZE_SHARE_GROUP_STATE: ((_.CLUSTER_ACTION, C),),
    apis.READ_SHARE_GROUP_STATE: ((_.CLUSTER_ACTION, C),),
    apis.WRITE_SHARE_GROUP_STATE: ((_.CLUSTER_ACTION, C),),
    apis.DELETE_SHARE_GROUP_STATE: ((_.CLUSTER_ACTION, C),),
    apis.READ_SHARE_GROUP_STATE_SUMMARY: ((_.CLUSTER_ACTION, C),),
}
"""What a request with one of everything needs, as Kafka's manual has it."""


class Case(NamedTuple):
    """A request, and what it needs."""

    key: int
    version: int
    request: Any
    needs: Needs


def requests() -> Iterator[Any]:
    for key, api in SERVED.items():
        request = empty_request(key, api.spec.max_version)
        if key in (apis.ALTER_CONFIGS, apis.DESCRIBE_CONFIGS, apis.INCREMENTAL_ALTER_CONFIGS):
            request = of_resource(request, 2)
        if key == apis.DELETE_TOPICS:
            wanted = e.delete_topics.DeleteTopicState(name=NAME)
            request = replace(request, topics=(wanted,))
        if key == apis.FETCH:
            request = fetch_request(topic=NAME)
        name, needs = api.spec.name, NEEDS.get(key, ((_.ALL, C),))
        yield pytest.param(Case(key, api.spec.max_version, request, needs), id=name)


def of_resource(request: Any, kind: int) -> Any:
    return replace(request, resources=(replace(request.resources[0], resource_type=kind),))


def others() -> Iterator[Any]:
    """Requests of the same keys that need something else."""
    produce: ProduceRequest = empty_request(apis.PRODUCE, 12)._replace(transactional_id=NAME)
    yield Case(apis.PRODUCE, 12, produce, ((_.WRITE, T), (_.WRITE, X)))
    yield Case(apis.FETCH, 12, fetch_request(replica_id=2), ((_.CLUSTER_ACTION, C),))
    topics = (e.metadata.MetadataRequestTopic(name=NAME),)
    named = e.metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
    yield Case(apis.METADATA, 12, named, ((_.DESCRIBE, T),))
    keys = e.find_coordinator.FindCoordinatorRequest(key_type=1, coordinator_keys=(NAME,))
    yield Case(apis.FIND_COORDINATOR, 6, keys, ((_.DESCRIBE, X),))
    group = e.offset_fetch.OffsetFetchRequestGroup(
        group_id=NAME, topics=(e.offset_fetch.OffsetFetchRequestTopics(name=NAME),)
    )
    offsets = e.offset_fetch.OffsetFetchRequest(groups=(with_partition(group),))
    yield Case(apis.OFFSET_FETCH, 9, offsets, ((_.DESCRIBE, G), (_.DESCRIBE, T)))
    producer = e.init_producer_id.InitProducerIdRequest(
        transactional_id=NAME, transaction_timeout_ms=1_000
    )
    yield Case(apis.INIT_PRODUCER_ID, 5, producer, ((_.WRITE, X),))
    partitions = empty_request(apis.ADD_PARTITIONS_TO_TXN, 3)
    yield Case(apis.ADD_PARTITIONS_TO_TXN, 3, partitions, ((_.WRITE, X), (_.WRITE, T)))
    beat = e.consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=NAME, member_id="m", subscribed_topic_names=(NAME,)
    )
    yield Case(apis.CONSUMER_GROUP_HEARTBEAT, 1, beat, ((_.READ, G), (_.DESCRIBE, T)))
    for key, operation in (
        (apis.DESCRIBE_CONFIGS, _.DESCRIBE_CONFIGS),
        (apis.ALTER_CONFIGS, _.ALTER_CONFIGS),
        (apis.INCREMENTAL_ALTER_CONFIGS, _.ALTER_CONFIGS),
    ):
        version = SERVED[key].spec.max_version
        request = of_resource(empty_request(key, version), 4)
        yield Case(key, version, request, ((operation, C),))


def with_partition(
    group: e.offset_fetch.OffsetFetchRequestGroup,
) -> e.offset_fetch.OffsetFetchRequestGroup:
    assert group.topics is not None
    return replace(group, topics=(replace(group.topics[0], partition_indexes=(0,)),))


CASES = [
    *requests(),
    *(
        pytest.param(each, id=f"{SERVED[each.key].spec.name}-{n}")
        for n, each in enumerate(others())
    ),
]


def guarded_world(*needs: tuple[Operation, ResourceType]) -> World:
    """A broker with a topic, where alice has an ACL for each of `needs`."""
    world = World()
    world.create(NAME)
    world.ctx.clients.authorizer = Authorizer(frozenset({ROOT}))
    grant(world, *needs)
    return world


def grant(world: World, *needs: tuple[Operation, ResourceType], name: str = NAME) -> None:
    acls = tuple(
        Acl(
            kind,
            CLUSTER_NAME if kind is C else name,
            PatternType.LITERAL,
            ALICE,
            "*",
            operation,
            Permission.ALLOW,
        )
        for operation, kind in needs
    )
    world.propose(AlterAcls(add=acls))


def ask(world: World, case: Case, principal: str = ALICE) -> Any:
    """The answer, as the client of that version reads it; None: it is hung up on, or waits."""
    request = case.request
    if case.key == apis.PRODUCE and case.version >= 13:
        topic_id = world.ctx.image.topics[NAME].topic_id
        request = request._replace(topics=(request.topics[0]._replace(topic_id=topic_id),))
    answer = world.ask(case.key, request, version=case.version, principal=principal)
    if isinstance(answer, Parked):
        world.advance(60_000)
        answer = answer.response
    if isinstance(answer, Hangup):
        return answer.answer
    frame = b"".join(codec.encode_response(case.key, case.version, 7, answer))
    return codec.decode_response(case.key, case.version, memoryview(frame)[4:])[1]


def refusals(answer: Any) -> set[ErrorCode]:
    """Every code of the four that stands anywhere in an answer."""
    return {each for each in map(ErrorCode, codes(answer)) if each in REFUSALS}


def codes(value: Any, name: str = "") -> Iterator[int]:
    if isinstance(value, ErrorCode) or (isinstance(value, int) and name.endswith("error_code")):
        yield int(value)
    elif is_dataclass(value):
        for field in fields(value):
            yield from codes(getattr(value, field.name), field.name)
    elif hasattr(value, "_fields"):
        for field_name in value._fields:
            yield from codes(getattr(value, field_name), field_name)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from codes(each)


def test_every_key_has_a_rule_and_a_row_here() -> None:
    """A key that is served without a rule is found before it is served."""
    assert RULES.keys() == SERVED.keys()
    assert NEEDS.keys() == SERVED.keys()


@pytest.mark.parametrize("case", CASES)
def test_request_without_an_acl_is_refused(case: Case) -> None:
    answer = ask(guarded_world(), case)

    assert bool(refusals(answer)) is bool(case.needs)


@pytest.mark.parametrize("case", CASES)
def test_request_with_its_acls_is_served(case: Case) -> None:
    answer = ask(guarded_world(*case.needs), case)

    assert refusals(answer) == set()


@pytest.mark.parametrize("case", [each for each in CASES if len(each.values[0].needs) > 1])
def test_request_that_lacks_one_of_its_acls_is_refused(case: Case) -> None:
    for lacking in case.needs:
        left = [each for each in case.needs if each is not lacking]
        assert refusals(ask(guarded_world(*left), case)), f"without {lacking}"


@pytest.mark.parametrize("case", CASES)
def test_acls_of_another_name_do_not_help(case: Case) -> None:
    needs = [each for each in case.needs if each[1] is not C]
    world = guarded_world()
    grant(world, *needs, name="other")

    assert bool(refusals(ask(world, case))) is bool(case.needs)


@pytest.mark.parametrize("case", CASES)
def test_super_user_may_do_everything(case: Case) -> None:
    assert refusals(ask(guarded_world(), case, ROOT)) == set()


@pytest.mark.parametrize("case", CASES)
def test_without_acls_enabled_everybody_may(case: Case) -> None:
    world = guarded_world()
    world.ctx.clients.authorizer = None

    assert refusals(ask(world, case)) == set()


def test_resource_types_and_operations_are_kafkas_numbers() -> None:
    def numbers(kind: type[IntEnum]) -> dict[str, int]:
        return {each.name: each.value for each in kind}

    assert numbers(ResourceType) == {
        "ANY": 1, "TOPIC": 2, "GROUP": 3, "CLUSTER": 4, "TRANSACTIONAL_ID": 5,
    }  # fmt: skip
    assert numbers(PatternType) == {"ANY": 1, "MATCH": 2, "LITERAL": 3, "PREFIXED": 4}
    assert numbers(Permission) == {"ANY": 1, "DENY": 2, "ALLOW": 3}
    assert [each.name for each in Operation][2:5] == ["READ", "WRITE", "CREATE"]
    assert Operation.IDEMPOTENT_WRITE == 12
