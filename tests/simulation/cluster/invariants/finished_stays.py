"""23. A record that a member was told is finished, or that has a dead letter, is never delivered
again, whoever leads: but by a leader of before, which has not heard of its successor."""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.share_watch import Delivery
from tests.simulation.cluster.view import View

__all__ = ["FinishedStays"]


class FinishedStays(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._finished: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        """Record → the newest leader epoch when that was told, and the time."""

    def share_finished(self, delivery: Delivery, epoch: int, now_ms: int) -> None:
        for offset in range(delivery.first, delivery.last + 1):
            self._finished.setdefault((delivery.tp, offset), (epoch, now_ms))

    def lettered(self, tp: TopicPartition, offset: int, epoch: int, now_ms: int) -> None:
        self._finished.setdefault((tp, offset), (epoch, now_ms))

    def shared(self, delivery: Delivery) -> None:
        for offset in range(delivery.first, delivery.last + 1):
            epoch, told_ms = self._finished.get((delivery.tp, offset), (-1, 0))
            is_later = delivery.leader.epoch >= epoch >= 0 and delivery.sent_ms > told_ms
            assert not is_later, (
                f"{delivery.tp}: record {offset} was finished at {told_ms}, and given to"
                f" {delivery.member} at {delivery.got_ms} in leader epoch {delivery.leader.epoch}"
            )
