"""The API keys that a broker lists are Kafka 4's, also those that it declines."""

from __future__ import annotations

import pytest

from josefine_broker.api.declined import REASONS
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.transactions.values import TransactionSettings
from josefine_broker.wire import apis, codec
from josefine_broker.wire import entities as e
from tests.unit.josefine_broker.api.test_access import codes
from tests.unit.josefine_broker.api.test_table import empty_request
from tests.unit.josefine_broker.api.world import World

KAFKA_4_4 = {
    0: 13, 1: 18, 2: 11, 3: 13, 8: 10, 9: 10, 10: 6, 11: 9, 12: 4, 13: 5, 14: 5, 15: 6, 16: 5,
    17: 1, 18: 5, 19: 7, 20: 6, 21: 2, 22: 5, 23: 4, 24: 5, 25: 4, 26: 5, 27: 2, 28: 6, 29: 3,
    30: 3, 31: 3, 32: 4, 33: 2, 34: 2, 35: 5, 36: 2, 37: 3, 38: 3, 39: 2, 40: 2, 41: 3, 42: 3,
    43: 2, 44: 1, 45: 1, 46: 0, 47: 0, 48: 1, 49: 1, 50: 0, 51: 0, 55: 2, 57: 2, 60: 2, 61: 0,
    64: 0, 65: 0, 66: 2, 68: 1, 69: 1, 74: 1, 75: 0, 76: 1, 77: 1, 78: 2, 79: 2, 80: 1, 81: 0,
    83: 0, 84: 0, 85: 1, 86: 0, 87: 1, 88: 1, 89: 1, 90: 1, 91: 0, 92: 0, 93: 0, 94: 0,
}  # fmt: skip
"""Last version by key, as a broker of Apache Kafka 4.4.0 lists them."""


def listed(world: World) -> dict[int, int]:
    answer = world.ask(apis.API_VERSIONS, e.api_versions.ApiVersionsRequest())
    return {each.api_key: each.max_version for each in answer.api_keys}


def test_a_tool_that_compares_the_keys_with_those_of_releases_finds_4_4() -> None:
    """franz-go's kversion takes the newest release of which every key is listed to its very last
    version; one key less, and it says "at least v3.9" of whatever else is there."""
    assert listed(World()) == KAFKA_4_4


def test_two_phase_commit_is_listed_where_it_is_enabled() -> None:
    offsets = OffsetsSettings(transactions=TransactionSettings(two_phase_enable=True))

    assert listed(World(BrokerSettings(offsets=offsets))) == KAFKA_4_4 | {apis.INIT_PRODUCER_ID: 6}


def test_what_is_declined_has_its_reason() -> None:
    assert REASONS.keys() == {key for key, api in SERVED.items() if api.spec.is_declined}


DECLINED = [
    pytest.param(key, version, id=f"{SERVED[key].spec.name}-v{version}")
    for key in REASONS
    for version in range(SERVED[key].spec.min_version, SERVED[key].spec.max_version + 1)
]


@pytest.mark.parametrize(("key", "version"), DECLINED)
def test_declined_request_is_answered_with_one_error(key: int, version: int) -> None:
    world = World()

    answer = world.ask(key, empty_request(key, version), version=version, principal="User:alice")

    frame = b"".join(codec.encode_response(key, version, 7, answer))
    _, again = codec.decode_response(key, version, memoryview(frame)[4:])
    assert list(codes(again)) == [REASONS[key].code]


def test_tokens_are_for_who_logged_in() -> None:
    request = empty_request(apis.DESCRIBE_DELEGATION_TOKEN, 3)

    answer = World().ask(apis.DESCRIBE_DELEGATION_TOKEN, request)

    assert answer.error_code is ErrorCode.delegation_token_request_not_allowed


def test_each_group_that_is_named_has_the_error() -> None:
    groups = apis.APIS[apis.STREAMS_GROUP_DESCRIBE].request(group_ids=("a", "b"))
    found = World().ask(apis.STREAMS_GROUP_DESCRIBE, groups).groups
    assert [(each.group_id, each.error_code) for each in found] == [
        ("a", ErrorCode.unsupported_version),
        ("b", ErrorCode.unsupported_version),
    ]
    assert "streams protocol" in found[0].error_message


# Served since tools ask for them.


def test_replica_that_is_to_move_to_where_it_is_is_there() -> None:
    a = e.alter_replica_log_dirs
    world = World()
    world.create()

    def answer(path: str) -> list[ErrorCode]:
        topics = (
            a.AlterReplicaLogDirTopic(name="orders", partitions=(0, 1)),
            a.AlterReplicaLogDirTopic(name="none", partitions=(0,)),
        )
        request = a.AlterReplicaLogDirsRequest(
            dirs=(a.AlterReplicaLogDir(path=path, topics=topics),)
        )
        results = world.ask(apis.ALTER_REPLICA_LOG_DIRS, request).results
        return [each.error_code for topic in results for each in topic.partitions]

    not_here = ErrorCode.replica_not_available
    assert answer("/data") == [ErrorCode.none, not_here, not_here]
    assert answer("/other") == [ErrorCode.log_dir_not_found] * 3


@pytest.mark.parametrize(
    ("version", "types", "found"),
    [
        (1, (), [("1", 4), ("2", 4), ("a", 2), ("b", 2)]),
        (1, (2,), [("a", 2), ("b", 2)]),
        (1, (4, 32), [("1", 4), ("2", 4)]),
        (1, (8, 16, 32), []),
        (0, (), []),
    ],
)
def test_resources_with_a_configuration_are_listed_by_type(
    version: int, types: tuple[int, ...], found: list[tuple[str, int]]
) -> None:
    """KIP-1142."""
    world = World(brokers=2)
    world.create("b")
    world.create("a")
    request = e.list_config_resources.ListConfigResourcesRequest(resource_types=types)

    answer = world.ask(apis.LIST_CONFIG_RESOURCES, request, version=version)

    assert answer.error_code is ErrorCode.none
    resources = [(each.resource_name, each.resource_type) for each in answer.config_resources]
    assert resources == found


@pytest.mark.parametrize("kind", [0, 3, 5, 64])
def test_resources_of_no_type_are_refused(kind: int) -> None:
    request = e.list_config_resources.ListConfigResourcesRequest(resource_types=(2, kind))

    answer = World().ask(apis.LIST_CONFIG_RESOURCES, request)

    assert (answer.error_code, answer.config_resources) == (ErrorCode.unsupported_version, ())
