"""What became of the proposals that others sent here, as far as it is remembered.

Two rules hang on it: a message that arrives twice makes no second block, and "not appended" is said
only by a node that knows. Memory is bounded, and a restart empties it; both rules must hold all the
same. So of what is forgotten we say nothing, and append nothing: its sender is told by the chain.
"""

from raft.ids import BlockId, NodeId, Term

__all__ = ["Forwarded"]

NUMBERS_APART = 1_000_000
"""A sender counts its proposals from a random 40-bit number in each of its lives: numbers closer
than this are of one life, else of two."""
RANGES_MAX = 1_000
"""Lives of senders, in one term, whose forgotten numbers are told apart."""


class Forwarded:
    """Mutable; (sender, term, number) → the block, or None for "not appended"."""

    __slots__ = ("_answers", "_answers_max", "_forgotten", "_known_after", "_term")

    def __init__(self, answers_max: int, *, known_after: Term) -> None:
        self._answers_max = answers_max
        self._answers: dict[tuple[NodeId, Term, int], BlockId | None] = {}
        self._known_after = known_after
        """In terms up to this we may have appended, and forgotten it."""
        self._term = known_after
        """The highest term of which we forgot an answer ourselves."""
        self._forgotten: list[tuple[NodeId, int, int]] = []
        """In that term: sender, and the lowest and highest of its numbers that are forgotten."""

    def knows(self, sender: NodeId, term: Term, number: int) -> bool:
        return (sender, term, number) in self._answers

    def answer(self, sender: NodeId, term: Term, number: int) -> BlockId | None:
        return self._answers[sender, term, number]

    def can_refuse(self, term: Term) -> bool:
        """Is "not appended" true of everything in this term that we have no answer to?"""
        return term > self._known_after

    def may_have_appended(self, sender: NodeId, term: Term, number: int) -> bool:
        """Does it lie among those of the leader's own term whose answers are forgotten?"""
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
            return  # nothing is appended in an old term any more
        if term > self._term:
            self._term = term
            self._forgotten.clear()
        for index, (other, low, high) in enumerate(self._forgotten):
            if sender == other and low - NUMBERS_APART < number < high + NUMBERS_APART:
                self._forgotten[index] = sender, min(low, number), max(high, number)
                return
        self._forgotten.append((sender, number, number))
        del self._forgotten[:-RANGES_MAX]
