"""What the checkers know of the whole world: who proposed what, and what was committed where."""

from raft import BlockId, NodeId, Outcome, Result, State, Term

__all__ = ["View"]


class View:
    """Mutable; filled by the cluster and by the checkers."""

    def __init__(self) -> None:
        self.committed: dict[int, BlockId] = {}
        """Height → the block that some node committed there first."""
        self.committed_in: dict[int, Term] = {}
        """Height → the term of the node that did."""
        self.committed_max = 0
        self.payload_at: dict[int, bytes] = {}
        """Height → the payload applied there first."""
        self.parents: dict[BlockId, BlockId] = {}
        """Every block that any node ever wrote."""
        self.durable: dict[NodeId, set[BlockId]] = {}
        """What each node has synced and not removed since."""
        self.durable_root: dict[NodeId, int] = {}
        """Height of the snapshot that each node has synced."""
        self.wiped: set[NodeId] = set()
        """Who lost its disk, and has not started since: it can keep no promise."""
        self.rebuilt: dict[NodeId, State] = {}
        """Who lost its blocks, not its promises, and has not started since; what it had promised
        by its files."""
        self.ended: dict[bytes, Outcome] = {}
        self.told_max = 0
        """Height of the highest block that any client was told to be committed."""
        self.reads_done = 0
        self.open: dict[tuple[NodeId, int], tuple[bytes, int]] = {}
        """(node, number) → (payload, deadline on that node's clock)."""
        self.reads: dict[tuple[NodeId, int], tuple[int, int]] = {}
        """(node, number) → the height that clients knew to be committed then, and the deadline."""
        self._proposals = 0

    def next_proposal(self) -> int:
        self._proposals += 1
        return self._proposals

    def begin(self, node: NodeId, number: int, payload: bytes, deadline_ms: int) -> None:
        self.open[node, number] = payload, deadline_ms

    def end(self, node: NodeId, outcome: Outcome) -> None:
        payload, _ = self.open.pop((node, outcome.number), (None, 0))
        if payload is not None:  # a change of members has no payload of ours
            self.ended[payload] = outcome

    def forget_client(self, node: NodeId) -> None:
        """The node crashed: nobody will be told."""
        for key in [key for key in self.open if key[0] == node]:
            del self.open[key]
        for key in [key for key in self.reads if key[0] == node]:
            del self.reads[key]

    def committed_payloads(self) -> set[bytes]:
        return set(self.payload_at.values())

    def count_results(self) -> dict[Result, int]:
        counts = dict.fromkeys(Result, 0)
        for outcome in self.ended.values():
            counts[outcome.result] += 1
        return counts
