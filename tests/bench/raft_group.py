"""N nodes in one process for the benches: messages are handed over as values, disks take no time.

A host in the sense of raft/README.md without its I/O, so that what is measured is the library. The
network keeps the order and loses nothing unless a bench takes a member away.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from raft import Config, Message, Node, NodeId, Outcome, Ready, Role

__all__ = ["Group"]

KEEP_BLOCKS = 20_000
"""Each node compacts past this, as a real host would: memory does not grow with the run."""


class Group:
    """`pump` lets everybody work until nobody has anything to do."""

    def __init__(
        self,
        size: int,
        *,
        rng: Random,
        on_outcome: Callable[[Outcome], None] = lambda outcome: None,
        through: Callable[[Message], Message] = lambda message: message,
        config: dict[str, int] | None = None,
    ) -> None:
        ids = tuple(NodeId(number) for number in range(1, size + 1))
        self.now_ms = 0
        self.on_outcome = on_outcome
        self._through = through
        self.nodes = {
            id_: Node(
                Config(node_id=id_, initial_voters=ids, cluster_id="bench", **(config or {})),
                None,
                now_ms=0,
                rng=Random(rng.random()),
            )
            for id_ in ids
        }
        self._mail: deque[Message] = deque()

    def elect(self) -> Node:
        """Let time pass until somebody leads; the leader."""
        while (leader := self.leader()) is None:
            self.now_ms += 10
            for node in self.nodes.values():
                node.tick(self.now_ms)
            self.pump()
        return leader

    def leader(self) -> Node | None:
        leading = [node for node in self.nodes.values() if node.status().role is Role.LEADER]
        return max(leading, key=lambda node: node.status().term, default=None)

    def pump(self) -> None:
        while True:
            for node in self.nodes.values():
                while node.has_ready():
                    self._do(node, node.ready())
            if not self._mail:
                return
            mail, self._mail = self._mail, deque()
            for message in mail:
                to = self.nodes.get(message.to)
                if to is not None:
                    to.step(self._through(message), self.now_ms)

    def _do(self, node: Node, ready: Ready) -> None:
        for outcome in ready.outcomes:
            self.on_outcome(outcome)
        self._mail += ready.messages
        node.advance()
        if ready.committed and ready.committed[-1].id.height % KEEP_BLOCKS < len(ready.committed):
            node.compact(b"state")
