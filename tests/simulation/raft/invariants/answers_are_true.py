"""6. An acknowledged proposal is committed for ever, and one called dead never is."""

from raft import Result
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.machine import Machine


class AnswersAreTrue(Invariant):
    def settled(self, machines: list[Machine]) -> None:
        committed = self.view.committed_payloads()
        for payload, outcome in self.view.ended.items():
            if outcome.result is Result.COMMITTED:
                assert outcome.block_id is not None
                height = outcome.block_id.height
                assert self.view.committed.get(height) == outcome.block_id, f"lost {outcome}"
                assert self.view.payload_at.get(height) == payload, f"lost {payload!r}"
            elif outcome.result is Result.DEAD:
                assert payload not in committed, f"{payload!r} was called dead: {outcome}"
