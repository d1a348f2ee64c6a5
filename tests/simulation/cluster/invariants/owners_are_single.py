"""12. In one generation of a group a partition has one owner at most. A static member's processes,
one after another, are the same owner (KIP-345)."""

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.view import View

__all__ = ["OwnersAreSingle"]


class OwnersAreSingle(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._owners: dict[tuple[str, int, TopicPartition], str] = {}

    def assigned(self, group: str, generation: int, owner: str, tps: list[TopicPartition]) -> None:
        for tp in tps:
            known = self._owners.setdefault((group, generation, tp), owner)
            assert known == owner, (
                f"group {group}: in generation {generation} {tp} is owned by {known} and by {owner}"
            )
