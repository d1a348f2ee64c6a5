"""2. The commits of any two nodes lie on one path, at all times (5.3, 5.4).

And the path grows as 5.4.2 says: the first to commit a block is its term's leader, through a block
of that very term, which a majority of the voters then has on disk.
"""

from raft import BlockId, Height, Role
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Facts, Machine


class CommitsOnOnePath(Invariant):
    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        commit = facts[3]
        if before is not None and before[3] == commit:
            return
        assert machine.node is not None
        chain, committed = machine.node.chain, self.view.committed
        # After a restart all that it still has is compared once.
        start = max(0 if before is None else before[3].height, chain.root.height)
        for height in range(start, commit.height + 1):
            id_ = chain.id_at(Height(height))
            first = committed.setdefault(height, id_)
            self.view.committed_in.setdefault(height, facts[1])
            assert first == id_, f"node {machine.id} committed {id_} where {first} is committed"
        if commit.height > self.view.committed_max:
            self.view.committed_max = commit.height
            if before is not None and before[0] is Role.LEADER:
                self._check_majority(machine, commit, facts)

    def _check_majority(self, machine: Machine, commit: BlockId, facts: Facts) -> None:
        assert commit.term == facts[1], f"leader of term {facts[1]} committed {commit} by counting"
        assert machine.node is not None
        members = machine.node.members
        have = [
            voter
            for voter in sorted(members.voters)
            if commit in self.view.durable[voter] or commit.height <= self.view.durable_root[voter]
        ]
        assert len(have) >= members.majority, f"{commit} is committed, but only {have} have it"
