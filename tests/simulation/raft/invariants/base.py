"""What a checker may look at. Each raises AssertionError with the rule it saw broken."""

from typing import TYPE_CHECKING

from raft import Batch, Block, Message, Outcome, ReadDone, Recovered
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Facts, Machine

if TYPE_CHECKING:
    from tests.simulation.raft.world import World

__all__ = ["Invariant"]


class Invariant:
    """Override what the rule needs."""

    def __init__(self, view: View) -> None:
        self.view = view

    def restarted(self, machine: Machine, recovered: Recovered) -> None:
        """The machine has just started (again)."""

    def changed(self, machine: Machine, facts: Facts, before: Facts | None) -> None:
        """An event changed this machine's role, term, head or commit; `before` is of this life."""

    def written(self, machine: Machine, batch: Batch, replaces: bool) -> None:
        """The machine is about to write this; it `replaces` the chain when a snapshot came."""

    def synced(self, machine: Machine) -> None:
        """All that the machine has written is durable."""

    def sent(self, machine: Machine, message: Message) -> None:
        """A message leaves this machine."""

    def applied(self, machine: Machine, block: Block) -> None:
        """The machine's state machine has just taken this block."""

    def told(self, machine: Machine, outcome: Outcome) -> None:
        """A client of this machine is told how its proposal ended."""

    def answered(self, machine: Machine, read: ReadDone) -> None:
        """A client of this machine may read now, or must ask again."""

    def settled(self, world: "World") -> None:
        """All faults have just stopped; the world may be run on."""
