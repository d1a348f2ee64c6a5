"""Linearizable reads (section 8): one sees every write that was answered before it was asked."""

from raft import ReadDone
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Machine


class ReadsSeeWrites(Invariant):
    def answered(self, machine: Machine, read: ReadDone) -> None:
        needed = self.view.reads.pop((machine.id, read.number))
        if read.commit is not None:
            self.view.reads_done += 1
            assert read.commit.height >= needed, f"{machine.id} read {read.commit}, not {needed}"
            assert machine.applied >= read.commit.height, f"{read} was told before it was applied"
