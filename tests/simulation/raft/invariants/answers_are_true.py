"""6. An acknowledged proposal is committed for ever, one called dead never is, and all end."""

from typing import TYPE_CHECKING

from raft import Outcome, Result
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Machine

if TYPE_CHECKING:
    from tests.simulation.raft.world import World

LATE_MS = 700
"""What is told waits for the sync under way, which a slow disk makes long (world.py)."""


class AnswersAreTrue(Invariant):
    def told(self, machine: Machine, outcome: Outcome) -> None:
        self.view.end(machine.id, outcome)
        if outcome.result is Result.COMMITTED:
            assert outcome.block_id is not None
            height = outcome.block_id.height
            assert machine.applied >= height, f"{outcome} was told before it was applied"
            self.view.told_max = max(self.view.told_max, height)

    def settled(self, world: "World") -> None:
        view = self.view
        committed = view.committed_payloads()
        for payload, outcome in view.ended.items():
            if outcome.result is Result.COMMITTED:
                assert outcome.block_id is not None
                height = outcome.block_id.height
                assert view.committed.get(height) == outcome.block_id, f"lost {outcome}"
                assert view.payload_at.get(height) == payload, f"lost {payload!r}"
            elif outcome.result is Result.DEAD:
                assert payload not in committed, f"{payload!r} was called dead: {outcome}"
        for (node, number), (payload, deadline_ms) in view.open.items():
            now_ms = world.machines[node].now_ms(world.now_ms)
            assert now_ms < deadline_ms + LATE_MS, f"{payload!r} ({number}) at {node} never ended"
