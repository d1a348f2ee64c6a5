"""The last blocks below the root, kept in memory for followers that lag only a little.

The snapshot covers them, so nothing depends on them: they are bounded in number and bytes, and lost
in a restart. Without them every compaction would send a whole snapshot to a follower that misses
ten blocks.
"""

from bisect import bisect_right
from collections.abc import Iterable

from raft.block import Block
from raft.ids import BlockId, Height, Term

__all__ = ["Tail"]


class Tail:
    """Mutable run of linked blocks that ends at the root; may be empty."""

    __slots__ = ("_blocks", "_blocks_max", "_bytes", "_bytes_max")

    def __init__(self, *, blocks_max: int, bytes_max: int) -> None:
        self._blocks_max = blocks_max
        self._bytes_max = bytes_max
        self._blocks: list[Block] = []
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def keep(self, blocks: Iterable[Block]) -> None:
        """Add the blocks that the root moved over; they follow the present ones."""
        for block in blocks:
            assert not self._blocks or block.parent == self._blocks[-1].id, block.id
            self._blocks.append(block)
            self._bytes += len(block.payload)
        drop = 0
        while drop < len(self._blocks) and (
            len(self._blocks) - drop > self._blocks_max or self._bytes > self._bytes_max
        ):
            self._bytes -= len(self._blocks[drop].payload)
            drop += 1
        del self._blocks[:drop]

    def clear(self) -> None:
        """Drop all blocks; another chain follows."""
        self._blocks.clear()
        self._bytes = 0

    def id_at(self, height: Height) -> BlockId | None:
        """The id below the root at this height; None when it is no longer known."""
        if not self._blocks:
            return None
        index = height - self._blocks[0].id.height
        if index == -1:
            return self._blocks[0].parent
        return self._blocks[index].id if 0 <= index < len(self._blocks) else None

    def after(self, parent: Height) -> list[Block]:
        """The blocks above this height, up to the root; `id_at` must know the height."""
        return self._blocks[parent + 1 - self._blocks[0].id.height :]

    def last_at_most(self, limit: BlockId) -> BlockId | None:
        """Like Chain.last_at_most, for the path below the root."""
        if not self._blocks:
            return None
        count = min(len(self._blocks), limit.height - self._blocks[0].id.height + 1)
        if count < 0:
            return None
        index = bisect_right(self._blocks, limit.term, hi=count, key=_term_of) - 1
        if index >= 0:
            return self._blocks[index].id
        lowest = self._blocks[0].parent
        return lowest if lowest.term <= limit.term else None


def _term_of(block: Block) -> Term:
    return block.id.term
