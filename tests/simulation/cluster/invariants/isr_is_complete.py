"""5. Who is in the ISR has every committed record; so has a leader, from its first moment."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.changes import At, Change
from josefine_broker.engine.metadata.image import MetadataImage
from josefine_broker.engine.metadata.log_completeness import Completeness
from tests.simulation.cluster.invariants.base import Invariant, Sight
from tests.simulation.cluster.unclean import was_unclean
from tests.simulation.cluster.view import Batch, PartitionFacts, batches_of

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["IsrIsComplete"]


class IsrIsComplete(Invariant):
    def decided(self, before: MetadataImage, change: Change | None, at: At) -> None:
        for facts, name, entry in self.view.entries():
            old = before.partition(name, facts.key[1])
            if old is entry or facts.excused:
                continue
            joined = set(entry.isr) - set(old.isr if old is not None else ())
            if old is not None and was_unclean(old, entry, before, facts.opened):
                joined.discard(entry.leader)  # it is what is left, by definition
            for broker_id in joined:
                assert entry.completeness_of(broker_id) is Completeness.COMPLETE
                self._check_end(facts, name, broker_id, "joined the ISR")

    def committed(self, process: Process, facts: PartitionFacts, batches: list[Batch]) -> None:
        if facts.excused:
            return
        name = self.view.image.topic_names.get(facts.key[0])
        entry = None if name is None else self.view.image.partition(name, facts.key[1])
        if name is None or entry is None or entry.leader != process.machine.id:
            return
        if process.ctx.image.partition(name, facts.key[1]) == entry:
            for broker_id in entry.isr:
                if entry.completeness_of(broker_id) is Completeness.COMPLETE:
                    self._check_end(facts, name, broker_id, "is in the ISR")

    def _check_end(self, facts: PartitionFacts, name: str, broker_id: int, what: str) -> None:
        hosted = self.view.hosted(broker_id, name, facts.key)
        if hosted is None or not self.view.is_current(broker_id):
            return  # down, or about to be taken out: it may lack what a power cut took
        end = hosted.log.log_end_offset
        assert end >= facts.end_offset, (
            f"{facts.name}: broker {broker_id} {what}, its log ends at {end}, "
            f"committed is what lies before {facts.end_offset}"
        )

    def moved(
        self, process: Process, tp: TopicPartition, sight: Sight, before: Sight | None
    ) -> None:
        if not sight.is_leader:
            return
        if before is not None and before.is_leader and before.leader_epoch == sight.leader_epoch:
            return
        facts = self.view.facts((sight.hosted.topic_id, tp.partition))
        if facts.excused:
            return
        # One that applies an old block late leads in an epoch that is over, and harms nobody.
        count = bisect_left(facts.committed_in, sight.leader_epoch)
        owed, log = facts.owed(sight.hosted, count), sight.hosted.log
        end = min(owed[-1].end_offset if owed else 0, log.log_end_offset)
        found = set(batches_of(sight.hosted, log.log_start_offset, end, facts))
        missing = next((each for each in owed if each not in found), None)
        assert missing is None, (
            f"{tp}: broker {process.machine.id} leads in epoch {sight.leader_epoch} "
            f"without the committed {missing}; its log ends at {log.log_end_offset}"
        )
