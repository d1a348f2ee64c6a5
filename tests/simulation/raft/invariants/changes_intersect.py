"""Of all changes of members that may still come to be committed, any two have no majorities apart.

One at a time and one voter each is not enough: two leaders may make one each, both after the same
committed block. So a leader first commits a block of its own term, which kills the other's (Ongaro
on raft-dev, 2015-07-10; thesis 4.1 lacks it).
"""

from raft import Batch, BlockId, BlockKind, Members
from raft.members import decode_members
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class ChangesIntersect(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.open: dict[BlockId, Members] = {}
        """Changes that nobody is known to have committed, or whose branch is not known dead."""

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        for block in batch.blocks:
            if block.kind is BlockKind.CONFIG and block.id not in self.open:
                self._check(block.id, decode_members(block.payload)[0])

    def _check(self, change: BlockId, members: Members) -> None:
        if not self._is_open(change):  # written again, or late, by one that followed
            return
        for other in [each for each in self.open if not self._is_open(each)]:
            del self.open[other]
        for other, theirs in self.open.items():
            below, above = sorted((change, other), key=lambda id_: id_.height)
            if self._ancestor(above, below.height) == below:
                raise AssertionError(f"{above} changes members before {below} is committed")
            assert not _may_be_apart(members.voters, theirs.voters), (
                f"{change} and {other} may both be committed: voters {sorted(members.voters)} and "
                f"{sorted(theirs.voters)}"
            )
        self.open[change] = members

    def _is_open(self, change: BlockId) -> bool:
        """Neither committed nor overtaken by what is."""
        committed_max = self.view.committed_max
        if change.height <= committed_max:
            return False
        return self._ancestor(change, committed_max) == self.view.committed.get(
            committed_max, self._ancestor(change, committed_max)
        )

    def _ancestor(self, id_: BlockId, height: int) -> BlockId:
        while id_.height > height:
            id_ = self.view.parents[id_]
        return id_


def _may_be_apart(one: frozenset[int], two: frozenset[int]) -> bool:
    """Is there a majority of each, without a voter in common?"""
    common = len(one & two)
    needed = [max(0, len(each) // 2 + 1 - (len(each) - common)) for each in (one, two)]
    return sum(needed) <= common
