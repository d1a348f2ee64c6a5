"""ListGroups, DescribeGroups, DeleteGroups, OffsetDelete, and offsets that are old."""

from __future__ import annotations

import pytest

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.coordinators.groups_host import expire_offsets
from josefine_broker.engine.groups.offsets import CommittedOffset
from josefine_broker.engine.metadata.features import JOSEFINE_VERSION
from josefine_broker.engine.metadata.image import FeatureRange
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.group_clients import (
    GROUP,
    SUBSCRIPTION,
    commit,
    committed,
    delete,
    delete_offset,
    described,
    find_coordinator,
    group_world,
    join,
    leave,
    listed,
    newcomer,
    said,
    stable,
)
from tests.unit.josefine_broker.api.world import World

RETENTION_MS = 1_000_000
NONE = ErrorCode.none


world = fixture_of(lambda: group_world(offsets_retention_ms=RETENTION_MS))


def expire(world: World) -> None:
    for _ in expire_offsets(world.ctx):
        pass


def test_groups_are_listed_by_state(world: World) -> None:
    """Checklist row 23 (KIP-518)."""
    stable(world)
    commit(world, 5, group="simple")

    assert listed(world) == [(GROUP, "Stable"), ("simple", "Empty")]
    assert listed(world, states_filter=("STABLE",)) == [(GROUP, "Stable")]
    assert listed(world, states_filter=("Empty", "Dead")) == [("simple", "Empty")]
    assert listed(world, types_filter=("Classic",)) == listed(world)
    assert listed(world, types_filter=("consumer",)) == []


def test_stable_group_is_described_with_its_members(world: World) -> None:
    """Checklist row 23."""
    joined = stable(world, instance_id="i")

    group = described(world)

    assert (group.group_state, group.protocol_type, group.protocol_data) == (
        "Stable",
        "consumer",
        "range",
    )
    (member,) = group.members
    assert (member.member_id, member.group_instance_id) == (joined.member_id, "i")
    assert (member.member_metadata, member.member_assignment) == (SUBSCRIPTION, b"all")


def test_group_in_a_rebalance_is_described_without_what_its_members_have(world: World) -> None:
    stable(world)
    newcomer(world)

    group = described(world)

    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [(each.member_metadata, each.member_assignment) for each in group.members] == [
        (b"", b"")
    ] * 2


def test_group_that_is_not_there_is_dead_and_since_version_6_not_found(world: World) -> None:
    """KIP-1043."""
    for version, code in ((5, NONE), (6, ErrorCode.group_id_not_found)):
        group = described(world, "nobody", version=version)
        assert (group.group_state, group.error_code) == ("Dead", code)


def test_operations_are_told_when_asked_for(world: World) -> None:
    stable(world)

    assert described(world, include_authorized_operations=True).authorized_operations == 3400
    assert described(world).authorized_operations == -2147483648


def test_deleted_group_is_gone_with_its_offsets_for_good(world: World) -> None:
    """Checklist row 23."""
    joined = stable(world)
    commit(world, 5, joined)
    commit(world, 5, group="simple")
    assert delete(world, GROUP) == {GROUP: ErrorCode.non_empty_group}
    leave(world, (joined.member_id, None))

    assert delete(world, GROUP, "simple", "nobody", "") == {
        GROUP: NONE,
        "simple": NONE,
        "nobody": ErrorCode.group_id_not_found,
        "": ErrorCode.group_id_not_found,
    }

    for each in (world, world.restart()):
        assert listed(each) == []
        assert committed(each) == {}


def test_group_that_cannot_be_deleted_is_still_there(world: World) -> None:
    commit(world, 5)
    world.files.space_bytes = 0

    assert delete(world, GROUP) == {GROUP: ErrorCode.coordinator_not_available}

    assert committed(world) == {"orders": 5}


def test_group_may_be_made_anew_behind_its_deletion(world: World) -> None:
    joined = stable(world)
    leave(world, (joined.member_id, None))
    delete(world, GROUP)

    again = stable(world)

    assert again.generation_id == 1
    assert described(world.restart()).members[0].member_id == again.member_id


def test_single_offsets_are_deleted_but_of_topics_that_a_member_reads(world: World) -> None:
    """KIP-496."""
    world.create("old")
    joined = stable(world)
    commit(world, 5, joined)
    commit(world, 6, joined, topic="old")

    answer = delete_offset(world, "orders", "old", "nope")

    assert answer == (
        NONE,
        {
            "orders": ErrorCode.group_subscribed_to_topic,
            "old": NONE,
            "nope": ErrorCode.unknown_topic_or_partition,
        },
    )
    for each in (world, world.restart()):
        assert committed(each) == {"orders": 5}
    assert delete_offset(world, "old")[1] == {"old": NONE}  # there is none: no error


def test_offsets_of_other_kinds_of_groups_are_deleted_only_without_members(world: World) -> None:
    stable(world, group="connect", protocol_type="connect")
    commit(world, 5, group="simple")

    assert delete_offset(world, "orders", group="connect")[0] is ErrorCode.non_empty_group
    assert delete_offset(world, "orders", group="nobody")[0] is ErrorCode.group_id_not_found
    assert delete_offset(world, "orders", group="simple") == (NONE, {"orders": NONE})
    assert committed(world, "simple") == {}


def test_offsets_of_a_group_go_when_they_are_old(world: World) -> None:
    """Checklist row 23, as Kafka since KIP-211: counted from when the group became empty."""
    joined = stable(world, session_ms=RETENTION_MS)
    commit(world, 5, joined)
    commit(world, 5, group="simple")
    world.advance(RETENTION_MS - 1)
    leave(world, (joined.member_id, None))
    world.advance(1)

    expire(world)
    assert listed(world) == [(GROUP, "Empty")]
    world.advance(RETENTION_MS)
    expire(world)

    for each in (world, world.restart()):
        assert listed(each) == []


def test_offsets_that_cannot_be_deleted_yet_are_found_again(world: World) -> None:
    commit(world, 5)
    world.advance(RETENTION_MS)
    world.files.space_bytes = 0
    expire(world)
    assert committed(world) == {"orders": 5}

    world.files.space_bytes = None
    expire(world)

    assert committed(world) == {}


@pytest.mark.parametrize(("level", "is_kept"), [(2, True), (3, False)])
def test_oldest_commits_say_for_how_long_where_every_broker_understands_that(
    level: int, is_kept: bool
) -> None:
    """OffsetCommit 2 to 4; brokers before level 3 could not read such a record."""
    world = World(features=(FeatureRange(JOSEFINE_VERSION, 1, level),))
    world.create()
    find_coordinator(world)
    assert commit(world, 5, version=2, retention_time_ms=1_000) is NONE

    world.advance(1_000)
    again = world.restart()
    again.clock.elapsed_ms = world.clock.elapsed_ms
    expire(again)

    assert bool(committed(again)) is is_kept


def test_thousands_of_offsets_go_in_batches_that_are_not_too_large(world: World) -> None:
    offsets = world.ctx.clients.groups.coordinator.offsets
    for partition in range(12_000):
        tp = TopicPartition("orders", partition)
        offsets.store(GROUP, tp, CommittedOffset(1, -1, "", 0))

    assert delete(world, GROUP) == {GROUP: NONE}

    assert committed(world) == {}
    assert said(join(world)).error_code is ErrorCode.member_id_required


def test_deletion_that_was_written_in_part_is_no_success_and_goes_on_when_asked_again(
    world: World,
) -> None:
    offsets = world.ctx.clients.groups.coordinator.offsets
    for partition in range(12_000):
        tp = TopicPartition("orders", partition)
        offsets.store(GROUP, tp, CommittedOffset(1, -1, "", 0))
    world.files.space_bytes = 200_000  # room for one batch

    assert delete(world, GROUP) == {GROUP: ErrorCode.coordinator_not_available}

    assert len(offsets.committed(GROUP)) == 7_000
    world.files.space_bytes = None
    assert delete(world, GROUP) == {GROUP: NONE}
