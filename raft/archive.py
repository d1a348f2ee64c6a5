"""What stands for the blocks up to the root: a snapshot, a tail, and maybe a snapshot on its way.

The snapshot is whole and in memory, because any follower may need it at any time. See `tail.py`.
"""

from raft.ids import BlockId, Term
from raft.state import Snapshot
from raft.tail import Tail

__all__ = ["Archive", "Incoming", "Source"]

Source = tuple[Term, BlockId, int | None]
"""Whose snapshot: the leader's term, its last block, its checksum."""


class Incoming:
    """A snapshot on its way to us: the chunks so far, all of one leader's.

    Two leaders may have a snapshot of the same block in different bytes, as two versions of a host
    write it: so the term, which has one leader, is part of what names it.
    """

    __slots__ = ("data", "source")

    def __init__(self, source: Source) -> None:
        self.source = source
        self.data = bytearray()


class Archive:
    """Mutable; part of a Core."""

    __slots__ = ("incoming", "snapshot", "tail")

    def __init__(self, snapshot: Snapshot | None, tail: Tail) -> None:
        self.snapshot = snapshot
        """Ends at the root; None while the root is genesis."""
        self.tail = tail
        self.incoming: Incoming | None = None
