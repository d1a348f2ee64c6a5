"""Configurations of single groups (KIP-848, KIP-932): checked as by Kafka, kept in the metadata,
applied to live groups."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.acls import Acl, Operation, PatternType, Permission, ResourceType
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.context import BrokerSettings, OffsetsSettings
from josefine_broker.engine.groups.values import GroupSettings
from josefine_broker.engine.metadata.change_words import describe_change
from josefine_broker.engine.metadata.changes import AlterAcls, AlterGroupConfig
from josefine_broker.engine.metadata.image import JOSEFINE_VERSION, FeatureRange, MetadataImage
from josefine_broker.engine.metadata.proposals import is_in_effect
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    alter_configs,
    consumer_group_heartbeat,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from tests.unit.josefine_broker.api.share_members import (
    ACCEPT,
    GROUP,
    RELEASE,
    RENEW,
    Sharer,
    find,
    got,
)
from tests.unit.josefine_broker.api.test_share_groups import described, sharing
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

OF_GROUPS = 32
SET, DELETE, APPEND = range(3)
LOCK, LIMIT = "share.record.lock.duration.ms", "share.delivery.count.limit"
DLQ = "errors.deadletterqueue.topic.name"


def change(
    world: World,
    *configs: tuple[str, int, str | None],
    group_id: str = GROUP,
    **changes: Any,
) -> Any:
    """IncrementalAlterConfigs of (name, operation, value); returns the result."""
    e = incremental_alter_configs
    resource = e.AlterConfigsResource(
        resource_type=OF_GROUPS,
        resource_name=group_id,
        configs=tuple(
            e.AlterableConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in configs
        ),
    )
    fields: dict[str, Any] = {"validate_only": False}
    principal = changes.pop("principal", None)
    request = e.IncrementalAlterConfigsRequest(resources=(resource,), **(fields | changes))
    asked = {} if principal is None else {"principal": principal}
    return world.ask(apis.INCREMENTAL_ALTER_CONFIGS, request, **asked).responses[0]


def give(world: World, group_id: str = GROUP, **values: str) -> None:
    """Set `share_record_lock_duration_ms` for share.record.lock.duration.ms."""
    configs = [(name.replace("_", "."), SET, value) for name, value in values.items()]
    result = change(world, *configs, group_id=group_id)
    assert result.error_code is ErrorCode.none, result


def shown(world: World, *names: str, group_id: str = GROUP) -> dict[str, tuple[str, int, Any]]:
    """Name → its value, its source, and the sources of its synonyms."""
    e = describe_configs
    resource = e.DescribeConfigsResource(
        resource_type=OF_GROUPS, resource_name=group_id, configuration_keys=names or None
    )
    request = e.DescribeConfigsRequest(
        resources=(resource,), include_synonyms=True, include_documentation=True
    )
    (result,) = world.ask(apis.DESCRIBE_CONFIGS, request).results
    assert result.error_code is ErrorCode.none, result
    return {
        each.name: (each.value, each.config_source, [s.source for s in each.synonyms])
        for each in result.configs
    }


def test_group_shows_what_was_set_on_it_before_what_the_broker_has() -> None:
    world = world_of()
    before = shown(world)
    assert before[LOCK] == ("30000", 5, [5])
    assert before["share.isolation.level"] == ("read_uncommitted", 5, [5])
    assert before["share.renew.acknowledge.enable"] == ("true", 5, [5])
    give(world, share_record_lock_duration_ms=" 20000 ")
    assert shown(world, LOCK) == {LOCK: ("20000", 8, [8, 5])}
    assert shown(world, LOCK, group_id="another") == {LOCK: ("30000", 5, [5])}
    assert change(world, (LOCK, DELETE, None)).error_code is ErrorCode.none
    assert shown(world) == before
    assert world.ctx.image.group_configs == {}


# What the GroupConfig class of Kafka 4.4.0 said of each.
@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        (LOCK, "14999", False),
        (LOCK, "15000", True),
        (LOCK, "60001", False),
        (LOCK, "x", False),
        (LOCK, "", False),
        (LOCK, " 20000 ", True),
        ("share.session.timeout.ms", "44999", False),
        ("share.session.timeout.ms", "99999999999", False),
        ("share.heartbeat.interval.ms", "4999", False),
        ("share.heartbeat.interval.ms", "15001", False),
        (LIMIT, "1", False),
        (LIMIT, "11", False),
        ("share.partition.max.record.locks", "99", False),
        ("share.partition.max.record.locks", "4001", False),
        ("share.auto.offset.reset", "none", False),
        ("share.auto.offset.reset", "EARLIEST", False),
        ("share.auto.offset.reset", "by_duration:1h", False),
        ("share.auto.offset.reset", "by_duration:PT1H", True),
        (DLQ, "dlq.a", True),
        (DLQ, "", True),
        (DLQ, "orders", False),
        (DLQ, "dlq.a/b", False),
        (DLQ, "__share_group_state", False),
        ("share.isolation.level", "READ_COMMITTED", False),
        ("share.isolation.level", "read_committed", True),
        ("share.renew.acknowledge.enable", "yes", False),
        ("share.renew.acknowledge.enable", "FALSE", True),
        ("no.such", "1", False),
        ("consumer.session.timeout.ms", "1", False),
        ("consumer.session.timeout.ms", "60000", True),
        ("consumer.heartbeat.interval.ms", "15000", True),
        ("consumer.heartbeat.interval.ms", "-5", False),
    ],
)
def test_values_are_checked_as_by_kafka(name: str, value: str, is_valid: bool) -> None:
    world = world_of()
    result = change(world, (name, SET, value))
    expected = ErrorCode.none if is_valid else ErrorCode.invalid_config
    assert result.error_code is expected, result
    assert bool(world.ctx.image.group_configs) is is_valid
    if not is_valid:
        assert f"'{name}'" in result.error_message


def test_session_timeout_must_be_above_the_heartbeat_interval() -> None:
    # Possible only with a broker whose own values are outside of Kafka's bounds.
    groups = GroupSettings(consumer_session_timeout_ms=9_000)
    world = World(BrokerSettings(offsets=OffsetsSettings(groups=groups)))
    result = change(
        world,
        ("share.session.timeout.ms", SET, "9000"),
        ("share.heartbeat.interval.ms", SET, "15000"),
    )
    assert result.error_code is ErrorCode.invalid_config
    assert "must be above 'share.heartbeat.interval.ms'" in result.error_message


def test_wrong_requests_are_refused() -> None:
    world = world_of()
    twice = change(world, (LOCK, SET, "20000"), (LOCK, DELETE, None))
    assert twice.error_code is ErrorCode.invalid_request
    assert change(world, (LOCK, SET, None)).error_code is ErrorCode.invalid_request
    assert change(world, (LOCK, APPEND, "20000")).error_code is ErrorCode.invalid_config
    assert change(world, (LOCK, 9, "20000")).error_code is ErrorCode.invalid_request
    for group_id in ("", "g" * 2_000):
        refused = change(world, (LOCK, SET, "20000"), group_id=group_id)
        assert refused.error_code is ErrorCode.invalid_request
    near = change(world, ("share.record.lock.duration", SET, "20000"))
    assert f"the nearest is '{LOCK}'" in near.error_message
    checked = change(world, (LOCK, SET, "20000"), validate_only=True)
    assert checked.error_code is ErrorCode.none
    assert world.ctx.image.group_configs == {}


def test_whole_configuration_can_be_replaced() -> None:
    world = world_of()
    give(world, share_record_lock_duration_ms="20000")
    e = alter_configs
    config = e.AlterableConfig(name=LIMIT, value="3")
    resource = e.AlterConfigsResource(
        resource_type=OF_GROUPS, resource_name=GROUP, configs=(config,)
    )
    request = e.AlterConfigsRequest(resources=(resource,), validate_only=False)
    (result,) = world.ask(apis.ALTER_CONFIGS, request).responses
    assert result.error_code is ErrorCode.none
    assert world.ctx.image.group_configs == {GROUP: ((LIMIT, "3"),)}


def test_groups_with_a_configuration_are_listed() -> None:
    world = world_of()
    give(world, share_delivery_count_limit="3")
    request = list_config_resources.ListConfigResourcesRequest(resource_types=(OF_GROUPS,))
    answer = world.ask(apis.LIST_CONFIG_RESOURCES, request)
    assert [each.resource_name for each in answer.config_resources] == [GROUP]


# Live groups.


def test_lock_of_a_group_ends_when_its_configuration_says() -> None:
    world, a = sharing(b"v0", b"v1")
    give(world, share_record_lock_duration_ms="15000")
    answer = a.fetch(max_records=1, share_acquire_mode=1)
    assert (got(answer), answer.acquisition_lock_timeout_ms) == ([(0, 0, 1)], 15_000)
    b = Sharer(world, "b").join()
    world.advance(14_989)
    assert got(b.fetch()) == [(1, 1, 1)]
    world.advance(1)
    assert got(b.fetch()) == [(0, 0, 2)]


def test_delivery_limit_of_a_group_counts_for_what_is_in_flight() -> None:
    world, a = sharing(b"v0")
    a.fetch()
    a.acknowledge((0, 0, RELEASE))
    give(world, share_delivery_count_limit="2")
    assert got(a.fetch()) == [(0, 0, 2)]
    a.acknowledge((0, 0, RELEASE))
    assert got(a.fetch()) == []


def test_group_may_start_at_the_beginning() -> None:
    world = world_of()
    world.produce(batch_of(b"before"))
    give(world, share_auto_offset_reset="earliest")
    assert got(Sharer(world, "a").join().fetch()) == [(0, 0, 1)]
    assert got(Sharer(world, "b", group_id="another").join().fetch()) == []


def test_locks_are_not_renewed_where_that_is_disabled() -> None:
    world, a = sharing(b"v0")
    give(world, share_renew_acknowledge_enable="false")
    a.fetch()
    assert a.acknowledge((0, 0, RENEW), is_renew_ack=True) is ErrorCode.invalid_record_state
    assert a.acknowledge((0, 0, ACCEPT)) is ErrorCode.none


def test_members_hear_the_interval_and_have_the_session_of_their_group() -> None:
    world, a = sharing()
    give(world, share_session_timeout_ms="60000", share_heartbeat_interval_ms="15000")
    assert a.beat().heartbeat_interval_ms == 15_000
    world.advance(59_999)
    assert len(described(world).members) == 1
    world.advance(1)
    assert len(described(world).members) == 0


def test_consumers_hear_the_interval_and_have_the_session_of_their_group() -> None:
    world = world_of()
    find(world, "readers")
    give(world, consumer_session_timeout_ms="60000", consumer_heartbeat_interval_ms="15000")
    e = consumer_group_heartbeat
    request = e.ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="a",
        member_epoch=0,
        rebalance_timeout_ms=300_000,
        subscribed_topic_names=("orders",),
        topic_partitions=(),
    )
    answer = world.ask(apis.CONSUMER_GROUP_HEARTBEAT, request)
    assert (answer.error_code, answer.heartbeat_interval_ms) == (ErrorCode.none, 15_000)
    consumers = world.ctx.clients.groups.coordinator.consumers
    world.advance(59_999)
    group = consumers.get(GROUP)
    assert group is not None
    assert len(group.members) == 1
    world.advance(1)
    group = consumers.get(GROUP)
    assert group is not None
    assert not group.members


def test_removed_configuration_is_that_of_the_broker_again() -> None:
    world, a = sharing()
    give(world, share_session_timeout_ms="60000")
    assert change(world, ("share.session.timeout.ms", DELETE, None)).error_code is ErrorCode.none
    a.beat()
    world.advance(45_000)
    assert len(described(world).members) == 0


# The metadata.


def test_configurations_are_there_after_a_restart() -> None:
    world = world_of()
    give(world, share_record_lock_duration_ms="20000", share_delivery_count_limit="3")
    expected = {GROUP: ((LIMIT, "3"), (LOCK, "20000"))}
    assert world.restart().ctx.image.group_configs == expected
    data = world.ctx.image.to_bytes()
    assert b'"version":5' in data
    assert MetadataImage.from_bytes(data) == world.ctx.image
    plain = AlterGroupConfig(group_id=GROUP, assign=((LOCK, "20000"),), remove=("no.such",))
    assert is_in_effect(plain, world.ctx.image)
    assert not is_in_effect(AlterGroupConfig(group_id=GROUP, remove=(LOCK,)), world.ctx.image)
    assert not is_in_effect(AlterGroupConfig(group_id="x", assign=((LOCK, "1"),)), world.ctx.image)
    assert describe_change(plain, {}) == (
        f"configure group readers: {LOCK}=20000, no.such back to its default"
    )


def test_cluster_of_before_keeps_no_configurations_of_groups() -> None:
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, 7),))
    height = world.height
    result = change(world, (LOCK, SET, "20000"))
    assert result.error_message == (
        "configurations of groups need josefine.version 8: finalize that level first"
    )
    assert b'"version":4' in world.ctx.image.to_bytes()
    assert world.height == height, "no block: an older broker would stop at it"


def test_configuration_needs_the_right_to_it() -> None:
    world = world_of()
    world.ctx.clients.authorizer = Authorizer(frozenset({"User:root"}))
    asked = (LOCK, SET, "20000")
    denied = change(world, asked, principal="User:alice")
    assert denied.error_code is ErrorCode.group_authorization_failed
    world.propose(
        AlterAcls(
            add=(
                Acl(
                    ResourceType.GROUP,
                    GROUP,
                    PatternType.LITERAL,
                    "User:alice",
                    "*",
                    Operation.ALTER_CONFIGS,
                    Permission.ALLOW,
                ),
            )
        )
    )
    assert change(world, asked, principal="User:alice").error_code is ErrorCode.none
    other = change(world, asked, group_id="another", principal="User:alice")
    assert other.error_code is ErrorCode.group_authorization_failed
