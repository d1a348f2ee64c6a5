"""Whom a repair asks, when it tries again, and when records are lost."""

from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.engine.partition.repair.ports import DamagePort, RebuildPort
from josefine_broker.engine.partition.repair.repair import (
    RETRY_MS_MAX,
    RETRY_MS_MIN,
    Repair,
    RepairEvent,
    RepairState,
    order_of,
)
from josefine_broker.host.log.damage import DamagedLogs
from josefine_broker.host.log.segment_rebuild import SegmentRebuild


def asking() -> Repair:
    """A repair that has come to a damaged batch."""
    repair = Repair(Damage(0, 100, 40, "a flipped bit"))
    repair.on(RepairEvent.BEGUN)
    repair.on(RepairEvent.STOPPED)
    return repair


def test_leader_is_asked_first_then_the_in_sync_replicas_then_the_others() -> None:
    assert order_of(3, (2, 3), (1, 2, 3, 4), 2) == [3, 1, 4]
    assert order_of(1, (1, 4), (1, 2, 3, 4), 1) == [4, 2, 3]
    assert order_of(-1, (), (1, 2), 1) == [2]
    assert order_of(1, (1,), (1,), 1) == []


def test_replica_that_helped_is_asked_first_for_the_next_batch() -> None:
    repair = asking()
    assert repair.choose([2, 3]) == 2
    repair.refused(2)
    assert repair.choose([2, 3]) == 3
    repair.on(RepairEvent.ANSWERED)
    repair.helped(3)

    assert repair.choose([2, 3]) == 3
    repair.refused(3)
    assert repair.choose([2, 3]) == 2, "the next batch may be intact there"


def test_records_are_lost_only_once_every_other_replica_has_answered() -> None:
    repair = asking()
    repair.refused(2)
    repair.silent(3)
    assert repair.choose([2, 3]) is None
    assert not repair.exhausted(1_000)
    assert repair.state is RepairState.WAITING
    repair.on(RepairEvent.DUE)
    repair.refused(2)
    repair.refused(3)

    assert repair.exhausted(2_000)
    assert repair.state is RepairState.LOST


def test_silence_of_all_replicas_is_no_loss() -> None:
    repair = asking()
    repair.silent(2)

    assert not repair.exhausted(1_000)


def test_lost_range_is_looked_for_again_with_growing_delays() -> None:
    repair = asking()
    delays, now_ms = [], 0
    for _ in range(10):
        repair.refused(2)
        repair.exhausted(now_ms)
        assert not repair.is_due(repair.retry_at_ms - 1)
        assert repair.is_due(repair.retry_at_ms)
        delays.append(repair.retry_at_ms - now_ms)
        now_ms = repair.retry_at_ms
        repair.on(RepairEvent.DUE)

    assert delays[:3] == [RETRY_MS_MIN, 2 * RETRY_MS_MIN, 4 * RETRY_MS_MIN]
    assert delays[-1] == RETRY_MS_MAX


def test_accepted_loss_is_due_at_once() -> None:
    repair = asking()
    repair.refused(2)
    repair.exhausted(1_000)
    repair.lost = (40, 50)
    assert not repair.is_due(1_000)

    repair.given_up_to = 50

    assert repair.is_due(1_000)


def test_help_ends_a_loss_and_the_delays() -> None:
    repair = asking()
    repair.refused(2)
    repair.exhausted(0)
    repair.lost = (40, 50)
    repair.on(RepairEvent.DUE)
    repair.on(RepairEvent.ANSWERED)
    repair.helped(2)

    assert repair.lost is None
    repair.failed(10_000)
    assert repair.retry_at_ms == 10_000 + RETRY_MS_MIN
    assert repair.state is RepairState.FOUND


def test_host_implements_the_ports() -> None:
    damaged: DamagePort = DamagedLogs()
    rebuild: type[RebuildPort] = SegmentRebuild

    assert not damaged.logs
    assert rebuild is SegmentRebuild
