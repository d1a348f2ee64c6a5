"""3. In one life of a replica its high watermark never falls, whatever its role or epoch; but once
for each unclean election, to no less than what that has left."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant, Sight

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["HighWatermarkGrows"]


class HighWatermarkGrows(Invariant):
    def moved(
        self, process: Process, tp: TopicPartition, sight: Sight, before: Sight | None
    ) -> None:
        hosted = sight.hosted
        assert sight.high_watermark <= hosted.log.log_end_offset, (
            f"{tp}: at broker {process.machine.id} the high watermark is {sight.high_watermark}, "
            f"the log ends at {hosted.log.log_end_offset}"
        )
        if hosted.log.failure:
            return  # a sync failed: what it has is nobody's word until the broker is restarted
        if hosted.log.log_start_offset == hosted.log.log_end_offset == sight.high_watermark:
            return  # an empty log was moved back to the start of the batch that its leader's is in
        facts = self.view.facts((hosted.topic_id, tp.partition))
        # A damaged log may have to be begun anew; one that lost unsynced pages is cut where what
        # they left differs from its leader's.
        doubted = facts.damaged if facts.flushes else facts.damaged | facts.powerless
        if before is None or facts.excused or process.machine.id in doubted:
            return
        # A damaged batch that is cut off is copied again.
        lost = range(sight.high_watermark, before.high_watermark)
        if any(
            b.base_offset in lost and process.machine.id in facts.rotten[b] for b in facts.rotten
        ):
            return
        if sight.high_watermark < before.high_watermark and facts.losses.falls(
            process.ctx.cluster.incarnation, before.high_watermark, sight.high_watermark
        ):
            return
        assert sight.high_watermark >= before.high_watermark, (
            f"{tp}: at broker {process.machine.id} the high watermark fell from "
            f"{before.high_watermark} to {sight.high_watermark} (epochs {before.leader_epoch}, "
            f"{sight.leader_epoch})"
        )
