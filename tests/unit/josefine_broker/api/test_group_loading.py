"""The groups of a partition come when its leadership does, and go with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.coordinators import loading, loading_groups
from josefine_broker.engine.coordinators.loading_groups import (
    begin_loading,
    groups_moved,
    unload_groups,
)
from josefine_broker.engine.coordinators.offsets_topic import append_records, coordinator_of
from josefine_broker.observe.health import check_groups
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis
from josefine_broker.wire.entities import list_groups
from tests.support.fixtures import fixture_of
from tests.unit.josefine_broker.api.group_clients import (
    GROUP,
    beat,
    commit,
    committed,
    delete,
    described,
    group_world,
    join,
    listed,
    newcomer,
    said,
    stable,
    sync,
)
from tests.unit.josefine_broker.api.world import World

LOADING = ErrorCode.coordinator_load_in_progress


world = fixture_of(group_world)


def lead_anew(world: World) -> None:
    """As `engine/metadata_quorum/apply_committed.py` does when the leadership of the group's
    partition comes."""
    tp, hosted = coordinator_of(world.ctx, GROUP)
    begin_loading(world.ctx, tp, hosted)
    groups_moved(world.ctx)


def settle(world: World) -> None:
    """Until all is read."""
    for _ in range(10_000):
        if not world.ctx.clients.groups.loading:
            return
        world.advance(1)
    raise AssertionError("it is never read")


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "STEP_BYTES", 1)


@pytest.mark.usefixtures("small_steps")
def test_groups_are_read_in_steps_and_who_asks_meanwhile_is_told_so(world: World) -> None:
    joined = stable(world)
    for offset in range(20):
        commit(world, offset, joined)

    lead_anew(world)

    assert join(world).error_code is LOADING
    assert said(sync(world, joined)).error_code is LOADING
    assert commit(world, 7, joined) is LOADING
    assert described(world).error_code is LOADING
    assert delete(world, GROUP) == {GROUP: LOADING}
    answer = world.ask(apis.LIST_GROUPS, list_groups.ListGroupsRequest())
    assert answer.error_code is LOADING
    assert beat(world, joined) is ErrorCode.none  # as Kafka: it will be known in a moment
    assert committed(world) == {}  # nothing is seen of what is half read
    settle(world)
    assert committed(world) == {"orders": 19}
    assert beat(world, joined) is ErrorCode.none
    assert listed(world) == [(GROUP, "Stable")]


@pytest.mark.usefixtures("small_steps")
def test_leadership_that_goes_while_its_groups_are_read_ends_that(world: World) -> None:
    commit(world, 5)
    commit(world, 6)
    tp, _ = coordinator_of(world.ctx, GROUP)
    lead_anew(world)

    unload_groups(world.ctx, tp)
    world.advance(1_000)

    assert committed(world) == {}
    assert not world.ctx.clients.groups.loading


def test_who_waits_when_the_leadership_goes_looks_for_the_new_coordinator(world: World) -> None:
    first = stable(world)
    joining = newcomer(world)
    tp, _ = coordinator_of(world.ctx, GROUP)

    unload_groups(world.ctx, tp)
    assert not joining.done
    groups_moved(world.ctx)

    assert said(joining).error_code is ErrorCode.not_coordinator
    assert beat(world, first) is ErrorCode.unknown_member_id


def test_members_have_a_whole_session_to_be_heard_by_the_new_coordinator(world: World) -> None:
    joined = stable(world)
    world.advance(9_999)

    lead_anew(world)
    world.advance(9_999)

    assert beat(world, joined) is ErrorCode.none


@pytest.mark.parametrize("trouble", ["a disk that fails", "a record that is not understood"])
def test_what_cannot_be_read_is_tried_again_and_nothing_is_served_until_then(
    world: World, trouble: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit(world, 5)
    _, hosted = coordinator_of(world.ctx, GROUP)
    read: Callable[..., Any] = hosted.log.read
    is_mended = False

    def failing(*args: Any, **more: Any) -> Any:
        if is_mended:
            return read(*args, **more)
        if trouble.startswith("a disk"):
            raise KafkaError(ErrorCode.kafka_storage_error, "no")
        key = b"\x00\x01\x00\x01g\x00\x01t\x00\x00\x00\x00"
        return [bytes(build_batch([Record(key=key, value=b"\x00\x63" + bytes(8))]))]

    monkeypatch.setattr(hosted.log, "read", failing)
    lead_anew(world)
    world.advance(5_000)
    assert commit(world, 6) is LOADING
    (reading,) = world.ctx.clients.groups.loading.values()
    assert isinstance(reading, loading_groups.Loading)
    assert reading.trouble in check_groups(world.ctx).detail
    assert not check_groups(world.ctx).ok

    is_mended = True
    world.advance(1_000)

    assert committed(world) == {"orders": 5}
    assert check_groups(world.ctx).ok


def test_records_of_other_kinds_are_passed_over(world: World) -> None:
    """Those of Kafka's streams groups, say."""
    commit(world, 5)
    tp, _ = coordinator_of(world.ctx, GROUP)
    entries = [(b"\x00\x11\x00\x01g", b"?"), (b"\x7f", b"?"), (b"", None)]
    append_records(world.ctx, GROUP, entries, 0, lambda error: None)

    lead_anew(world)

    assert tp not in world.ctx.clients.groups.loading
    assert committed(world) == {"orders": 5}


def test_long_partition_is_shortened_with_its_groups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = stable(world)
    for offset in range(50):
        commit(world, offset, joined)
    _, hosted = coordinator_of(world.ctx, GROUP)
    monkeypatch.setattr(loading_groups, "OFFSETS_BYTES_MAX", 1_000)

    lead_anew(world)

    assert hosted.log.log_end_offset - hosted.log.log_start_offset == 2
    again = world.restart()
    assert beat(again, joined) is ErrorCode.none
    assert committed(again) == {"orders": 49}


def test_offsets_of_topics_that_went_meanwhile_are_not_served(world: World) -> None:
    """A topic made anew begins without them, whoever coordinated when the first one went."""
    world.create("old")
    commit(world, 5)
    commit(world, 6, topic="old")
    tp, _ = coordinator_of(world.ctx, GROUP)
    unload_groups(world.ctx, tp)
    world.delete("old")

    lead_anew(world)
    world.create("old")

    for each in (world, world.restart()):
        assert committed(each) == {"orders": 5}
