"""Linearizable reads (section 8): one sees every write that was answered before it was asked."""

from typing import TYPE_CHECKING

from raft import ReadDone
from tests.simulation.raft.invariants.answers_are_true import LATE_MS
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.raft.world import World


class ReadsSeeWrites(Invariant):
    def answered(self, machine: Machine, read: ReadDone) -> None:
        needed, _ = self.view.reads.pop((machine.id, read.number))
        if read.commit is not None:
            self.view.reads_done += 1
            assert read.commit.height >= needed, f"{machine.id} read {read.commit}, not {needed}"
            assert machine.applied >= read.commit.height, f"{read} was told before it was applied"

    def settled(self, world: "World") -> None:
        for (node, number), (_, deadline_ms) in self.view.reads.items():
            now_ms = world.machines[node].now_ms(world.now_ms)
            assert now_ms < deadline_ms + LATE_MS, f"read {number} at node {node} never ended"
