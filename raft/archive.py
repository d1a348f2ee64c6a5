"""The data that replaces the blocks up to the root: snapshot, tail, and a snapshot being received.

The snapshot is complete and in memory, because any follower may need it at any time.
See `tail.py`.
"""

from raft.ids import BlockId, Term
from raft.state import Snapshot
from raft.tail import Tail

__all__ = ["Archive", "Incoming", "Source"]

Source = tuple[Term, BlockId, int | None]
"""Identity of a snapshot: the leader's term, its last block, its checksum."""


class Incoming:
    """A snapshot being received: the chunks so far, all from one leader.

    Two leaders may have a snapshot of the same block in different bytes, because two versions of a
    host may encode it differently. A term has one leader, so the term is part of the identity.
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
        """Covers everything up to the root; None while the root is genesis."""
        self.tail = tail
        self.incoming: Incoming | None = None
