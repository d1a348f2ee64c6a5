"""8. A restarted node has exactly what it had acknowledged; nothing is promised before it is
durable."""

from raft import Batch, Message, NodeId, Recovered, State
from raft.messages import AppendAnswer, VoteAnswer, VoteRequest
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class RestartKeepsPromises(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.states: dict[NodeId, list[State]] = {}
        """The state that was synced last, and those written since: one survives a crash."""
        self.unsynced: dict[NodeId, list[Batch]] = {}

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        self.states[machine.id].append(batch.state)
        self.unsynced[machine.id].append(batch)
        self.view.durable[machine.id].difference_update(batch.removed)
        for block in batch.blocks:
            self.view.parents[block.id] = block.parent

    def synced(self, machine: Machine) -> None:
        del self.states[machine.id][:-1]
        durable, batches = self.view.durable[machine.id], self.unsynced[machine.id]
        for batch in batches:
            durable.update(block.id for block in batch.blocks)
            durable.difference_update(batch.removed)  # a block may come and go in one batch
            self.view.durable_root[machine.id] = batch.state.root.height
        batches.clear()

    def sent(self, machine: Machine, message: Message) -> None:
        state = self.states[machine.id][0]
        if isinstance(message, VoteRequest | VoteAnswer) and message.pre:
            return  # a question about a term that is nobody's yet
        assert message.term <= state.term, f"node {machine.id} is not durably in {message.term}"
        if isinstance(message, VoteAnswer) and message.granted and message.term == state.term:
            assert state.vote == message.to, f"node {machine.id} has no durable vote"
        elif isinstance(message, AppendAnswer) and message.accepted:
            durable = message.last in self.view.durable[machine.id]
            assert durable or message.last.height <= state.root.height, (
                f"node {machine.id} acknowledged {message.last}, which is not durable"
            )

    def restarted(self, machine: Machine, recovered: Recovered) -> None:
        if machine.id in self.view.wiped:
            self.view.wiped.discard(machine.id)
            self.states[machine.id] = [State()]
            self.view.durable[machine.id] = set()
        promised = self.view.rebuilt.pop(machine.id, None)
        if promised is not None:
            self._rebuilt(machine, recovered, promised)
            return
        states = self.states.setdefault(machine.id, [State()])
        assert recovered.state in states, (
            f"node {machine.id} recovered {recovered.state}, not one of {states}"
        )
        root = recovered.state.root.height
        found = {block.id for block in recovered.blocks}
        had = self.view.durable.get(machine.id, set())
        lost = [id_ for id_ in had if id_.height > root and id_ not in found]
        assert lost == [], f"node {machine.id} lost {lost}"
        assert found <= self.view.parents.keys(), f"node {machine.id} found what nobody wrote"
        self.states[machine.id] = [recovered.state]
        self.unsynced[machine.id] = []
        self.view.durable[machine.id] = found
        self.view.durable_root[machine.id] = root

    def _rebuilt(self, machine: Machine, recovered: Recovered, promised: State) -> None:
        """It has no block, and every promise: term, vote and the head that it acknowledged."""
        assert promised in self.states[machine.id], (
            f"node {machine.id} believes {promised}, not one of {self.states[machine.id]}"
        )
        found = recovered.state
        assert (found.term, found.vote) == (promised.term, promised.vote)
        assert recovered.promised is not None
        assert recovered.promised.head == promised.head
        self.states[machine.id] = [found]
        self.unsynced[machine.id] = []
        self.view.durable[machine.id] = set()
        self.view.durable_root[machine.id] = 0
