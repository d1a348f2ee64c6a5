"""8. An idempotent producer's batches are committed once, in the order they were sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.records.batch import NO_PRODUCER_ID
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import Batch, PartitionFacts

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["SequencesAreWhole"]


class SequencesAreWhole(Invariant):
    def committed(self, process: Process, facts: PartitionFacts, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.producer_id == NO_PRODUCER_ID:
                continue
            last = facts.sequences.get(batch.producer_id, -1)
            facts.sequences[batch.producer_id] = (
                batch.base_sequence + batch.end_offset - batch.base_offset - 1
            )
            if not facts.excused:
                assert batch.base_sequence > last, (
                    f"{facts.name}: {batch} of producer {batch.producer_id} after sequence {last}"
                )
