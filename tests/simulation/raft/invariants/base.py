"""What a checker may look at. Each raises AssertionError with the rule it saw broken."""

from raft import Block, Message, Status
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine

__all__ = ["Invariant"]


class Invariant:
    """Override what the rule needs."""

    def __init__(self, view: View) -> None:
        self.view = view

    def restarted(self, machine: Machine) -> None:
        """The machine has just started (again)."""

    def changed(self, machine: Machine, status: Status) -> None:
        """An event touched this machine."""

    def sent(self, machine: Machine, message: Message) -> None:
        """A message left this machine."""

    def applied(self, machine: Machine, block: Block) -> None:
        """The machine's state machine has just taken this block."""

    def settled(self, machines: list[Machine]) -> None:
        """All faults have stopped long ago."""
