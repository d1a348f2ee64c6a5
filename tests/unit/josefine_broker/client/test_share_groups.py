"""Our client as a member and as an administrator of share groups, at a broker in memory."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import group_admin, share_admin, share_membership
from josefine_broker.client.effects import Call
from josefine_broker.client.share_membership import AcquiredRecords, ShareMember
from josefine_broker.engine.coordinators.group_configs_host import config_of
from josefine_broker.engine.purgatory.purgatory import Parked
from tests.unit.josefine_broker.api.share_members import GROUP
from tests.unit.josefine_broker.api.test_group_configs import give
from tests.unit.josefine_broker.api.world import World, batch_of, world_of
from tests.unit.josefine_broker.client.driver import Driver

ORDERS = TopicPartition("orders", 0)


def driver_of(world: World) -> Driver:
    def answer(call: Call) -> Any:
        found = world.ask(call.api_key, call.request)
        world.advance(10)
        return found.response if isinstance(found, Parked) else found

    return Driver(answer)


def sharer(world: World, name: str) -> tuple[Driver, ShareMember]:
    driver, member = driver_of(world), ShareMember(GROUP, ("orders",), name)
    driver.run(lambda t, d: share_membership.heartbeat(driver.session, member, t, d))
    return driver, member


def read(driver: Driver, member: ShareMember, records_max: int = 10) -> list[AcquiredRecords]:
    return driver.run(
        lambda t, d: share_membership.fetch(driver.session, member, records_max, 0, t, d)
    )


def values(found: list[AcquiredRecords]) -> list[bytes | None]:
    return [record.value for each in found for record in each.each()]


def world_with(*records: bytes) -> World:
    world = world_of()
    give(world, share_auto_offset_reset="earliest")
    for record in records:
        world.produce(batch_of(record))
    return world


def test_member_gets_records_once_and_accepts_them_with_its_next_fetch() -> None:
    world = world_with(b"v0", b"v1", b"v2")
    driver, member = sharer(world, "a")
    first = read(driver, member, 2)
    assert (values(first), [each.tp for each in first]) == ([b"v0", b"v1"], [ORDERS])
    member.accept(first[0].part, first[0].ranges)
    assert values(read(driver, member)) == [b"v2"]
    admin = driver_of(world)
    offsets = admin.run(lambda t, d: share_admin.share_offsets(admin.session, GROUP, t, d))
    assert offsets == {ORDERS: share_admin.ShareOffset(2, 1)}
    described = admin.run(lambda t, d: group_admin.describe_group(admin.session, GROUP, t, d))
    assert (described.protocol_type, described.epoch) == (share_admin.SHARE, 1)
    assert [(each.member_id, each.assigned) for each in described.members] == [("a", (ORDERS,))]


def test_member_that_leaves_accepts_what_it_has_and_gives_back_the_rest() -> None:
    world = world_with(b"v0", b"v1")
    driver, member = sharer(world, "a")
    (got,) = read(driver, member)
    member.accept(got.part, ((0, 0),))
    driver.run(lambda t, d: share_membership.leave(driver.session, member, t, d))
    other, second = sharer(world, "b")
    assert values(read(other, second)) == [b"v1"]


def test_member_whose_session_is_lost_opens_another() -> None:
    world = world_with(b"v0", b"v1")
    driver, member = sharer(world, "a")
    (got,) = read(driver, member, 1)
    world.ctx.clients.shares.sessions.close(GROUP, "a")
    member.accept(got.part, got.ranges)
    assert read(driver, member) == []  # its acceptance is lost with the session
    assert values(read(driver, member)) == [b"v1"]
    world.advance(config_of(world.ctx, GROUP).share.limits.lock_ms)
    assert values(read(driver, member)) == [b"v0", b"v1"]


def test_member_that_is_not_known_any_more_joins_again() -> None:
    world = world_with(b"v0")
    driver, member = sharer(world, "a")
    world.advance(45_000)
    driver.run(lambda t, d: share_membership.heartbeat(driver.session, member, t, d))
    assert values(read(driver, member)) == [b"v0"]


def test_offsets_are_altered_and_deleted() -> None:
    world = world_with(b"v0", b"v1")
    driver, member = sharer(world, "a")
    admin = driver_of(world)

    def alter(start: int) -> None:
        starts = {ORDERS: start}
        admin.run(lambda t, d: share_admin.alter_share_offsets(admin.session, GROUP, starts, t, d))

    with pytest.raises(KafkaError) as refused:
        alter(1)
    assert refused.value.code is ErrorCode.non_empty_group
    driver.run(lambda t, d: share_membership.leave(driver.session, member, t, d))
    alter(1)
    offsets = admin.run(lambda t, d: share_admin.share_offsets(admin.session, GROUP, t, d))
    assert offsets == {ORDERS: share_admin.ShareOffset(1, 1)}
    topics = ["orders", "none"]
    with pytest.raises(KafkaError, match="none: the group has no offsets"):
        admin.run(lambda t, d: share_admin.delete_share_offsets(admin.session, GROUP, topics, t, d))
    offsets = admin.run(lambda t, d: share_admin.share_offsets(admin.session, GROUP, t, d))
    assert offsets == {}
