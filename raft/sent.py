"""Proposals sent to a leader that has not answered yet: what the chain alone says of them.

A proposal sent in a term becomes a block of that very term or none (`forwarding.on_propose`), and
terms do not fall along a path. So when a block of a later term is committed, every block of the
earlier one that ever will be is on the path before it. We do not know the number of ours, but its
payload: if no block of that term had it, ours is dead; if one had, it may have been ours or
another's with the same payload, and nobody is left to ask.
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
    """A block that could be ours was applied, or a snapshot hides whether one was."""


class Sent:
    """Mutable; numbers of proposals, the oldest attempt first, so the lowest term first."""

    __slots__ = ("_attempts", "_by_payload", "_due")

    def __init__(self) -> None:
        self._attempts: dict[int, _Attempt] = {}
        self._by_payload: dict[bytes, set[int]] = {}
        self._due: deque[tuple[int, int]] = deque()
        """(when to ask again, number), soonest first; some have been answered meanwhile."""

    def __len__(self) -> int:
        return len(self._attempts)

    def add(self, number: int, payload: bytes, term: Term, again_ms: int) -> None:
        """It is on its way to the leader of this term. Every block of ours in it is yet to come:
        that leader has whatever is committed here, so it appends above it."""
        self._attempts[number] = _Attempt(term=term, payload=payload, again_ms=again_ms)
        self._by_payload.setdefault(payload, set()).add(number)
        self._due.append((again_ms, number))

    def next_due_ms(self) -> int | None:
        """When the first that is still unanswered is to be asked again."""
        due = self._due
        while due and not self._is_current(*due[0]):
            due.popleft()
        return due[0][0] if due else None

    def _is_current(self, again_ms: int, number: int) -> bool:
        attempt = self._attempts.get(number)
        return attempt is not None and attempt.again_ms == again_ms

    def take_due(self, now_ms: int, again_ms: int, term: Term) -> list[tuple[int, bytes]]:
        """Numbers and payloads of what had no answer in this term for so long; the next time is
        `again_ms`. Of an earlier term nobody is left to ask."""
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
        """There is an answer, or nobody waits any more."""
        attempt = self._attempts.pop(number, None)
        if attempt is not None:
            alike = self._by_payload[attempt.payload]
            alike.remove(number)
            if not alike:
                del self._by_payload[attempt.payload]

    def applied(self, block: Block) -> list[tuple[int, bool]]:
        """Every block of the path, in order: return which proposals it leaves behind in an earlier
        term, and of each whether it may be committed."""
        term = block.id.term
        if block.kind is BlockKind.DATA:
            for number in self._by_payload.get(block.payload, ()):
                if self._attempts[number].term == term:
                    self._attempts[number].maybe_committed = True
        return self._left_behind(term)

    def hidden(self, last: BlockId) -> list[tuple[int, bool]]:
        """As `applied`, for all the blocks at once that a snapshot up to `last` stands for."""
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
