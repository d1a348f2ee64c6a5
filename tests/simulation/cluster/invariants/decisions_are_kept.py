"""21. What takes part in a two-phase commit ends as was decided outside, in every partition, and
not before: no timeout, crash or takeover ends it otherwise. Once faults stop, what was prepared is
ended so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.transfer_facts import TOPICS, Transaction

if TYPE_CHECKING:
    from tests.simulation.cluster.world import World

__all__ = ["DecisionsAreKept"]


class DecisionsAreKept(Invariant):
    def transaction_ended(self, transaction: Transaction, topic: str) -> None:
        if transaction.two_phase:
            assert transaction.outcomes[topic] == transaction.decision, (
                f"{topic}: {transaction} ended otherwise than was decided outside"
            )

    def settled(self, world: World) -> None:
        facts = self.view.transfers
        if world.transfers is None or facts.is_excused or not self.view.image.serves_transactions:
            return
        for each in facts.transactions.values():
            if each.is_prepared:
                assert each.decision, f"nobody has decided on {each}"
                assert each.outcomes == dict.fromkeys(TOPICS, each.decision), f"{each} is not ended"
                ended = "committed" if each.decision == "commit" else "aborted"
                world.met[f"prepared transaction {ended} everywhere"] += 1
