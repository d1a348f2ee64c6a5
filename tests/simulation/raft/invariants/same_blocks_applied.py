"""5. Applied sequences are prefixes of one another; each block is applied once and in order."""

from raft import Block
from tests.simulation.raft.invariants.base import Invariant
from tests.simulation.raft.invariants.view import View
from tests.simulation.raft.machine import Machine


class SameBlocksApplied(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self.digests: dict[int, int] = {}
        self.heights: dict[bytes, int] = {}

    def applied(self, machine: Machine, block: Block) -> None:
        height = machine.applied  # the machine itself checks that none is skipped or comes twice
        first = self.digests.setdefault(height, machine.digest)
        assert first == machine.digest, f"node {machine.id} has another state at {block.id}"
        self.view.payload_at.setdefault(height, block.payload)
        if block.payload.startswith(b"proposal"):
            at = self.heights.setdefault(block.payload, height)
            assert at == height, f"{block.payload!r} was committed at {at} and at {height}"
