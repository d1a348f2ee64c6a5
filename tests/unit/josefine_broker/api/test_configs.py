"""DescribeConfigs, IncrementalAlterConfigs, AlterConfigs."""

from typing import Any

import pytest

from josefine_broker.api.shared.altering import BROKER_THROTTLES
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings
from josefine_broker.engine.metadata.inert_configs import REFUSED
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TOPIC_CONFIGS, TopicSettings
from josefine_broker.wire.entities import (
    alter_configs,
    describe_configs,
    incremental_alter_configs,
)
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
THROTTLED = tuple(f"{who}.replication.throttled.replicas" for who in ("leader", "follower"))


def describe(world: World, kind: int = TOPIC, name: str = "orders", **fields: Any) -> Any:
    e = describe_configs
    keys = fields.pop("keys", None)
    resource = e.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=keys
    )
    return world.ask(32, e.DescribeConfigsRequest(resources=(resource,), **fields)).results[0]


def value_of(world: World, name: str) -> tuple[str, int]:
    (config,) = describe(world, keys=(name,)).configs
    return config.value, config.config_source


def alter(world: World, *operations: tuple[str, int, str | None], **fields: Any) -> Any:
    e = incremental_alter_configs
    resource = e.AlterConfigsResource(
        resource_type=fields.pop("kind", TOPIC),
        resource_name=fields.pop("name", "orders"),
        configs=tuple(
            e.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in operations
        ),
    )
    request = e.IncrementalAlterConfigsRequest(resources=(resource,), **fields)
    return world.ask(44, request).responses[0]


world = fixture_of(lambda: world_of(retention_ms="5"))


def test_value_and_source_tell_where_a_setting_comes_from() -> None:
    """Checklist row 21."""
    defaults = TopicSettings(log=LogConfig(segment_bytes=2048), unclean_leader_election=True)
    world = World(BrokerSettings(topic_defaults=defaults))
    world.create(retention_ms="5")

    assert value_of(world, "retention.ms") == ("5", 1)
    assert value_of(world, "segment.bytes") == ("2048", 4)
    assert value_of(world, "unclean.leader.election.enable") == ("true", 4)
    assert value_of(world, "segment.ms") == ("604800000", 5)


def test_synonyms_go_from_the_topic_to_the_default() -> None:
    defaults = TopicSettings(log=LogConfig(retention_ms=9))
    world = World(BrokerSettings(topic_defaults=defaults))
    world.create(retention_ms="5")

    (config,) = describe(world, keys=("retention.ms",), include_synonyms=True).configs

    assert [(s.name, s.value, s.source) for s in config.synonyms] == [
        ("retention.ms", "5", 1),
        ("log.retention.ms", "9", 4),
        ("log.retention.ms", "604800000", 5),
    ]


@pytest.mark.parametrize(
    ("name", "broker_name"),
    [
        ("retention.ms", "log.retention.ms"),
        ("segment.ms", "log.roll.ms"),
        ("flush.messages", "log.flush.interval.messages"),
        ("max.message.bytes", "message.max.bytes"),
        ("min.insync.replicas", "min.insync.replicas"),
        ("message.timestamp.after.max.ms", "log.message.timestamp.after.max.ms"),
    ],
)
def test_a_topics_setting_and_the_brokers_default_of_it_are_named_as_in_kafka(
    world: World, name: str, broker_name: str
) -> None:
    (config,) = describe(world, keys=(name,), include_synonyms=True).configs

    assert config.synonyms[-1].name == broker_name
    assert broker_name in {each.name for each in describe(world, BROKER, "1").configs}


def test_every_setting_is_described_with_its_synonyms(world: World) -> None:
    """One table has both names: a setting cannot be served and lack one."""
    topic = describe(world, include_synonyms=True)
    own = {each.name for each in describe(world, BROKER, "1").configs}

    assert topic.error_code == ErrorCode.none
    assert [each.name for each in topic.configs] == sorted(key.name for key in TOPIC_CONFIGS)
    names = [key.broker_name for key in TOPIC_CONFIGS if key.broker_name]
    assert [each.synonyms[-1].name for each in topic.configs if each.synonyms] == names
    assert len(set(names)) == len(names)
    assert own > set(names)


def test_documentation_comes_when_asked_for(world: World) -> None:
    assert describe(world, include_documentation=True).configs[0].documentation
    assert describe(world).configs[0].documentation is None


def test_unknown_topic_and_kind_have_their_errors(world: World) -> None:
    unknown = describe(world, name="nope")
    logger = describe(world, kind=8)

    assert unknown.error_code == ErrorCode.unknown_topic_or_partition
    assert logger.error_code == ErrorCode.invalid_request


def test_brokers_values_are_read_only(world: World) -> None:
    result = describe(world, BROKER, "1")

    values = {config.name: config.value for config in result.configs}
    assert values["num.partitions"] == "1"
    assert values["log.retention.ms"] == "604800000"
    assert all(config.read_only for config in result.configs)
    sources = {config.name: config.config_source for config in result.configs}
    assert (sources["broker.id"], sources["num.partitions"], sources["log.dirs"]) == (4, 5, 4)
    assert sources["log.retention.ms"] == 5
    assert sources["auto.create.topics.enable"] == 4  # not so by default
    assert describe(world, BROKER, "2").error_code == ErrorCode.invalid_request


def test_set_and_delete_take_effect_at_once(world: World) -> None:
    """Checklist row 21."""
    alter(world, ("max.message.bytes", SET, "100"), ("retention.ms", DELETE, None))

    assert value_of(world, "retention.ms")[1] == 5
    assert world.produce(batch_of(b"x" * 100)).error_code == ErrorCode.message_too_large
    assert world.restart().produce(batch_of(b"x" * 100)).error_code == ErrorCode.message_too_large


def test_log_follows_its_topics_settings(world: World) -> None:
    for _ in range(3):
        world.produce(batch_of(b"x" * 1000))
    alter(world, ("segment.bytes", SET, "1024"))

    for _ in range(3):
        world.produce(batch_of(b"x" * 1000))

    assert len([name for name in world.files.list("orders-0") if name.endswith(".log")]) == 4


def test_list_is_appended_to_and_subtracted_from(world: World) -> None:
    """KIP-339."""
    alter(world, ("cleanup.policy", APPEND, "compact"))
    assert value_of(world, "cleanup.policy")[0] == "delete,compact"

    alter(world, ("cleanup.policy", SUBTRACT, "delete"))
    assert value_of(world, "cleanup.policy")[0] == "compact"
    topic = world.ctx.image.topics["orders"]
    alter(world, ("cleanup.policy", APPEND, "compact"))
    assert dict(world.ctx.image.topics["orders"].config) == dict(topic.config), "it is there"

    alter(world, ("cleanup.policy", SUBTRACT, "compact"))
    assert value_of(world, "cleanup.policy") == ("", 1), "neither deleted nor compacted (KIP-1161)"


@pytest.mark.parametrize(
    ("operations", "code"),
    [
        ([("retention.ms", SET, "soon")], ErrorCode.invalid_config),
        ([("retention.ms", SET, None)], ErrorCode.invalid_request),
        ([("cleanup.policy", APPEND, None)], ErrorCode.invalid_request),
        ([("no.such", SET, "1")], ErrorCode.invalid_config),
        ([("retention.ms", APPEND, "1")], ErrorCode.invalid_config),
        ([("cleanup.policy", APPEND, "shred")], ErrorCode.invalid_config),
        (
            [("min.compaction.lag.ms", SET, "9"), ("max.compaction.lag.ms", SET, "8")],
            ErrorCode.invalid_config,
        ),
        ([("retention.ms", 9, "1")], ErrorCode.invalid_request),
        ([("retention.ms", SET, "1"), ("retention.ms", SET, "2")], ErrorCode.invalid_request),
        ([("segment.ms", SET, "1"), ("retention.ms", SET, "x")], ErrorCode.invalid_config),
    ],
)
def test_wrong_alteration_changes_nothing(
    world: World, operations: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    before = world.ctx.image

    assert alter(world, *operations).error_code == code
    assert world.ctx.image is before


def test_validate_only_changes_nothing(world: World) -> None:
    result = alter(world, ("retention.ms", SET, "7"), validate_only=True)

    assert result.error_code == ErrorCode.none
    assert value_of(world, "retention.ms")[0] == "5"


def test_brokers_and_unknown_topics_are_not_altered(world: World) -> None:
    broker = alter(world, ("retention.ms", SET, "1"), kind=BROKER, name="1")
    nobody = alter(world, ("retention.ms", DELETE, None), kind=BROKER, name="7")
    logger = alter(world, ("kafka", SET, "DEBUG"), kind=8, name="1")
    unknown = alter(world, ("retention.ms", SET, "1"), name="nope")

    assert broker.error_code == ErrorCode.invalid_request
    assert "a broker's settings are in its file" in broker.error_message
    assert (nobody.error_code, nobody.error_message) == (
        ErrorCode.invalid_request,
        "there is no broker '7'",
    )
    assert logger.error_code == ErrorCode.invalid_request
    assert "'log.level' in each broker's file" in logger.error_message
    assert unknown.error_code == ErrorCode.unknown_topic_or_partition


def test_subscriptions_of_client_metrics_are_in_the_brokers_files(world: World) -> None:
    altered = alter(world, ("metrics", SET, "org.apache.kafka."), kind=16, name="s")
    for answer in (altered, describe(world, kind=16, name="s")):
        assert answer.error_code == ErrorCode.invalid_request
        assert "'telemetry.client_metrics' in each broker's file" in answer.error_message


@pytest.mark.parametrize("name", ["1", ""])
def test_throttles_that_nobody_set_can_be_cleared(world: World, name: str) -> None:
    """What `kafka-reassign-partitions --verify` does when a move is complete."""
    before = world.ctx.image
    throttles = [(each, DELETE, None) for each in sorted(BROKER_THROTTLES)]
    of_topic = [(each, DELETE, None) for each in (*REFUSED, *THROTTLED)]

    broker = alter(world, *throttles, kind=BROKER, name=name)
    topic = alter(world, *of_topic)

    assert {broker.error_code, topic.error_code} == {ErrorCode.none}
    assert world.ctx.image.topics == before.topics


def test_throttles_of_replication_are_accepted(world: World) -> None:
    """What `kafka-reassign-partitions --throttle` and topicctl set before they move anything."""
    rates = [(each, SET, "1000000") for each in sorted(BROKER_THROTTLES)]
    assert alter(world, *rates, kind=BROKER, name="1").error_code == ErrorCode.none

    for name in (
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    ):
        for value in ("0:1,1:2", "*", ""):
            assert alter(world, (name, SET, value)).error_code == ErrorCode.none
            assert value_of(world, name)[0] == value
        alter(world, (name, APPEND, "0:1"))
        assert value_of(world, name) == ("0:1", 1)
        alter(world, (name, SUBTRACT, "0:1"))
        assert value_of(world, name)[0] == ""
        assert name not in {each.name for each in describe(world, BROKER, "1").configs}


@pytest.mark.parametrize("value", ["x", "0", "0:", "*,0:1", "0:1;1:2", "-1:1"])
def test_throttled_replicas_are_pairs_of_partition_and_broker(world: World, value: str) -> None:
    answer = alter(world, ("leader.replication.throttled.replicas", SET, value))

    assert answer.error_code == ErrorCode.invalid_config


@pytest.mark.parametrize("value", ["x", "-1", "", str(2**63)])
def test_throttled_rate_is_a_number_of_bytes(world: World, value: str) -> None:
    rate = ("leader.replication.throttled.rate", SET, value)

    answer = alter(world, rate, kind=BROKER, name="1")

    assert answer.error_code == ErrorCode.invalid_request


TOOLS_READ = (
    "advertised.listeners", "listeners", "node.id", "broker.id", "broker.rack",
    "log.retention.hours", "log.retention.ms", "log.retention.bytes", "log.dirs",
    "num.partitions", "default.replication.factor", "min.insync.replicas",
    "offsets.topic.replication.factor", "offsets.topic.num.partitions",
    "offsets.retention.minutes", "delete.topic.enable", "auto.create.topics.enable",
    "unclean.leader.election.enable", "message.max.bytes", "group.max.session.timeout.ms",
    "group.min.session.timeout.ms", "group.initial.rebalance.delay.ms", "connections.max.idle.ms",
    "transaction.state.log.replication.factor", "transaction.max.timeout.ms",
    "replica.lag.time.max.ms", "process.roles", "listener.security.protocol.map",
    "compression.type",
)  # fmt: skip


def test_broker_has_the_configs_that_tools_read(world: World) -> None:
    result = describe(world, BROKER, "1", keys=TOOLS_READ)

    assert {each.name for each in result.configs} == set(TOOLS_READ)
    values = {each.name: each.value for each in result.configs}
    assert values["advertised.listeners"] == "PLAINTEXT://host1:9091"
    assert (values["node.id"], values["broker.rack"]) == ("1", None)
    assert (values["log.retention.hours"], values["offsets.retention.minutes"]) == ("168", "10080")
    assert values["delete.topic.enable"] == "true"


def test_brokers_config_has_its_default_for_a_synonym(world: World) -> None:
    keys = ("offsets.topic.num.partitions", "node.id", "num.partitions")

    found = describe(world, BROKER, "1", keys=keys, include_synonyms=True).configs

    assert {each.name: [(s.value, s.source) for s in each.synonyms] for each in found} == {
        "node.id": [("1", 4)],
        "num.partitions": [("1", 5)],
        "offsets.topic.num.partitions": [("8", 4), ("50", 5)],
    }


def test_alter_configs_replaces_everything(world: World) -> None:
    """KIP-133."""
    e = alter_configs
    config = e.AlterableConfig(name="segment.ms", value="9")
    resource = e.AlterConfigsResource(
        resource_type=TOPIC, resource_name="orders", configs=(config,)
    )

    result = world.ask(33, e.AlterConfigsRequest(resources=(resource,))).responses[0]
    twice = world.ask(33, e.AlterConfigsRequest(resources=(resource, resource))).responses

    assert result.error_code == ErrorCode.none
    assert value_of(world, "segment.ms") == ("9", 1)
    assert value_of(world, "retention.ms") == ("604800000", 5)
    assert {each.error_code for each in twice} == {ErrorCode.invalid_request}


def test_the_admin_address_is_described_if_it_is_asked_for_by_its_name_alone(world: World) -> None:
    (found,) = describe(world, BROKER, "", keys=("admin.address",)).configs
    registered = world.ctx.image.brokers[world.ctx.broker_id].admin

    assert (found.name, found.value, found.read_only) == ("admin.address", registered, True)
    assert "admin.address" not in {each.name for each in describe(world, BROKER, "").configs}
    keys = {"name": "orders", "keys": ("admin.address",)}
    assert describe(world, TOPIC, **keys).configs == ()
