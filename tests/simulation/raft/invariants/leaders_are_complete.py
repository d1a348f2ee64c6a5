"""3. A committed block is in every later leader's chain (5.4.3)."""

from raft import NodeId, Role, Status, Term
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class LeadersAreComplete(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.seen: set[tuple[NodeId, Term]] = set()

    def changed(self, machine: Machine, status: Status) -> None:
        if status.role is not Role.LEADER or (machine.id, status.term) in self.seen:
            return
        self.seen.add((machine.id, status.term))
        assert machine.node is not None
        chain = machine.node.chain
        for height, id_ in self.view.committed.items():
            # Late votes may make a leader of an old term after a newer one has committed.
            if id_.term < status.term and height >= chain.root.height:
                assert chain.on_head_path(id_), f"leader of term {status.term} lacks {id_}"
