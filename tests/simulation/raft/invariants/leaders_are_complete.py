"""3. A committed block is in every later leader's chain (5.4.3)."""

from raft import Role
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Facts, Machine


class LeadersAreComplete(Invariant):
    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        role, term, _, _ = facts
        if role is not Role.LEADER or (before is not None and before[:2] == facts[:2]):
            return
        assert machine.node is not None
        chain = machine.node.chain
        for height, id_ in self.view.committed.items():
            # The term that counts is that of the commit, not of the block: late votes may make a
            # leader of an old term after a newer one has committed a still older block.
            if self.view.committed_in[height] < term and height >= chain.root.height:
                assert chain.on_head_path(id_), f"leader of term {term} lacks {id_}"
