"""A repair whose own damaged segment cannot be opened again, because no file handle is left: it is
tried again, and nothing that it decided meanwhile is lost."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from josefine_broker.engine.partition.repair.repair import RETRY_MS_MAX, RepairState
from josefine_broker.records.batch import iter_batches
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import (
    LOG,
    VALUES,
    Damaged,
    healing,
)

FAILED = "repair of a segment failed: it is tried again"


class WithoutHandles(Damaged):
    """One broker loses its handles: broker 1, whenever it asks another replica."""

    loses_handles, broker_id = True, 1

    def _forward(self, *asked: Any) -> None:
        if self.loses_handles:
            self.take_handles()
        super()._forward(*asked)

    def take_handles(self) -> None:
        files = self.files[self.broker_id]
        files.evict()
        files.no_handle_at, files.no_handle_errno = files.handles, errno.ENFILE

    def give_handles(self) -> None:
        self.loses_handles, self.files[self.broker_id].no_handle_at = False, None


@pytest.mark.parametrize("silent", [set(), {2}], ids=["nobody has it", "one is silent"])
def test_repair_that_nobody_helps_is_tried_again_when_there_are_handles(silent: set[int]) -> None:
    """The last thing that it tries is its own batch (life 70226)."""
    cluster = WithoutHandles()
    for broker_id in (1, 2, 3):
        cluster.spoil(broker_id, 2)
    cluster.silent = silent

    cluster.repair(1)

    ((_, repair),) = cluster.repairs[1]
    assert repair.state is RepairState.FOUND
    assert cluster.messages()[-1] == FAILED
    cluster.give_handles()
    cluster.silent = set()
    data = cluster.files[3].names[LOG].data
    spans = [(pos, header.size_bytes) for pos, header in iter_batches(bytes(data))]
    data[sum(spans[2]) - 1] ^= 1  # somebody restores it
    cluster.repair(1, after_ms=RETRY_MS_MAX)
    assert cluster.values(1) == VALUES


def test_loss_is_accepted_when_there_are_handles_again() -> None:
    cluster = WithoutHandles()
    cluster.loses_handles, cluster.broker_id = False, 2
    cluster.spoil(2, 1)
    cluster.spoil(3, 1)
    cluster.hosted(2).partition.damaged()
    cluster.lead(2)
    cluster.silent = {1}
    cluster.repair(2)
    pages = healing(cluster, 2)
    cluster.take_handles()

    with pytest.raises(ValueError, match=r"orders-0: .* cannot be read now .* try again"):
        pages.accept_loss({"partition": "orders-0"})

    cluster.give_handles()
    assert pages.accept_loss({"partition": "orders-0"})["given_up"] == [(1, 2)]
    assert cluster.values(2) == [b"a", b"c", b"d", b"e"]
