"""Producer ids that this broker may hand out, from blocks allocated by a metadata change.

Rules: a cluster hands out each id once; the rest of a block is lost when the broker stops.
"""

BLOCK_IDS = 1000
"""Ids per proposal, as in Kafka (KIP-730)."""


class ProducerIds:
    """The producer ids that this broker owns, in order."""

    __slots__ = ("_blocks",)

    def __init__(self) -> None:
        self._blocks: list[range] = []

    def add(self, first_id: int, count: int) -> None:
        self._blocks.append(range(first_id, first_id + count))

    def __len__(self) -> int:
        """The number of ids left."""
        return sum(map(len, self._blocks))

    def take(self) -> int | None:
        """The next id; None when a block must be allocated first."""
        if not self._blocks:
            return None
        block = self._blocks[0]
        if len(block) == 1:
            self._blocks.pop(0)
        else:
            self._blocks[0] = block[1:]
        return block[0]
