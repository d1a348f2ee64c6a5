"""4. No node votes twice in a term, restarts included (5.2)."""

from raft import Message, NodeId, Term
from raft.messages import VoteAnswer, VoteRequest
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class OneVotePerTerm(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.votes: dict[tuple[NodeId, Term], NodeId] = {}

    def sent(self, machine: Machine, message: Message) -> None:
        if isinstance(message, VoteRequest) and not message.pre:
            self._voted(machine.id, message.term, machine.id)
        elif isinstance(message, VoteAnswer) and message.granted and not message.pre:
            self._voted(machine.id, message.term, message.to)

    def _voted(self, voter: NodeId, term: Term, candidate: NodeId) -> None:
        first = self.votes.setdefault((voter, term), candidate)
        assert first == candidate, f"{voter} voted for {first} and {candidate} in term {term}"
