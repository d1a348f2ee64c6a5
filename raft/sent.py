"""Proposals sent to a leader without an answer yet, and what the chain reveals about them.

A proposal sent in a term becomes a block of that very term or none (`forwarding.on_propose`), and
terms never decrease along a path. So when a block of a later term is committed, every block of the
earlier term that will ever exist on the path precedes it. We do not know the number of our block,
but its payload: if no block of that term had it, our proposal is dead. If one had, it may be ours
or another node's with the same payload, and no node remains that could answer.
"""

from collections import deque
from dataclasses import dataclass

from raft.block import Block, BlockKind
from raft.ids import BlockId, Term

__all__ = ["Sent"]


@dataclass(slots=True, kw_only=True)
class _Attempt:
    term: Term
    payload: bytes
    again_ms: int
    maybe_committed: bool = False
    """A block with our payload was applied, or a snapshot hides whether one was."""


class Sent:
    """Mutable; proposals by number, the oldest attempt first, hence the lowest term first."""

    __slots__ = ("_attempts", "_by_payload", "_due")

    def __init__(self) -> None:
        self._attempts: dict[int, _Attempt] = {}
        self._by_payload: dict[bytes, set[int]] = {}
        self._due: deque[tuple[int, int]] = deque()
        """(when to send again, number), soonest first; some have been answered meanwhile."""

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, number: int, payload: bytes, term: Term, again_ms: int) -> None:
        """It was sent to the leader of this term. A block of ours in that term can only come later:
        that leader has every block committed here, so it appends above them."""
        self._attempts[number] = _Attempt(term=term, payload=payload, again_ms=again_ms)
        self._by_payload.setdefault(payload, set()).add(number)
        self._due.append((again_ms, number))

    def next_due_ms(self) -> int | None:
        """When the first unanswered proposal is to be sent again."""
        due = self._due
        while due and not self._is_current(*due[0]):
            due.popleft()
        return due[0][0] if due else None

    def _is_current(self, again_ms: int, number: int) -> bool:
        attempt = self._attempts.get(number)
        return attempt is not None and attempt.again_ms == again_ms

    def take_due(self, now_ms: int, again_ms: int, term: Term) -> list[tuple[int, bytes]]:
        """(number, payload) of the proposals due for sending again in this term; the next time is
        `again_ms`. Those of an earlier term have no leader to ask."""
        taken = []
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            _, number = self._due.popleft()
            attempt = self._attempts[number]
            if attempt.term == term:
                taken.append((number, attempt.payload))
                attempt.again_ms = again_ms
                self._due.append((again_ms, number))
        return taken

    def was_sent_in(self, number: int, term: Term) -> bool:
        attempt = self._attempts.get(number)
        return attempt is not None and attempt.term == term

    def remove(self, number: int) -> None:
        """It was answered, or its request ended."""
        attempt = self._attempts.pop(number, None)
        if attempt is not None:
            alike = self._by_payload[attempt.payload]
            alike.remove(number)
            if not alike:
                del self._by_payload[attempt.payload]

    def applied(self, block: Block) -> list[tuple[int, bool]]:
        """Record a block of the path, in order. Return the proposals of earlier terms, each with
        whether it may be committed."""
        term = block.id.term
        if block.kind is BlockKind.DATA:
            for number in self._by_payload.get(block.payload, ()):
                if self._attempts[number].term == term:
                    self._attempts[number].maybe_committed = True
        return self._left_behind(term)

    def hidden(self, last: BlockId) -> list[tuple[int, bool]]:
        """Like `applied`, for all blocks at once that a snapshot up to `last` replaces."""
        for attempt in self._attempts.values():
            if attempt.term <= last.term:
                attempt.maybe_committed = True
        return self._left_behind(last.term)

    def _left_behind(self, term: Term) -> list[tuple[int, bool]]:
        left: list[tuple[int, bool]] = []
        for number, attempt in self._attempts.items():
            if attempt.term >= term:
                break
            left.append((number, attempt.maybe_committed))
        return left
