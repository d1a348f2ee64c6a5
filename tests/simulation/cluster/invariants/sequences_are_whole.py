"""8. An idempotent producer's batches are committed once, in the order they were sent.

Unless somebody deleted all that the producer has written: a broker that starts, or copies the log
from its new beginning, does not know the producer then, and takes any sequence as its first
(KIP-360); so it takes what the producer sends again because it missed the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.records.batch import NO_SEQUENCE
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import Batch, PartitionFacts

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["SequencesAreWhole"]


class SequencesAreWhole(Invariant):
    def committed(self, process: Process, facts: PartitionFacts, batches: list[Batch]) -> None:
        for batch in batches:
            if batch.base_sequence == NO_SEQUENCE:
                continue  # of no such producer, or a marker
            producer = batch.producer_id, batch.producer_epoch
            last = facts.sequences.get(producer, -1)
            facts.sequences[producer] = batch.last_sequence
            if batch.base_sequence <= last and not facts.excused:
                assert _is_forgotten(facts, batch), (
                    f"{facts.name}: {batch} of producer {batch.producer_id} after sequence {last}"
                )


def _is_forgotten(facts: PartitionFacts, batch: Batch) -> bool:
    """Whether everything that its producer has written before is deleted."""
    return all(
        each.end_offset <= facts.deleted_before
        for each in facts.batches
        if each.producer_id == batch.producer_id and each.base_offset < batch.base_offset
    )
