"""1. At most one leader per term (5.2)."""

from raft import NodeId, Role, Term
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine


class OneLeaderPerTerm(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.leaders: dict[Term, NodeId] = {}

    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        role, term, _, _ = facts
        if role is Role.LEADER:
            first = self.leaders.setdefault(term, machine.id)
            assert first == machine.id, f"{first} and {machine.id} both led term {term}"
