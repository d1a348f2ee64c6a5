"""A hole is cut only where a crash explains it, by the leader that waits for its repair; and a
follower's only for its leader."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from josefine_broker.engine.partition.repair.damage import Damage
from josefine_broker.engine.partition.repair.repair import Repair
from josefine_broker.engine.replicas.repair.cuts import (
    is_unacknowledged,
    may_cut_for_leader,
    may_end_as,
)
from josefine_broker.engine.replicas.repair.work import RepairWork
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import TP, Damaged


def work_of(cluster: Damaged, broker_id: int, **found: Any) -> RepairWork:
    log: Any = SimpleNamespace(**{"lost_power": False, "unsynced_from": 0} | found)
    return RepairWork(TP, cluster.hosted(broker_id), log, Repair(Damage(0, 5, 1, "a test")))


@pytest.mark.parametrize(
    ("offset", "found", "is_cut"),
    [
        (3, {}, False),  # it is known to be committed
        (4, {}, True),
        (3, {"lost_power": True}, True),
        (3, {"lost_power": True, "unsynced_from": 4}, False),  # it was synced
        (4, {"unsynced_from": 5}, False),
    ],
)
def test_leader_cuts_what_a_crash_explains(
    offset: int, found: dict[str, Any], is_cut: bool
) -> None:
    cluster = Damaged()
    work = work_of(cluster, 2, **found)
    work.hosted.partition.damaged()
    cluster.lead(2)
    assert work.hosted.partition.high_watermark == 4

    assert is_unacknowledged(work, offset, 2) is is_cut
    assert not is_unacknowledged(work, offset, 3), "another broker leads"


def test_log_that_does_not_wait_for_its_repair_is_not_cut() -> None:
    cluster = Damaged()
    work = work_of(cluster, 1, lost_power=True)

    assert not is_unacknowledged(work, 4, 1)
    assert not may_cut_for_leader(cluster.ctx[1], work, 1, 5)


def test_follower_is_cut_for_its_leader_alone() -> None:
    cluster = Damaged()
    work = work_of(cluster, 2)
    work.hosted.partition.damaged()

    assert may_cut_for_leader(cluster.ctx[2], work, 1, 4)
    assert not may_cut_for_leader(cluster.ctx[2], work, 3, 4)


@pytest.mark.parametrize("lost_power", [False, True])
@pytest.mark.parametrize("keeps_doubts", [False, True])
def test_committed_end_is_given_up_for_a_leader_only_where_a_power_failure_may_explain_it(
    keeps_doubts: bool, lost_power: bool
) -> None:
    """Older images record no unclean election: the replica waited for ever for what no log had
    (seed 103095)."""
    cluster = Damaged()
    work = work_of(cluster, 2, lost_power=lost_power)
    partition = work.hosted.partition
    work.hosted.served_by = 1, partition.leader_epoch
    ctx: Any = SimpleNamespace(image=SimpleNamespace(keeps_doubts=keeps_doubts))
    assert partition.high_watermark == 4

    assert may_end_as(ctx, work, 1, 3) is (lost_power and not keeps_doubts)
    assert may_end_as(ctx, work, 1, 4), "nothing committed follows"
    assert not may_end_as(ctx, work, 3, 3), "it does not lead"
    partition.unclean_epoch = partition.leader_epoch + 1
    assert may_end_as(ctx, work, 1, 3), "an unclean election explains it"
