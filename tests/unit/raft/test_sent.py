"""A proposal sent to a leader that is gone ends when the chain tells, not at its deadline.

The node under test is a follower; the test speaks as the leaders of its terms. Every proposal has
a deadline so far away that only the chain can end it.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft import (
    GENESIS,
    Block,
    BlockId,
    BlockKind,
    Height,
    Members,
    NodeId,
    Outcome,
    Ready,
    Result,
    Term,
)
from raft.block import make_block
from raft.messages import Propose, ProposeAnswer, SnapshotChunk
from raft.sent import Sent
from tests.unit.raft.test_node_among_others import ALL, PEER, THIRD, One

FAR_MS = 1_000_000


class Proposer(One):
    """... with what its clients were told."""

    def __init__(self, **overrides: int) -> None:
        super().__init__(**overrides)
        self.told: list[Outcome] = []

    def do(self, ready: Ready) -> None:
        self.told += ready.outcomes
        super().do(ready)

    def follow(self, *blocks: Block, leader: NodeId = PEER, parent: BlockId | None = None) -> None:
        """The leader of the last block's term sends these, committed."""
        at = parent if parent is not None else blocks[0].parent
        last = blocks[-1].id
        self.append(list(blocks), parent=at, sender=leader, term=last.term, commit=last)

    def propose(self, payload: bytes) -> int:
        number = self.node.propose(payload, self.now_ms, self.now_ms + FAR_MS).number
        self.work()
        return number

    def answer(
        self, number: int, block_id: BlockId | None, *, asked: int = 1, term: int = 1
    ) -> None:
        self.hear(
            ProposeAnswer, term=Term(term), number=number, asked=Term(asked), block_id=block_id
        )

    @property
    def results(self) -> list[tuple[int, Result]]:
        return [(outcome.number, outcome.result) for outcome in self.told]


def data(parent: BlockId, term: int, payload: bytes) -> Block:
    return make_block(parent, Term(term), BlockKind.DATA, payload)


def empty(parent: BlockId, term: int) -> Block:
    return make_block(parent, Term(term), BlockKind.EMPTY, b"")


FIRST = empty(GENESIS, 1)
NEXT = empty(FIRST.id, 2)
"""The first block of a new leader, which knows of nothing behind FIRST."""


@pytest.fixture
def one() -> Proposer:
    """It follows the leader of term 1, node 2."""
    one = Proposer()
    one.follow(FIRST)
    return one


def test_it_is_dead_when_a_later_term_commits_and_no_block_of_its_own_had_its_payload(
    one: Proposer,
) -> None:
    """Checklist row 11."""
    number = one.propose(b"mine")
    other = data(FIRST.id, 1, b"another's")
    one.follow(other)
    assert one.told == []

    one.follow(empty(other.id, 2), leader=THIRD)

    assert one.told == [Outcome(number=number, result=Result.DEAD, block_id=None)]


def test_it_is_unknown_when_a_block_of_its_term_had_the_same_payload(one: Proposer) -> None:
    """Two clients say the same, one of the two is in the chain: nobody can tell whose it is."""
    twins = [one.propose(b"same"), one.propose(b"same")]
    block = data(FIRST.id, 1, b"same")

    one.follow(block, empty(block.id, 2), leader=THIRD)

    assert one.results == [(number, Result.UNKNOWN) for number in twins]


def test_the_same_payload_in_a_block_of_another_term_is_not_it(one: Proposer) -> None:
    number = one.propose(b"same")
    before = data(NEXT.id, 2, b"same")

    one.follow(NEXT, before, leader=THIRD)

    assert one.results == [(number, Result.DEAD)]


def test_the_same_payload_in_a_block_of_an_older_term_is_not_it(one: Proposer) -> None:
    """Sent to the leader of term 2, while a block of term 1 is not committed yet."""
    before = data(FIRST.id, 1, b"same")
    one.append([before])
    new = empty(before.id, 2)
    one.append([new], sender=THIRD, term=Term(2))
    number = one.propose(b"same")

    one.follow(new, leader=THIRD)
    one.follow(empty(new.id, 3))

    assert one.results == [(number, Result.DEAD)]


def test_a_block_that_is_only_there_ends_nothing_until_it_is_committed(one: Proposer) -> None:
    one.propose(b"mine")

    one.append([NEXT], sender=THIRD, term=Term(2))

    assert one.told == []


@pytest.mark.parametrize("is_on_path", [True, False])
def test_a_late_answer_of_the_old_leader_still_tells_the_truth(
    one: Proposer, is_on_path: bool
) -> None:
    """The voters went on to term 2, which commits nothing yet; then the answer arrives."""
    number = one.propose(b"mine")
    block = data(FIRST.id, 1, b"mine")
    if is_on_path:
        one.append([block], commit=FIRST.id)
    one.append([], parent=FIRST.id, sender=THIRD, term=Term(2))

    one.answer(number, block.id)
    assert one.told == []
    one.follow(empty(block.id if is_on_path else FIRST.id, 2), leader=THIRD)

    result = Result.COMMITTED if is_on_path else Result.DEAD
    assert one.told == [Outcome(number=number, result=result, block_id=block.id)]


def test_an_answer_after_the_end_and_its_duplicate_change_nothing(one: Proposer) -> None:
    number = one.propose(b"mine")
    one.follow(NEXT, leader=THIRD)
    assert one.results == [(number, Result.DEAD)]

    for _ in range(2):
        one.answer(number, BlockId(Term(1), Height(2)))
        one.answer(number, None)
    one.follow(empty(NEXT.id, 3))

    assert one.results == [(number, Result.DEAD)]
    assert one.node._core.requests.proposals.placed_blocks() == []


def test_an_answer_given_in_a_later_term_counts_too(one: Proposer) -> None:
    """The old leader is a follower now, and remembers what it did."""
    number = one.propose(b"mine")
    block = data(FIRST.id, 1, b"mine")
    one.append([block, empty(block.id, 2)], sender=THIRD, term=Term(2))

    one.answer(number, block.id, term=2)
    one.follow(empty(block.id, 2), leader=THIRD)

    assert one.results == [(number, Result.COMMITTED)]


def test_one_that_was_refused_and_sent_again_ends_with_the_term_it_was_sent_again_in(
    one: Proposer,
) -> None:
    number = one.propose(b"mine")
    one.answer(number, None)
    one.append([NEXT], sender=THIRD, term=Term(2))  # a sign of the new leader
    assert [m.term for m in one.said if isinstance(m, Propose)] == [2]

    one.follow(NEXT, leader=THIRD)
    assert one.told == [], "that is the very term of the new attempt"
    one.follow(empty(NEXT.id, 3))

    assert one.results == [(number, Result.DEAD)]


def test_a_block_of_an_earlier_term_is_dead_though_the_commit_is_below_it(one: Proposer) -> None:
    """The old leader said it is block 1:9; the new one has committed 2:2."""
    number = one.propose(b"mine")
    one.answer(number, BlockId(Term(1), Height(9)))

    one.follow(NEXT, leader=THIRD)

    assert one.results == [(number, Result.DEAD)]


# -- snapshots


def install(one: Proposer, last: BlockId) -> None:
    """By the leader of the snapshot's term, or by the one it follows in a later one."""
    leader = THIRD if last.term > one.term else one.node.status().leader or THIRD
    one.hear(
        SnapshotChunk, leader, term=Term(max(last.term, one.term)), last=last,
        members=Members(voters=frozenset(ALL)), offset=0, data=b"state", done=True, round=0,
    )  # fmt: skip


def test_a_snapshot_of_a_later_term_hides_whether_it_was_committed(one: Proposer) -> None:
    number = one.propose(b"mine")

    install(one, BlockId(Term(2), Height(50)))

    assert one.results == [(number, Result.UNKNOWN)]


def test_a_snapshot_of_its_own_term_leaves_it_open_and_in_doubt(one: Proposer) -> None:
    number = one.propose(b"mine")
    last = BlockId(Term(1), Height(50))

    install(one, last)
    assert one.told == []
    one.follow(empty(last, 2))

    assert one.results == [(number, Result.UNKNOWN)]


def test_a_snapshot_of_an_earlier_term_hides_nothing_of_it(one: Proposer) -> None:
    one.append([], parent=FIRST.id, sender=THIRD, term=Term(2))
    number = one.propose(b"mine")  # sent in term 2
    last = BlockId(Term(1), Height(50))

    install(one, last)
    one.follow(empty(last, 3))

    assert one.results == [(number, Result.DEAD)]


@pytest.mark.parametrize(
    ("block", "last", "result"),
    [
        ("1:4", "2:9", Result.UNKNOWN),
        ("2:9", "2:9", Result.COMMITTED),
        ("1:9", "2:9", Result.DEAD),
        ("3:4", "2:9", Result.DEAD),
    ],
)
def test_of_a_block_below_a_snapshot_is_told_what_is_sure(
    one: Proposer, block: str, last: str, result: Result
) -> None:
    """One block at each height of a path, and terms do not fall along it."""

    def id_(text: str) -> BlockId:
        term, height = text.split(":")
        return BlockId(Term(int(term)), Height(int(height)))

    asked = id_(block).term
    one.append([], parent=FIRST.id, term=asked)
    number = one.propose(b"mine")
    one.answer(number, id_(block), asked=asked, term=asked)

    install(one, id_(last))

    assert one.told == [Outcome(number=number, result=result, block_id=id_(block))]


@pytest.mark.parametrize("tail_blocks_max", [100, 0])
@pytest.mark.parametrize("is_it", [True, False])
def test_an_answer_overtaken_by_our_own_snapshot_is_looked_up_in_the_tail(
    tail_blocks_max: int, is_it: bool
) -> None:
    one = Proposer(tail_blocks_max=tail_blocks_max)
    one.follow(FIRST)
    number = one.propose(b"mine")
    block = data(FIRST.id, 1, b"mine")
    one.follow(block, data(block.id, 1, b"more"))
    one.node.compact(b"state")

    asked = block.id if is_it else BlockId(Term(0), Height(2))
    one.answer(number, asked, asked=asked.term)

    known = Result.COMMITTED if is_it else Result.DEAD
    assert one.results == [(number, known if tail_blocks_max else Result.UNKNOWN)]


def _asked(node: Proposer) -> list[int]:
    return [each.number for each in node.said if isinstance(each, Propose)]


def test_proposal_without_an_answer_is_sent_again_to_the_leader_of_its_term() -> None:
    node = Proposer()
    block = make_block(GENESIS, Term(1), BlockKind.DATA, b"first")
    node.follow(block)
    number = node.propose(b"lost")
    assert _asked(node) == [number]

    node.now_ms += 999  # less than an election timeout
    node.follow(block, parent=GENESIS)
    node.at(node.now_ms)
    assert _asked(node) == []
    assert node.node.wake_at_ms() == node.now_ms + 1
    node.at(node.now_ms + 1)
    assert _asked(node) == [number]
    node.follow(block, parent=GENESIS)
    node.at(node.now_ms + 1_000)
    assert _asked(node) == [number]


def test_answered_proposal_is_not_sent_again() -> None:
    node = Proposer()
    block = make_block(GENESIS, Term(1), BlockKind.DATA, b"first")
    node.follow(block)
    number = node.propose(b"heard")
    node.answer(number, BlockId(Term(1), Height(2)))

    for _ in range(3):
        node.follow(block, parent=GENESIS)
        node.at(node.now_ms + 1_000)
        assert _asked(node) == []


def test_attempt_of_an_earlier_term_is_not_sent_to_the_next_leader() -> None:
    """It may be in the path already: two blocks would be made of it."""
    node = Proposer()
    node.follow(make_block(GENESIS, Term(1), BlockKind.DATA, b"first"))
    node.propose(b"lost")
    node.append([], parent=BlockId(Term(1), Height(1)), sender=THIRD, term=Term(2))

    node.at(node.now_ms + 1_000)

    assert _asked(node) == []


# -- the record of what was sent, by itself


@given(st.lists(st.integers(0, 40), max_size=12), st.data())
def test_each_open_proposal_is_sent_again_once_when_it_is_due(steps, data) -> None:
    sent, now_ms, open_ = Sent(), 0, {}
    for number, wait_ms in enumerate(steps):
        now_ms += wait_ms
        sent.add(number, b"p", Term(1), now_ms + 50)
        open_[number] = now_ms + 50
        if data.draw(st.booleans()):
            gone = data.draw(st.sampled_from(sorted(open_)))
            sent.remove(gone)
            del open_[gone]
        due = [each for each in sorted(open_) if open_[each] <= now_ms]
        assert sorted(n for n, _ in sent.take_due(now_ms, now_ms + 50, Term(1))) == due
        open_ |= dict.fromkeys(due, now_ms + 50)

    assert len(sent) == len(open_)
    assert sent.next_due_ms() == min(open_.values(), default=None)


def test_a_block_of_a_later_term_ends_the_attempts_of_earlier_ones() -> None:
    sent = Sent()
    sent.add(1, b"a", Term(1), 50)
    sent.add(2, b"b", Term(1), 50)
    sent.add(3, b"a", Term(2), 50)
    first = make_block(GENESIS, Term(1), BlockKind.DATA, b"a")

    assert sent.applied(first) == []
    assert sent.applied(make_block(first.id, Term(2), BlockKind.EMPTY, b"")) == [
        (1, True), (2, False),
    ]  # fmt: skip


def test_after_a_snapshot_each_attempt_up_to_its_term_may_be_committed() -> None:
    sent = Sent()
    sent.add(1, b"a", Term(1), 50)
    sent.add(2, b"b", Term(2), 50)

    assert sent.hidden(BlockId(Term(2), Height(9))) == [(1, True)]
    assert sent.applied(make_block(BlockId(Term(2), Height(9)), Term(3), BlockKind.EMPTY, b"")) == [
        (1, True), (2, True),
    ]  # fmt: skip


def test_a_proposal_of_an_earlier_term_has_no_leader_to_ask() -> None:
    sent = Sent()
    sent.add(1, b"a", Term(1), 50)

    assert sent.take_due(50, 90, Term(2)) == []
    assert sent.was_sent_in(1, Term(1))
    assert not sent.was_sent_in(1, Term(2))
