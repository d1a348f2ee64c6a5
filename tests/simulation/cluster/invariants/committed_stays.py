"""2. What a consumer read once, every consumer reads: committed records never change. But for those
that an unclean election took, which replicas have until they hear of it."""

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import Batch, PartitionFacts

__all__ = ["CommittedStays"]


class CommittedStays(Invariant):
    def read(self, facts: PartitionFacts, batches: list[Batch]) -> None:
        if facts.excused:
            return
        for batch in batches:
            committed = facts.batch_at(batch.base_offset)
            if committed != batch and batch in facts.losses.batches:
                continue
            assert committed is not None, (
                f"{facts.name}: a consumer read {batch}, "
                f"committed is what lies before {facts.end_offset}"
            )
            assert committed == batch, f"{facts.name}: {committed} is now read as {batch}"
