"""What the checkers know of the whole world: who proposed what, and what was committed where."""

from raft import BlockId, NodeId, Outcome, Result

__all__ = ["View"]


class View:
    """Mutable; filled by the world and by the checkers."""

    def __init__(self) -> None:
        self.committed: dict[int, BlockId] = {}
        """Height → the block that some node committed there first."""
        self.payload_at: dict[int, bytes] = {}
        """Height → the payload applied there first."""
        self.removed: set[BlockId] = set()
        """Blocks that some node's GC removed as dead."""
        self.ended: dict[bytes, Outcome] = {}
        self._open: dict[tuple[NodeId, int], bytes] = {}
        self._proposals = 0

    def next_proposal(self) -> int:
        self._proposals += 1
        return self._proposals

    def begin(self, node: NodeId, number: int, payload: bytes) -> None:
        self._open[node, number] = payload

    def end(self, node: NodeId, outcome: Outcome) -> None:
        payload = self._open.pop((node, outcome.number), None)
        if payload is not None:  # a change of members has no payload of ours
            self.ended[payload] = outcome

    def committed_payloads(self) -> set[bytes]:
        return set(self.payload_at.values())

    def count_results(self) -> dict[Result, int]:
        counts = dict.fromkeys(Result, 0)
        for outcome in self.ended.values():
            counts[outcome.result] += 1
        return counts
