"""Distinct types for Raft's integers, so that a term and a height cannot be swapped."""

from typing import NamedTuple, NewType

Term = NewType("Term", int)
Height = NewType("Height", int)
NodeId = NewType("NodeId", int)


class BlockId(NamedTuple):
    """(term, height): identifies one block's content for ever; a leader makes one block per height.

    Tuple order is Raft's "at least as up to date": the newer last term wins, then the longer chain
    (Raft paper, section 5.4.1). A NamedTuple because it is a dict key on every path.
    """

    term: Term
    height: Height

    def __str__(self) -> str:
        return f"{self.term}:{self.height}"


GENESIS = BlockId(Term(0), Height(0))
"""The block every chain starts from. It has no content and is never stored."""
