"""7. GC never removes a live block, and leaves no dead one below the commit in the end."""

from typing import TYPE_CHECKING

from raft import Batch, BlockId
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine

if TYPE_CHECKING:
    from tests.simulation.raft.world import World


class GcSparesTheLiving(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.removed: set[BlockId] = set()
        self.checked = 0

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        if replaces:  # a snapshot starts a new chain: no question of dead or live
            return
        for id_ in batch.removed:
            self._check_dead(machine, id_)
            self.removed.add(id_)

    def _check_dead(self, machine: Machine, id_: BlockId) -> None:
        """It is neither below the commit's path nor above the commit."""
        assert machine.node is not None
        commit, ancestor = machine.node.chain.commit, id_
        assert self.view.committed.get(id_.height) != id_, f"{id_} is committed, and was removed"
        while ancestor.height > commit.height:
            ancestor = self.view.parents[ancestor]
        assert ancestor != commit, f"node {machine.id} removed {id_}, which is live above {commit}"

    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        while self.checked in self.view.committed:
            id_ = self.view.committed[self.checked]
            assert id_ not in self.removed, f"{id_} was removed as dead and is committed"
            self.checked += 1

    def settled(self, world: "World") -> None:
        for machine in world.machines.values():
            assert machine.node is not None
            chain = machine.node.chain
            dead = [block.id for block in chain if not chain.is_live(block.id)]
            assert dead == [], f"node {machine.id} still has dead blocks"
