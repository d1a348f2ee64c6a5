"""24. No share group is stuck: once faults stop and everything is accepted, its start offset
reaches the end of each partition."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.cluster.share_watch import ShareWatch
    from tests.simulation.cluster.world import World

__all__ = ["SharesSettle"]

FINISHED_WITHIN_MS = 90_000
"""An answer or a state that is lost costs some seconds (`STORE_TIMEOUT_MS`), and the state of a
partition may have hundreds of records."""


class SharesSettle(Invariant):
    def settled(self, world: World) -> None:
        watch = world.shares
        if watch is None:
            return
        wanted = [tp for tp in watch.reads if not watch.is_excused(tp)]
        is_done = partial(self._is_done, watch, wanted)
        done = world.scheduler.run_until(is_done, FINISHED_WITHIN_MS)
        assert done, f"long after the last fault the share group has {self._left(watch, wanted)}"
        world.met["share group settled"] += bool(wanted)

    def _is_done(self, watch: ShareWatch, wanted: list[TopicPartition]) -> bool:
        return not self._left(watch, wanted)

    def _left(self, watch: ShareWatch, wanted: list[TopicPartition]) -> list[str]:
        """Where it is, and where the partition ends."""
        found = []
        for tp in wanted:
            state = watch.state_of(tp)
            end = self.view.facts((watch.key_of(tp).topic_id, tp.partition)).end_offset
            if state is None or state.start_offset < end:
                found.append(f"{tp}: {state}, of {end}")
        return found
