"""The outstanding proposals, from the request to the one answer that each of them gets.

Rules: a proposal is waiting (in no block yet), sent (to the leader, without an answer) or placed
(in a known block). It ends once: COMMITTED or DEAD as soon as the chain decides; UNKNOWN at its
deadline, or earlier when no later event can decide. One that is still waiting at its deadline is
DEAD without a block: nothing was appended, so a retry is safe.
"""

import heapq
from dataclasses import dataclass
from enum import Enum, auto

from raft.block import Block, BlockKind
from raft.errors import Refused
from raft.ids import BlockId, Term
from raft.sent import Sent

__all__ = ["Outcome", "Proposal", "Proposals", "Result", "fate_below"]


class Result(Enum):
    """The possible outcomes of a proposal."""

    COMMITTED = auto()  # in the chain for ever, and applied before this is reported
    DEAD = auto()  # not in the chain and never will be: it is safe to propose it again
    UNKNOWN = auto()  # it may be committed, now or later: undecidable, or not decided in time


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """One request; `number` is unique within one run of its node."""

    number: int
    kind: BlockKind
    payload: bytes
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a proposal ended. `block_id` is None when it never got into a block known here."""

    number: int
    result: Result
    block_id: BlockId | None


class Proposals:
    """Mutable table of outstanding proposals, bounded in number and in payload bytes."""

    __slots__ = (
        "_by_block",
        "_bytes",
        "_bytes_max",
        "_deadlines",
        "_next_number",
        "_open",
        "_outstanding_max",
        "_placed",
        "_sent",
        "_waiting",
        "outcomes",
    )

    def __init__(self, outstanding_max: int, bytes_max: int, *, first_number: int) -> None:
        """A random `first_number` prevents collisions with numbers of an earlier run."""
        self._outstanding_max = outstanding_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._next_number = first_number
        self._open: dict[int, Proposal] = {}
        self._waiting: dict[int, None] = {}  # an ordered set
        self._sent = Sent()
        self._placed: dict[int, BlockId] = {}
        self._by_block: dict[BlockId, int] = {}
        self._deadlines: list[tuple[int, int]] = []
        self.outcomes: list[Outcome] = []
        """Outcomes that are not reported yet; the node hands them out."""

    def __len__(self) -> int:
        return len(self._open)

    def add(self, kind: BlockKind, payload: bytes, deadline_ms: int) -> Proposal:
        """A new proposal, waiting. Raises Refused when too many are outstanding."""
        if len(self._open) >= self._outstanding_max:
            raise Refused(f"{self._outstanding_max} proposals are outstanding, the limit")
        if self._bytes + len(payload) > self._bytes_max:
            raise Refused(
                f"{self._bytes} bytes of proposals are outstanding, the limit is {self._bytes_max}"
            )
        proposal = Proposal(
            number=self._next_number, kind=kind, payload=payload, deadline_ms=deadline_ms
        )
        self._next_number += 1
        self._open[proposal.number] = proposal
        self._bytes += len(payload)
        self._waiting[proposal.number] = None
        heapq.heappush(self._deadlines, (deadline_ms, proposal.number))
        return proposal

    def take_waiting(self) -> list[Proposal]:
        """All waiting ones, oldest first; the caller places, sends or returns each."""
        taken = [self._open[number] for number in self._waiting]
        self._waiting.clear()
        return taken

    def sent(self, number: int, term: Term, again_ms: int) -> None:
        """It was sent to the leader of this term; without an answer it is due again at
        `again_ms`."""
        self._sent.add(number, self._open[number].payload, term, again_ms)

    def next_resend_ms(self) -> int | None:
        return self._sent.next_due_ms()

    def resend(self, now_ms: int, again_ms: int, term: Term) -> list[tuple[int, bytes]]:
        """(number, payload) of proposals that the leader of this term left unanswered for too
        long."""
        return self._sent.take_due(now_ms, again_ms, term)

    def wait_again(self, number: int, asked: Term) -> None:
        """It was not appended when it was sent in this term, and never will be: it waits again."""
        if self._sent.was_sent_in(number, asked):
            self._sent.remove(number)
            self._waiting[number] = None

    def can_be(self, number: int, block_id: BlockId) -> bool:
        """Could this block hold it, as far as is known of both?"""
        placed = self._placed.get(number, block_id)
        return placed == block_id and self._by_block.get(block_id, number) == number

    def place(self, number: int, block_id: BlockId) -> None:
        """It is in this block now."""
        if number in self._open:
            self._waiting.pop(number, None)
            self._sent.remove(number)
            self._placed[number] = block_id
            self._by_block[block_id] = number

    def applied(self, block: Block) -> None:
        """The block is committed and handed out to be applied: the next one on the path."""
        self.end_block(block.id, Result.COMMITTED)
        if self._sent:
            self._end_sent(self._sent.applied(block))

    def snapshot_came(self, last: BlockId) -> None:
        """A snapshot up to `last` hides the path below it: end the proposals it decides."""
        for block_id in [id_ for id_ in self._by_block if id_.height <= last.height]:
            self.end_block(block_id, fate_below(last, block_id))
        self._end_sent(self._sent.hidden(last))

    def _end_sent(self, left_behind: list[tuple[int, bool]]) -> None:
        for number, maybe_committed in left_behind:
            self._end(number, Result.UNKNOWN if maybe_committed else Result.DEAD)

    def end_block(self, block_id: BlockId, result: Result) -> None:
        """End the proposal in this block, if it is one of ours."""
        number = self._by_block.get(block_id)
        if number is not None:
            self._end(number, result)

    def placed_blocks(self) -> list[BlockId]:
        return list(self._by_block)

    def expire(self, now_ms: int) -> None:
        """End proposals that are past their deadline."""
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            number = heapq.heappop(self._deadlines)[1]
            if number in self._open:
                waits = number in self._waiting
                self._end(number, Result.DEAD if waits else Result.UNKNOWN)

    def next_deadline_ms(self) -> int | None:
        while self._deadlines and self._deadlines[0][1] not in self._open:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _end(self, number: int, result: Result) -> None:
        self._bytes -= len(self._open.pop(number).payload)
        self._waiting.pop(number, None)
        self._sent.remove(number)
        block_id = self._placed.pop(number, None)
        if block_id is not None:
            del self._by_block[block_id]
        self.outcomes.append(Outcome(number=number, result=result, block_id=block_id))


def fate_below(root: BlockId, block_id: BlockId) -> Result:
    """The known fate of a block at or below a committed one, when the path between is hidden."""
    if block_id == root:
        return Result.COMMITTED
    # Terms never decrease along a path, and it has one block at each height.
    if block_id.term > root.term or block_id.height == root.height:
        return Result.DEAD
    return Result.UNKNOWN
