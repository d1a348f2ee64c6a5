"""What stands for the blocks up to the root: a snapshot, a tail, and maybe a snapshot on its way.

The snapshot is whole and in memory, because any follower may need it at any time. See `tail.py`.
"""

from raft.ids import BlockId
from raft.state import Snapshot
from raft.tail import Tail

__all__ = ["Archive", "Incoming"]


class Incoming:
    """A snapshot on its way to us, ending at block `last`: the chunks so far."""

    __slots__ = ("data", "last")

    def __init__(self, last: BlockId) -> None:
        self.last = last
        self.data = bytearray()


class Archive:
    """Mutable; part of a Core."""

    __slots__ = ("incoming", "snapshot", "tail")

    def __init__(self, snapshot: Snapshot | None, tail: Tail) -> None:
        self.snapshot = snapshot
        """Ends at the root; None while the root is genesis."""
        self.tail = tail
        self.incoming: Incoming | None = None
