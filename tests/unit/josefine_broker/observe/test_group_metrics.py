"""What `/metrics` says of consumer groups, and how much at most."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.groups.share.counts import GROUPS_MAX, ShareCounts
from josefine_broker.host.metrics import Metrics
from josefine_broker.observe.group_metrics import register_group_metrics
from josefine_broker.observe.share_metrics import register_share_metrics
from tests.unit.josefine_broker.api.group_clients import (
    GROUP,
    REBALANCE_MS,
    SESSION_MS,
    commit,
    group_world,
    stable,
)
from tests.unit.josefine_broker.api.share_members import ACCEPT, RELEASE
from tests.unit.josefine_broker.api.share_members import GROUP as SHARERS
from tests.unit.josefine_broker.api.test_share_groups import sharing
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

Read = dict[tuple[str, ...], float]


def read(world: World, series_max: int = 1_000) -> Read:
    """(name without its prefix, label values in the order of the labels' names) → value."""
    metrics = Metrics()
    register_group_metrics(metrics, world.ctx, series_max)
    scrape = metrics.scrape()
    for _ in scrape.steps():
        pass
    return {
        (
            sample.name.removeprefix("josefine_"),
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(scrape.text().decode())
        for sample in family.samples
    }


def test_lag_is_what_is_committed_in_the_log_and_not_read_by_the_group() -> None:
    world = group_world()
    for _ in range(3):
        world.produce(batch_of(b"x"))
    commit(world, 1, stable(world))

    found = read(world)

    assert found["group_committed_offset", GROUP, "0", "orders"] == 1
    assert found["group_lag_records", GROUP, "0", "orders"] == 2
    assert found["group_offsets_committed_total",] == 1


def test_offset_behind_the_end_of_a_log_is_no_negative_lag() -> None:
    world = group_world()
    commit(world, 7)

    assert read(world)["group_lag_records", GROUP, "0", "orders"] == 0


def test_members_states_rebalances_and_losses_are_counted() -> None:
    world = group_world()
    stable(world)
    with_member = read(world)
    world.advance(SESSION_MS + REBALANCE_MS)
    without = read(world)

    assert with_member["group_members", GROUP] == 1
    assert with_member["groups_in_state", "Stable"] == 1
    assert (with_member["group_rebalances_total",], with_member["group_members_lost_total",]) == (
        1,
        0,
    )
    assert without["group_members", GROUP] == 0
    assert without["groups_in_state", "Empty"] == 1
    assert without["group_members_lost_total",] == 1


def test_series_of_single_groups_are_bounded_and_the_rest_is_counted() -> None:
    """Whoever commits for ever new groups shall not fill a monitoring system."""
    world = group_world()
    for number in range(5):
        commit(world, 0, group=f"g{number}")

    found = read(world, series_max=3)

    named = [key[1] for key in found if key[0] == "group_lag_records"]
    assert named == ["g0", "g1", "g2"]
    assert found["group_series_omitted",] == 6, "2 of each of three names"


def test_share_groups_are_counted_by_what_their_members_do() -> None:
    world, a = sharing(b"v0", b"v1", b"v2", b"v3")
    a.fetch(max_records=3, share_acquire_mode=1)
    a.acknowledge((0, 0, ACCEPT))
    a.acknowledge((1, 1, RELEASE))
    found = read(world)
    assert found["share_records_acquired_total", SHARERS] == 3
    assert found["share_record_acknowledgements_total", "accept", SHARERS] == 1
    assert found["share_record_acknowledgements_total", "release", SHARERS] == 1
    assert found["share_records_in_flight", SHARERS, "0", "orders"] == 1
    assert (found["share_sessions",], found["share_partitions",], found["share_states",]) == (
        1,
    ) * 3
    world.advance(30_000)
    found = read(world)
    assert found["share_lock_timeouts_total", SHARERS] == 1
    assert found["share_records_in_flight", SHARERS, "0", "orders"] == 0
    refused = a.acknowledge((2, 2, ACCEPT))
    assert refused is not ErrorCode.none
    assert read(world)["share_record_acknowledgements_total", "accept", SHARERS] == 1


def test_series_of_share_groups_are_bounded() -> None:
    world = world_of()
    for number in range(5):
        world.ctx.clients.shares.counts.of(f"g{number}").acquired = number
    metrics = Metrics()
    register_share_metrics(metrics, world.ctx, 2)
    scrape = metrics.scrape()
    for _ in scrape.steps():
        pass
    assert 'share_records_acquired_total{group="g1"}' in scrape.text().decode()
    assert 'group="g2"' not in scrape.text().decode()


def test_counts_of_groups_are_bounded() -> None:
    counts = ShareCounts()
    for number in range(GROUPS_MAX + 2):
        counts.of(f"{number:05}").acquired += 1
    counted = counts.all()
    assert (len(counted), counted[0][0]) == (GROUPS_MAX, "00002")
