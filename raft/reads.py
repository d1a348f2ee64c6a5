"""Linearizable reads without writing (section 8, thesis 6.4), on the leader.

A read takes the commit of its time, waits until a majority answered a round that began after it,
and then until that commit is applied. A loss of leadership ends it without a result.
"""

from raft.ids import BlockId
from raft.ready import ReadDone

__all__ = ["Reads"]


class Reads:
    """Mutable queue of reads on their way."""

    __slots__ = ("_asked", "_confirmed", "_next_number", "_queued", "done")

    def __init__(self) -> None:
        self._next_number = 1
        self._queued: list[int] = []  # until this leader has committed a block of its own
        self._asked: list[tuple[int, int, BlockId]] = []  # number, round it needs, commit
        self._confirmed: list[tuple[int, BlockId]] = []  # until applied
        self.done: list[ReadDone] = []

    def add(self) -> int:
        number = self._next_number
        self._next_number += 1
        self._queued.append(number)
        return number

    @property
    def has_queued(self) -> bool:
        return bool(self._queued)

    def ask(self, round_: int, commit: BlockId) -> None:
        """Every queued read is answered by this round, as of this commit."""
        self._asked += [(number, round_, commit) for number in self._queued]
        self._queued.clear()

    def confirm(self, round_: int) -> None:
        """A majority answered this round."""
        self._confirmed += [
            (number, commit) for number, asked, commit in self._asked if asked <= round_
        ]
        self._asked = [read for read in self._asked if read[1] > round_]

    def applied(self, applied: BlockId) -> None:
        """The state machine stands here: which reads may look at it?"""
        ready = [read for read in self._confirmed if read[1].height <= applied.height]
        if ready:
            self.done += [ReadDone(number=number, commit=commit) for number, commit in ready]
            self._confirmed = [r for r in self._confirmed if r[1].height > applied.height]

    def refuse_all(self) -> None:
        """This node does not lead (any more)."""
        numbers = self._queued + [read[0] for read in self._asked]
        self.done += [ReadDone(number=number, commit=None) for number in numbers]
        self._queued.clear()
        self._asked.clear()
