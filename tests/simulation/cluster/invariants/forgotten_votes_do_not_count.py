"""11. A voter that lost all that it had takes no part in the metadata, until the others have taken
its vote away: it may have voted, and it may have promised to keep a block that a majority counts
on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.cluster.invariants.base import Invariant

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["ForgottenVotesDoNotCount"]


class ForgottenVotesDoNotCount(Invariant):
    def applied(self, process: Process, height: int) -> None:
        assert process.machine.id not in self.view.forgetful, (
            f"broker {process.machine.id} lost its data as one of the voters "
            f"{sorted(self.view.voters)}, and has applied block {height} all the same"
        )
