"""Proposals: each ends once, and "not appended" is said only by who knows."""

from raft import BlockId, BlockKind, Height, Outcome, Result, Term
from raft.block import make_block
from raft.proposals import Proposals

BLOCK = make_block(BlockId(Term(2), Height(8)), Term(2), BlockKind.DATA, b"d")


def book() -> Proposals:
    return Proposals(10, 1000, first_number=100)


def one(proposals: Proposals, deadline_ms: int = 50) -> int:
    return proposals.add(BlockKind.DATA, b"d", deadline_ms).number


def ends(proposals: Proposals) -> list[tuple[int, Result]]:
    return [(outcome.number, outcome.result) for outcome in proposals.outcomes]


def test_a_proposal_ends_once() -> None:
    proposals = book()
    number = one(proposals)
    proposals.place(number, BLOCK.id)

    proposals.applied(BLOCK)
    proposals.applied(BLOCK)
    proposals.end_block(BLOCK.id, Result.DEAD)
    proposals.expire(1000)

    assert proposals.outcomes == [
        Outcome(number=number, result=Result.COMMITTED, block_id=BLOCK.id)
    ]
    assert len(proposals) == 0
    assert proposals.next_deadline_ms() is None


def test_waiting_ends_dead_sent_or_placed_ends_unknown() -> None:
    proposals = book()
    waiting, sent, placed = one(proposals), one(proposals), one(proposals)
    proposals.take_waiting()
    proposals.sent(waiting, Term(1), 100)
    proposals.wait_again(waiting, Term(1))
    proposals.sent(sent, Term(1), 100)
    proposals.place(placed, BLOCK.id)

    proposals.expire(50)

    assert ends(proposals) == [
        (waiting, Result.DEAD), (sent, Result.UNKNOWN), (placed, Result.UNKNOWN),
    ]  # fmt: skip


def test_a_refusal_of_an_earlier_attempt_does_not_repeat_a_proposal() -> None:
    """Simulation seed 1375: the late refusal of one attempt made a second copy of the next."""
    proposals = book()
    number = one(proposals)
    proposals.take_waiting()
    proposals.sent(number, Term(2), 100)

    proposals.wait_again(number, Term(1))

    assert proposals.take_waiting() == []


def test_the_next_deadline_is_that_of_an_open_proposal() -> None:
    proposals = book()
    early = one(proposals, deadline_ms=10)
    one(proposals, deadline_ms=20)
    proposals.place(early, BLOCK.id)
    proposals.applied(BLOCK)

    assert proposals.next_deadline_ms() == 20
