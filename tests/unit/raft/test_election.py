"""Votes, as the paper says: whom a node grants its vote, and when it has won."""

from random import Random
from typing import Any

import pytest

from raft.block import BlockKind, make_block
from raft.config import Config
from raft.core import Core
from raft.election import on_take_over, on_vote_answer, on_vote_request, start_election
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.messages import Message, TakeOver, VoteAnswer, VoteRequest
from raft.roles import Role, RoleEvent

ME, PEER, THIRD = NodeId(1), NodeId(2), NodeId(3)
AHEAD, LOWER_TERM = BlockId(Term(2), Height(1)), BlockId(Term(1), Height(9))


def core_of(*voters: NodeId, head_term: int = 2) -> Core:
    """A member in term 2 whose head is block 1 of `head_term`."""
    config = Config(node_id=ME, initial_voters=voters or (ME, PEER, THIRD), cluster_id="c")
    core = Core(config, None, now_ms=0, rng=Random(1))
    core.chain.grow(make_block(GENESIS, Term(head_term), BlockKind.DATA, b""))
    core.enter_term(Term(2), vote=None)
    return core


def sent(core: Core) -> list[Message]:
    found = list(core.outbox.messages)
    core.outbox.messages.clear()
    return found


def asked(core: Core, sender: NodeId = PEER, **fields: Any) -> bool:
    values = {"term": Term(2), "head": AHEAD, "pre": False, "forced": False, **fields}
    message = VoteRequest(sender=sender, to=ME, cluster_id="c", **values)
    on_vote_request(core, message)
    (answer,) = sent(core)
    assert isinstance(answer, VoteAnswer)
    return answer.granted


def answer(sender: NodeId, *, granted: bool = True, pre: bool = False) -> VoteAnswer:
    return VoteAnswer(sender=sender, to=ME, cluster_id="c", term=Term(2), pre=pre, granted=granted)


@pytest.mark.parametrize(
    ("head", "granted"),
    [(AHEAD, True), (BlockId(Term(2), Height(2)), True), (LOWER_TERM, False), (GENESIS, False)],
)
def test_a_vote_goes_to_a_head_at_least_as_new_by_term_and_then_height(head, granted) -> None:
    assert asked(core_of(), head=head) is granted
    assert asked(core_of(), head=head, pre=True, term=Term(3)) is granted


def test_one_vote_is_given_in_a_term_and_the_same_again_to_the_same() -> None:
    core = core_of()

    assert asked(core, PEER)
    assert asked(core, PEER)
    assert not asked(core, THIRD)
    assert core.candidacy.vote == PEER


def test_a_pre_vote_promises_nothing_and_is_refused_while_a_leader_is_heard() -> None:
    core = core_of()
    assert asked(core, PEER, pre=True, term=Term(3))
    assert asked(core, THIRD, pre=True, term=Term(3))
    assert core.candidacy.vote is None

    core.candidacy.hear_leader(0)
    assert not asked(core, PEER, pre=True, term=Term(3))


def test_a_pre_vote_in_a_term_that_was_entered_already_is_refused() -> None:
    assert not asked(core_of(), pre=True, term=Term(2))


def test_of_two_that_start_at_once_the_lower_number_gives_way() -> None:
    core = core_of()
    start_election(core, RoleEvent.ELECTION_TIMEOUT)
    sent(core)

    assert asked(core, PEER, pre=True, term=Term(3))

    assert core.role is Role.FOLLOWER


def test_a_majority_of_pre_votes_makes_a_candidate_that_votes_for_itself() -> None:
    core = core_of()
    start_election(core, RoleEvent.ELECTION_TIMEOUT)
    assert (core.role, core.term, core.candidacy.vote) == (Role.PRE_CANDIDATE, 2, None)

    on_vote_answer(core, answer(PEER, pre=True))

    assert (core.role, core.term, core.candidacy.vote) == (Role.CANDIDATE, 3, ME)


def test_a_majority_of_votes_leads_and_a_duplicate_counts_once() -> None:
    core = core_of(ME, PEER, THIRD, NodeId(4), NodeId(5))
    start_election(core, RoleEvent.TRANSFER)

    on_vote_answer(core, answer(PEER))
    on_vote_answer(core, answer(PEER))
    assert core.role is Role.CANDIDATE
    on_vote_answer(core, answer(THIRD))
    assert (core.role, core.leader) == (Role.LEADER, ME)


def test_a_majority_that_became_impossible_ends_the_attempt() -> None:
    core = core_of()
    start_election(core, RoleEvent.TRANSFER)

    on_vote_answer(core, answer(PEER, granted=False))
    assert core.role is Role.CANDIDATE
    on_vote_answer(core, answer(THIRD, granted=False))

    assert core.role is Role.FOLLOWER


def test_votes_of_others_than_voters_are_not_counted() -> None:
    core = core_of()
    start_election(core, RoleEvent.TRANSFER)

    on_vote_answer(core, answer(NodeId(9)))

    assert core.role is Role.CANDIDATE


def test_an_answer_to_an_earlier_round_is_not_counted() -> None:
    core = core_of()
    start_election(core, RoleEvent.TRANSFER)

    on_vote_answer(core, answer(PEER, pre=True))

    assert core.role is Role.CANDIDATE


def test_a_handed_over_leadership_is_taken_without_a_pre_vote() -> None:
    core = core_of()

    on_take_over(core, TakeOver(sender=PEER, to=ME, cluster_id="c", term=Term(2)))

    assert (core.role, core.term) == (Role.CANDIDATE, 3)
    assert all(m.forced and not m.pre for m in sent(core) if isinstance(m, VoteRequest))


def test_a_sole_voter_leads_at_once() -> None:
    core = core_of(ME)

    start_election(core, RoleEvent.ELECTION_TIMEOUT)

    assert core.role is Role.LEADER
