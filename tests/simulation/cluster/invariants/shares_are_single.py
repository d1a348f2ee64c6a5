"""22. A leader gives no record to a second member before the lock of the first one ends or it let
go; and none more often than the group allows."""

from __future__ import annotations

from collections import Counter

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.group_names import SHARE_DELIVERIES_MAX, SHARE_LOCK_MS
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.share_watch import Delivery, Leader
from tests.simulation.cluster.view import View

__all__ = ["SharesAreSingle"]

FASTEST = 1.25
"""How much faster than ours the clock of a broker may run."""


class SharesAreSingle(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._last: dict[tuple[TopicPartition, Leader, int], Delivery] = {}
        self._times: Counter[tuple[TopicPartition, Leader, int]] = Counter()

    def shared(self, delivery: Delivery) -> None:
        assert 1 <= delivery.count <= SHARE_DELIVERIES_MAX, (
            f"{delivery.tp}: records {delivery.first} to {delivery.last} were delivered"
            f" {delivery.count} times"
        )
        if delivery.leader.epoch < 0:
            return
        for offset in range(delivery.first, delivery.last + 1):
            place = delivery.tp, delivery.leader, offset
            before, self._last[place] = self._last.get(place), delivery
            self._times[place] += 1
            assert self._times[place] <= SHARE_DELIVERIES_MAX, (
                f"{delivery.tp}: record {offset} was delivered {self._times[place]} times"
            )
            if before is None:
                continue
            # Both were acquired by now, and neither lock can have ended yet.
            end_ms = min(before.sent_ms, delivery.sent_ms) + SHARE_LOCK_MS / FASTEST
            if before.let_go_ms is not None:
                end_ms = min(end_ms, before.let_go_ms)
            assert delivery.got_ms >= end_ms, (
                f"{delivery.tp}: record {offset} was given to {before.member}, and to"
                f" {delivery.member} while that one had it"
            )
