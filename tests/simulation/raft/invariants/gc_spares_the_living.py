"""7. GC never removes a live block, and leaves no dead one below the commit in the end."""

from raft import Status
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class GcSparesTheLiving(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.checked = 0

    def changed(self, machine: Machine, status: Status) -> None:
        while self.checked in self.view.committed:
            id_ = self.view.committed[self.checked]
            assert id_ not in self.view.removed, f"{id_} was removed as dead and is committed"
            self.checked += 1
        assert machine.node is not None
        assert machine.node.chain.knows(status.commit)

    def settled(self, machines: list[Machine]) -> None:
        assert not self.view.removed & set(self.view.committed.values())
        for machine in machines:
            assert machine.node is not None
            chain = machine.node.chain
            dead = [block.id for block in chain if not chain.is_live(block.id)]
            assert dead == [], f"node {machine.id} still has dead blocks"
