"""Proposals of other nodes: each becomes one block or is refused for good."""

import pytest

from raft.block import BlockKind
from raft.core import Core
from raft.forwarding import (
    ask_again,
    on_propose,
    on_propose_answer,
    on_read_request,
    place_waiting,
    send_reads,
)
from raft.ids import BlockId, Height, NodeId, Term
from raft.messages import Propose, ProposeAnswer, ReadRequest
from tests.unit.raft.cores import (
    ME,
    PEER,
    THIRD,
    TIMEOUT_MS,
    core_of,
    follower_of,
    leader_of,
    run_of,
    sent,
)

FAR_MS = 1_000_000


def proposed(core: Core, number: int = 5, term: int = 1) -> list[BlockId | None]:
    """The answers to a forwarded proposal."""
    on_propose(core, Propose(sender=PEER, to=ME, cluster_id="c", term=Term(term), number=number,
                             payload=b"p"))  # fmt: skip
    return [answer.block_id for answer in sent(core, ProposeAnswer)]


def own(core: Core) -> int:
    return core.requests.proposals.add(BlockKind.DATA, b"mine", FAR_MS).number


def test_a_repeated_proposal_gets_the_same_block() -> None:
    core = leader_of()

    (first,) = proposed(core)

    assert first is not None
    assert proposed(core) == [first]
    assert core.chain.head == first
    assert proposed(core, number=6) != [first]


def test_a_leader_of_another_term_appends_nothing_and_says_so_for_good() -> None:
    core = leader_of(term=3)
    head = core.chain.head

    assert proposed(core, term=2) == [None]
    assert core.chain.head == head


def test_a_node_that_may_have_led_in_that_term_before_a_restart_stays_silent() -> None:
    core = follower_of(term=3)
    core.requests.forwarded = type(core.requests.forwarded)(10, known_after=Term(3))

    assert proposed(core, term=2) == []


def test_while_leadership_is_handed_over_proposals_wait() -> None:
    core = leader_of()
    assert core.leading is not None
    core.leading.transfer_to = PEER
    own(core)
    head = core.chain.head

    place_waiting(core)

    assert core.chain.head == head
    core.leading.transfer_to = None
    place_waiting(core)
    assert core.chain.head.height == head.height + 1


def test_a_follower_forwards_once_and_again_after_a_timeout() -> None:
    core = follower_of()
    number = own(core)

    place_waiting(core)
    place_waiting(core)
    assert [each.number for each in sent(core, Propose)] == [number]

    core.advance_clock(TIMEOUT_MS - 1)
    ask_again(core)
    assert sent(core, Propose) == []
    core.advance_clock(TIMEOUT_MS)
    ask_again(core)
    assert [(each.number, each.to) for each in sent(core, Propose)] == [(number, PEER)]


def test_without_a_leader_a_proposal_waits() -> None:
    core = core_of()
    own(core)

    place_waiting(core)
    ask_again(core)

    assert core.outbox.messages == []


@pytest.mark.parametrize(("asked", "waits"), [(1, True), (0, False)])
def test_a_refusal_counts_for_the_attempt_that_it_answers(asked: int, waits: bool) -> None:
    core = follower_of()
    number = own(core)
    place_waiting(core)
    sent(core, Propose)

    on_propose_answer(
        core,
        ProposeAnswer(
            sender=PEER,
            to=ME,
            cluster_id="c",
            term=Term(1),
            number=number,
            asked=Term(asked),
            block_id=None,
        ),
    )
    place_waiting(core)

    assert bool(sent(core, Propose)) is waits  # fmt: skip


def test_a_proposal_whose_block_was_overtaken_is_dead() -> None:
    core = follower_of()
    number = own(core)
    place_waiting(core)
    core.chain.grow(run_of(core.chain.head, 1, 1)[0])
    core.chain.advance_commit(Height(1))

    on_propose_answer(core, ProposeAnswer(sender=THIRD, to=ME, cluster_id="c", term=Term(1),
                                          number=number, asked=Term(1),
                                          block_id=BlockId(Term(0), Height(1))))  # fmt: skip

    (outcome,) = core.requests.proposals.outcomes
    assert (outcome.number, outcome.result.name) == (number, "DEAD")


def test_reads_go_to_the_leader_as_one_request_and_only_a_leader_serves_them() -> None:
    core = follower_of()
    core.requests.reads.add(FAR_MS)
    core.requests.reads.add(FAR_MS)

    send_reads(core)
    send_reads(core)

    assert [each.to for each in sent(core, ReadRequest)] == [PEER]
    request = ReadRequest(sender=NodeId(3), to=ME, cluster_id="c", term=Term(1), number=1)
    on_read_request(core, request)
    assert not core.requests.reads.has_queued
    leader = leader_of()
    on_read_request(leader, request)
    assert leader.requests.reads.has_queued
