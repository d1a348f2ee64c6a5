"""18. The last stable offset never falls for a reader that asks leaders, one after another."""

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import PartitionFacts

__all__ = ["StableEndGrows"]


class StableEndGrows(Invariant):
    def stable_end_told(
        self, facts: PartitionFacts, before: tuple[int, int], after: tuple[int, int]
    ) -> None:
        may_fall = facts.excused or facts.losses.stable_end_may_fall(before[0], after[1])
        assert after[1] >= before[1] or may_fall, (
            f"{facts.name}: the last stable offset was {before[1]} in leader epoch {before[0]}, "
            f"now it is {after[1]} in {after[0]}"
        )
