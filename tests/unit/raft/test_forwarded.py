"""Proposals of others: never appended twice, and "not appended" is said only by who knows."""

import pytest

from raft import BlockId, Height, NodeId, Term
from raft.forwarded import NUMBERS_APART, RANGES_MAX, Forwarded
from raft.messages import Propose, ProposeAnswer
from tests.unit.raft.test_node_among_others import PEER, THIRD, One

BLOCK = BlockId(Term(3), Height(9))
TERM = Term(3)


def test_a_restarted_node_refuses_nothing_of_terms_it_may_have_led() -> None:
    """Simulation seeds 1095 and 1148: it had appended what it no longer remembered."""
    forwarded = Forwarded(10, known_after=Term(4))

    assert not forwarded.can_refuse(Term(4))
    assert forwarded.can_refuse(Term(5))


def forgetful(*numbers: int, sender: NodeId = PEER) -> Forwarded:
    """It remembers the last answer only."""
    forwarded = Forwarded(1, known_after=Term(0))
    for number in numbers:
        forwarded.remember(sender, TERM, number, BLOCK)
    return forwarded


def test_answers_that_are_forgotten_are_not_made_up() -> None:
    forwarded = forgetful(10, 11)

    assert not forwarded.knows(PEER, TERM, 10)
    assert forwarded.answer(PEER, TERM, 11) == BLOCK
    assert not forwarded.can_refuse(TERM)


@pytest.mark.parametrize(
    ("sender", "term", "number", "expected"),
    [
        (PEER, 3, 10, True),
        (PEER, 3, 11, True),  # in between, and never seen: to be safe
        (PEER, 3, 12, True),
        (PEER, 3, 13, False),  # remembered
        (PEER, 3, 9, False),
        (THIRD, 3, 10, False),
        (PEER, 2, 10, False),  # nobody appends it in an old term anyway
    ],
)
def test_what_lies_among_the_forgotten_may_have_been_appended(
    sender: NodeId, term: int, number: int, expected: bool
) -> None:
    forwarded = forgetful(10, 12, 13)

    assert forwarded.may_have_appended(sender, Term(term), number) is expected


def test_two_lives_of_a_sender_are_told_apart() -> None:
    """Or whoever restarts and draws a number in between could propose nothing for a whole term."""
    later = 10 + 10 * NUMBERS_APART
    forwarded = forgetful(10, later, 11, later + 1, 12)

    may_have = [forwarded.may_have_appended(PEER, TERM, n) for n in (10, 11, later, later + 1)]
    assert may_have == [True] * 4
    assert not forwarded.may_have_appended(PEER, TERM, 10 + 5 * NUMBERS_APART)


def test_what_is_forgotten_of_an_older_term_is_let_go() -> None:
    forwarded = forgetful(10, 11)
    forwarded.remember(PEER, Term(2), 5, None)  # asked late, of an old term
    forwarded.remember(PEER, Term(4), 10, BLOCK)
    assert forwarded.may_have_appended(PEER, TERM, 10)
    assert not forwarded.may_have_appended(PEER, Term(2), 5)

    forwarded.remember(PEER, Term(5), 1, BLOCK)  # now the answer of term 4 is forgotten

    assert not forwarded.may_have_appended(PEER, TERM, 10)
    assert forwarded.may_have_appended(PEER, Term(4), 10)
    assert not forwarded.can_refuse(Term(4))


def test_memory_of_the_forgotten_is_bounded_too() -> None:
    forwarded = forgetful(*(life * 2 * NUMBERS_APART for life in range(RANGES_MAX + 9)))

    assert len(forwarded._forgotten) == RANGES_MAX


def test_a_leader_appends_nothing_twice_though_it_forgot_the_first_time() -> None:
    """Checklist row 11."""
    one = One(forwarded_max=1)
    one.elect()

    def ask(number: int) -> list[BlockId | None]:
        said = one.hear(Propose, term=one.term, number=number, payload=b"%d" % number)
        return [m.block_id for m in said if isinstance(m, ProposeAnswer)]

    (first,) = ask(10)
    (second,) = ask(11)
    head = one.node.status().head

    assert ask(10) == [], "its answer is forgotten"
    assert ask(11) == [second]
    assert one.node.status().head == head == second
    assert first is not None
