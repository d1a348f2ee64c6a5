"""Remembered answers to proposals that other nodes forwarded to this one.

Two rules depend on it: a message that arrives twice creates no second block, and only a node that
is certain answers "not appended". Memory is bounded and lost in a restart; both rules must hold all
the same. So a proposal whose answer is forgotten is neither answered nor appended: its sender
learns the outcome from the chain.
"""

from raft.ids import BlockId, NodeId, Term

__all__ = ["Forwarded"]

NUMBERS_APART = 1_000_000
"""A sender numbers its proposals from a random 40-bit number after each start: numbers closer than
this belong to the same run of the sender."""
RANGES_MAX = 1_000
"""Runs of senders, in one term, whose forgotten number ranges are kept separately."""


class Forwarded:
    """Mutable map of (sender, term, number) → the block, or None for "not appended"."""

    __slots__ = ("_answers", "_answers_max", "_forgotten", "_known_after", "_term")

    def __init__(self, answers_max: int, *, known_after: Term) -> None:
        self._answers_max = answers_max
        self._answers: dict[tuple[NodeId, Term, int], BlockId | None] = {}
        self._known_after = known_after
        """In terms up to this one we may have appended proposals and forgotten them."""
        self._term = known_after
        """The highest term of which an answer was forgotten since the start."""
        self._forgotten: list[tuple[NodeId, int, int]] = []
        """Forgotten ranges of that term: sender, lowest and highest number."""

    def knows(self, sender: NodeId, term: Term, number: int) -> bool:
        return (sender, term, number) in self._answers

    def answer(self, sender: NodeId, term: Term, number: int) -> BlockId | None:
        return self._answers[sender, term, number]

    def can_refuse(self, term: Term) -> bool:
        """In this term, is every proposal without a remembered answer certainly not appended?"""
        return term > self._known_after

    def may_have_appended(self, sender: NodeId, term: Term, number: int) -> bool:
        """Is it in a forgotten number range of the leader's own term?"""
        return term == self._term and any(
            sender == other and low <= number <= high for other, low, high in self._forgotten
        )

    def remember(self, sender: NodeId, term: Term, number: int, block_id: BlockId | None) -> None:
        self._answers[sender, term, number] = block_id
        if len(self._answers) > self._answers_max:
            oldest = next(iter(self._answers))
            del self._answers[oldest]
            self._forget(*oldest)

    def _forget(self, sender: NodeId, term: Term, number: int) -> None:
        self._known_after = max(self._known_after, term)
        if term < self._term:
            return  # no leader appends in an old term
        if term > self._term:
            self._term = term
            self._forgotten.clear()
        for index, (other, low, high) in enumerate(self._forgotten):
            if sender == other and low - NUMBERS_APART < number < high + NUMBERS_APART:
                self._forgotten[index] = sender, min(low, number), max(high, number)
                return
        self._forgotten.append((sender, number, number))
        del self._forgotten[:-RANGES_MAX]
