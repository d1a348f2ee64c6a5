"""What can go wrong, split by who broke the rule.

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
    """A block with wrong bytes, checksum or link to its parent; or a second content for its id."""


class WrongCluster(CorruptBlock):
    """A message of another cluster: its sender has a wrong address, or this node has."""


class CorruptStore(Exception):
    """A block file that recovery must not guess about; says which file, where and why."""


class StoreFailed(Exception):
    """A write or sync failed: what is durable is unknown, so the store refuses all further work."""


class StoreFull(Exception):
    """There is no room for this batch: nothing has changed, the same call may be made again."""


class Refused(Exception):
    """The request is not possible: too large, too many outstanding, or not the right role."""


class InvariantBroken(BaseException):
    """A safety rule of Raft does not hold; continuing would spread the damage."""
