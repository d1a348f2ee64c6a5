"""2. The commits of any two nodes lie on one path, at all times (5.3, 5.4)."""

from raft import Height, NodeId, Status
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class CommitsOnOnePath(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.checked: dict[NodeId, int] = {}

    def restarted(self, machine: Machine) -> None:
        self.checked[machine.id] = 0

    def changed(self, machine: Machine, status: Status) -> None:
        assert machine.node is not None
        chain = machine.node.chain
        start = max(self.checked[machine.id], chain.root.height)
        for height in range(start, status.commit.height + 1):
            id_ = chain.id_at(Height(height))
            first = self.view.committed.setdefault(height, id_)
            assert first == id_, f"node {machine.id} committed {id_} where {first} is committed"
        self.checked[machine.id] = status.commit.height
