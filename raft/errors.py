"""The exceptions of the package, split by cause.

`CorruptBlock` and `CorruptStore`: bytes are not what was written. `Refused`: the caller asked for
what the node cannot do now or ever. `InvariantBroken`: Raft's own rules were broken; it derives
from BaseException so that no loop swallows it, and the node that raised it must not be used again.
"""

__all__ = [
    "CorruptBlock",
    "CorruptStore",
    "InvariantBroken",
    "Refused",
    "StoreFailed",
    "StoreFull",
    "WrongCluster",
]


class CorruptBlock(Exception):
    """A block with wrong bytes, checksum or parent link; or different content under a known id."""


class WrongCluster(CorruptBlock):
    """A message from another cluster: the sender or this node has a wrong address."""


class CorruptStore(Exception):
    """Damage in the block file that recovery must not guess about; names file, reason and place."""


class StoreFailed(Exception):
    """A write or sync failed: what is durable is unknown, so the store refuses all further work."""


class StoreFull(Exception):
    """The disk has no room for this batch, or the machine no file handle: nothing has changed, the
    call may be retried."""


class Refused(Exception):
    """The request is impossible: too large, too many outstanding, or wrong role."""


class InvariantBroken(BaseException):
    """A safety rule of Raft is violated; continuing would spread the damage."""
