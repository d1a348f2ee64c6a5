"""Members are those that the last birth or change on the head path says, in a snapshot as well: who
goes by others counts another majority (section 6, thesis 4.1)."""

from raft import GENESIS, Batch, BlockId, BlockKind, Members
from raft.members import decode_members
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine


class MembersFollowTheChain(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.members: dict[BlockId, Members] = {}
        """Of every block that any node ever wrote: the members in force there."""

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        for block in batch.blocks:
            if block.kind in (BlockKind.BIRTH, BlockKind.CONFIG):
                self.members[block.id] = decode_members(block.payload)[0]
            else:
                self.members[block.id] = self.members[block.parent]
        if batch.snapshot is not None:
            last, said = batch.snapshot.last, batch.snapshot.members
            due = self.members[last]
            assert said == due, f"node {machine.id}'s snapshot of {last} has {said}, not {due}"

    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        assert machine.node is not None
        head, ours = facts[2], machine.node.members
        if head == GENESIS:
            assert ours.voters == frozenset(machine.config.initial_voters)
        elif head in self.members:  # else it is not written yet
            due = self.members[head]
            assert ours == due, f"node {machine.id} goes by {ours} at {head}, which says {due}"
