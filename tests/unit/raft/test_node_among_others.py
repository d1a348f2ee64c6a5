"""One node of three, spoken to message by message: votes, appends, commits, as the paper says."""

from random import Random
from typing import Any, TypeVar

import pytest

from raft import (
    GENESIS,
    Block,
    BlockFile,
    BlockId,
    BlockKind,
    Config,
    CorruptBlock,
    Height,
    Members,
    MemoryFiles,
    Message,
    Node,
    NodeId,
    Ready,
    Refused,
    Role,
    Term,
    WrongCluster,
)
from raft.block import make_block
from raft.members import encode_members
from raft.messages import (
    Append,
    AppendAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)

ME, PEER, THIRD = NodeId(1), NodeId(2), NodeId(3)
ALL = (ME, PEER, THIRD)
TIMEOUT_MS = 1000
M = TypeVar("M", bound=Message)


class One:
    """The node under test, its disk, and what it said."""

    def __init__(self, files: MemoryFiles | None = None, **overrides: Any) -> None:
        self.files = files or MemoryFiles()
        values: dict[str, Any] = {"node_id": ME, "initial_voters": ALL, "cluster_id": "c"}
        self.store, recovered = BlockFile.open(self.files, ME)
        self.node = Node(Config(**values | overrides), recovered, now_ms=0, rng=Random(1))
        self.now_ms = 0
        self.applied: list[Block] = []
        self.said: list[Message] = []

    def do(self, ready: Ready) -> None:
        if ready.batch is not None:
            self.store.persist(ready.batch)
        self.applied += ready.committed
        self.said += ready.messages
        self.node.advance()

    def work(self) -> list[Message]:
        """Everything that is ready; the messages it led to."""
        self.said = []
        while self.node.has_ready():
            self.do(self.node.ready())
        return self.said

    def hear(self, kind: type[Message], sender: NodeId = PEER, **fields: Any) -> list[Message]:
        fields = {"term": Term(1), "cluster_id": "c", **fields}
        self.node.step(kind(sender=sender, to=ME, **fields), self.now_ms)
        return self.work()

    def at(self, now_ms: int) -> list[Message]:
        self.now_ms = now_ms
        self.node.tick(now_ms)
        return self.work()

    def append(self, blocks: list[Block], **fields: Any) -> AppendAnswer:
        parent = fields.pop("parent", blocks[0].parent if blocks else GENESIS)
        fields = {"commit": GENESIS, "round": 0, **fields}
        said = self.hear(Append, parent=parent, blocks=tuple(blocks), **fields)
        return only(said, AppendAnswer)

    def elect(self) -> BlockId:
        """Make it the leader of a new term, by the third node's votes; return its first block."""
        self.at(self.now_ms + 3 * TIMEOUT_MS)
        self.hear(VoteAnswer, THIRD, term=Term(self.term + 1), pre=True, granted=True)
        self.hear(VoteAnswer, THIRD, term=Term(self.term), pre=False, granted=True)
        assert self.node.status().role is Role.LEADER
        return self.node.status().head

    def acknowledge(self, last: BlockId, sender: NodeId = THIRD) -> list[Message]:
        return self.hear(
            AppendAnswer, sender, term=Term(self.term), accepted=True, last=last, hint=last, round=0
        )

    @property
    def term(self) -> Term:
        return self.node.status().term

    @property
    def commit(self) -> BlockId:
        return self.node.status().commit


def only(messages: list[Message], kind: type[M]) -> M:
    (found,) = (message for message in messages if isinstance(message, kind))
    return found


def run_of(parent: BlockId, term: int, count: int) -> list[Block]:
    blocks: list[Block] = []
    for _ in range(count):
        blocks.append(make_block(parent, Term(term), BlockKind.DATA, b"d"))
        parent = blocks[-1].id
    return blocks


# -- votes (5.2, 5.4.1)


def ask(one: One, term: int, head: BlockId, sender: NodeId = PEER, **fields: Any) -> bool:
    fields = {"pre": False, **fields}
    said = one.hear(VoteRequest, sender, term=Term(term), head=head, **fields)
    return only(said, VoteAnswer).granted


def test_a_vote_is_refused_to_a_candidate_that_is_behind() -> None:
    """Checklist row 7."""
    one = One()
    blocks = run_of(GENESIS, 1, 3)
    one.append(blocks)
    one.now_ms = 5 * TIMEOUT_MS

    assert not ask(one, 2, blocks[1].id)
    assert not ask(one, 3, GENESIS)
    assert ask(one, 4, blocks[2].id)
    assert ask(one, 5, BlockId(Term(4), Height(1)))  # a newer last term wins over length


def test_a_node_votes_once_per_term_also_after_a_loss_of_power() -> None:
    """Checklist row 6."""
    one = One()
    assert ask(one, 5, GENESIS, PEER)

    again = One(one.files.crash())

    assert not ask(again, 5, GENESIS, THIRD)
    assert ask(again, 5, GENESIS, PEER)  # the same candidate may ask again
    assert ask(again, 6, GENESIS, THIRD)


def test_a_vote_leaves_only_with_a_batch_that_is_synced() -> None:
    """Checklist row 6."""
    one = One()
    request = VoteRequest(sender=PEER, to=ME, term=Term(7), cluster_id="", head=GENESIS, pre=False)
    one.node.step(request, 0)

    ready = one.node.ready()

    assert ready.batch is not None
    assert ready.batch.must_sync
    assert (ready.batch.state.term, ready.batch.state.vote) == (7, PEER)


def test_a_pre_vote_changes_neither_term_nor_vote() -> None:
    one = One()

    assert ask(one, 9, GENESIS, pre=True)

    assert one.term == 0
    assert not one.node.has_ready()
    assert ask(one, 1, GENESIS, THIRD)


def test_who_hears_a_leader_refuses_pre_votes_and_ignores_candidates() -> None:
    one = One()
    one.append([])

    assert not ask(one, 10, BlockId(Term(9), Height(9)), THIRD, pre=True)
    head = BlockId(Term(9), Height(9))
    assert one.hear(VoteRequest, THIRD, term=Term(10), head=head, pre=False) == []
    one.now_ms = TIMEOUT_MS
    assert ask(one, 10, BlockId(Term(9), Height(9)), THIRD, pre=True)


def test_no_election_without_a_majority_of_pre_votes() -> None:
    one = One()

    for now_ms in range(0, 20 * TIMEOUT_MS, 100):
        one.at(now_ms)

    assert one.term == 0
    assert one.node.status().role is Role.PRE_CANDIDATE


def test_a_refused_candidate_follows_again() -> None:
    one = One()
    one.at(3 * TIMEOUT_MS)

    for sender in (PEER, THIRD):
        one.hear(VoteAnswer, sender, term=Term(0), pre=True, granted=False)

    assert one.node.status().role is Role.FOLLOWER


def test_an_elected_leader_appends_at_once() -> None:
    """5.4.2: its first block is the one that commits what came before. Checklist row 7."""
    one = One()
    first = one.elect()

    assert one.node.chain.block(first).kind is BlockKind.BIRTH
    assert first.term == one.term


def test_a_second_leader_in_one_term_is_not_followed() -> None:
    """Checklist row 15."""
    one = One()
    one.append([])

    with pytest.raises(CorruptBlock, match="2 and 3 both lead term 1"):
        one.hear(Append, THIRD, parent=GENESIS, blocks=(), commit=GENESIS, round=0)

    assert one.node.status().leader == PEER


def test_a_leader_that_hears_no_majority_steps_down() -> None:
    """Check-quorum, thesis 6.2. Checklist rows 4 and 15."""
    one = One()
    one.elect()

    one.at(one.now_ms + TIMEOUT_MS)
    one.at(one.now_ms + TIMEOUT_MS)

    assert one.node.status().role is Role.FOLLOWER
    assert one.node.status().leader is None


# -- appends (5.3)


def test_an_append_is_acknowledged_up_to_its_last_block_only() -> None:
    one = One()
    blocks = run_of(GENESIS, 1, 5)
    one.append(blocks)

    answer = one.append(blocks[:2])

    assert (answer.accepted, answer.last) == (True, blocks[1].id)
    assert one.node.status().head == blocks[4].id, "a late duplicate takes nothing back"


def test_an_append_without_its_parent_is_rejected_with_a_hint() -> None:
    one = One()
    have = run_of(GENESIS, 1, 3)
    one.append(have)
    parent = BlockId(Term(2), Height(9))

    answer = one.append([make_block(parent, Term(2), BlockKind.DATA, b"")], term=Term(2))

    assert (answer.accepted, answer.last, answer.hint) == (False, parent, have[2].id)


def test_an_append_of_an_old_term_is_refused_with_the_newer_term() -> None:
    """Checklist rows 3 and 15."""
    one = One()
    ask(one, 5, GENESIS)

    answer = one.append(run_of(GENESIS, 1, 1), term=Term(4))

    assert (answer.accepted, answer.term) == (False, 5)
    assert one.node.status().head == GENESIS


def test_a_new_leaders_branch_is_followed_and_the_old_one_is_dead_after_commit() -> None:
    """Checklist rows 3 and 4."""
    one = One()
    old = run_of(GENESIS, 1, 4)
    one.append(old)
    new = run_of(old[0].id, 2, 2)

    one.append(new, term=Term(2), commit=new[1].id)

    assert one.node.status().head == one.commit == new[1].id
    assert [block.id for block in one.applied] == [old[0].id, new[0].id, new[1].id]
    assert {block.id for block in one.node.chain} == {old[0].id, new[0].id, new[1].id}


def test_a_follower_commits_no_further_than_the_message_reaches() -> None:
    one = One()
    old = run_of(GENESIS, 1, 4)
    one.append(old)

    one.append([], parent=old[0].id, term=Term(2), commit=BlockId(Term(2), Height(3)))

    assert one.commit == old[0].id


def test_a_follower_applies_only_what_is_durable_here() -> None:
    one = One()
    blocks = run_of(GENESIS, 1, 2)
    append = Append(
        sender=PEER, to=ME, term=Term(1), cluster_id="", parent=GENESIS, blocks=tuple(blocks),
        commit=blocks[1].id, round=0,
    )  # fmt: skip
    one.node.step(append, 0)

    first = one.node.ready()

    assert first.batch is not None
    assert (first.batch.blocks, first.committed) == (tuple(blocks), ())
    one.do(first)
    assert one.node.ready().committed == tuple(blocks)


def test_a_damaged_block_is_refused_and_changes_nothing() -> None:
    """Checklist row 5."""
    one = One()
    (good,) = run_of(GENESIS, 1, 1)
    bad = Block(id=good.id, parent=good.parent, kind=good.kind, payload=b"x", checksum=1)

    with pytest.raises(CorruptBlock, match="checksum"):
        one.append([bad])

    assert one.append([good]).accepted


def test_messages_of_another_cluster_are_refused() -> None:
    one = One()
    members = encode_members(Members(voters=frozenset(ALL)), "ours")
    birth = make_block(GENESIS, Term(1), BlockKind.BIRTH, members)
    one.append([birth], cluster_id="", commit=birth.id)

    foreign = {"parent": birth.id, "blocks": (), "commit": birth.id, "round": 0}
    with pytest.raises(WrongCluster, match="cluster 'theirs'; this is 'ours'"):
        one.hear(Append, cluster_id="theirs", **foreign)
    assert one.work() == []

    assert only(one.hear(Append, cluster_id="ours", **foreign), AppendAnswer).accepted


# -- commits (5.4.2)


def test_a_leader_commits_only_through_a_block_of_its_own_term() -> None:
    """The paper's figure 8. Checklist row 7."""
    one = One()
    old = run_of(GENESIS, 1, 3)
    one.append(old)
    first = one.elect()

    one.acknowledge(old[2].id)
    assert one.commit == GENESIS
    one.acknowledge(first)

    assert one.commit == first
    assert [block.id for block in one.applied] == [*(block.id for block in old), first]


def test_a_leaders_own_copy_counts_only_when_it_is_durable() -> None:
    one = One()
    first = one.elect()
    one.acknowledge(first)
    one.node.propose(b"d", one.now_ms, one.now_ms + 10_000)
    slow_disk = one.node.ready()
    assert slow_disk.batch is not None
    block = slow_disk.batch.state.head

    answer = AppendAnswer(
        sender=THIRD, to=ME, term=one.term, cluster_id="c", accepted=True, last=block, hint=block,
        round=0,
    )  # fmt: skip
    one.node.step(answer, one.now_ms)
    assert one.commit == first
    one.do(slow_disk)

    assert one.commit == block


def test_a_rejecting_follower_is_probed_where_the_chains_can_meet() -> None:
    one = One()
    old = run_of(GENESIS, 1, 3)
    one.append(old)
    first = one.elect()

    said = one.hear(
        AppendAnswer, PEER, term=one.term, accepted=False, last=old[2].id, hint=old[0].id, round=0
    )

    append = only(said, Append)
    assert append.parent == old[0].id
    assert append.last == first


def test_a_follower_below_the_root_gets_the_snapshot_in_chunks() -> None:
    """Section 7. Checklist row 9."""
    one = One(snapshot_chunk_bytes=4, tail_blocks_max=0)
    first = one.elect()
    one.acknowledge(first)
    one.node.compact(b"0123456")
    one.work()

    said = one.hear(
        AppendAnswer, PEER, term=one.term, accepted=False, last=GENESIS, hint=GENESIS, round=0
    )
    chunk = only(said, SnapshotChunk)
    assert (chunk.last, chunk.offset, chunk.data, chunk.done) == (first, 0, b"0123", False)
    said = one.hear(
        SnapshotAnswer, PEER, term=one.term, last=first, next_offset=4, done=False, round=0
    )
    chunk = only(said, SnapshotChunk)
    assert (chunk.offset, chunk.data, chunk.done) == (4, b"456", True)


def test_a_snapshot_in_chunks_replaces_chain_and_state_machine() -> None:
    """Checklist row 9."""
    one = One()
    one.append(run_of(GENESIS, 1, 3))
    last = BlockId(Term(2), Height(50))
    chunk = {
        "term": Term(2), "last": last, "members": Members(voters=frozenset(ALL)), "round": 0,
    }  # fmt: skip

    first = only(one.hear(SnapshotChunk, offset=0, data=b"ab", done=False, **chunk), SnapshotAnswer)
    one.node.step(
        SnapshotChunk(sender=PEER, to=ME, cluster_id="c", offset=2, data=b"c", done=True, **chunk),
        0,
    )
    ready = one.node.ready()

    assert (first.next_offset, first.done) == (2, False)
    assert ready.installed is not None
    assert (ready.installed.data, ready.installed.last) == (b"abc", last)
    one.do(ready)
    status = one.node.status()
    assert status.root == status.commit == status.head == status.applied == last
    assert One(one.files.crash()).node.status().root == last


# -- operations


def test_leadership_is_handed_to_a_voter_that_is_up_to_date() -> None:
    """Thesis 3.10."""
    one = One()
    first = one.elect()
    one.node.transfer_leadership(PEER, one.now_ms)
    assert not any(isinstance(message, TakeOver) for message in one.work())

    said = one.acknowledge(first, PEER)

    assert only(said, TakeOver).to == PEER
    waiting = one.node.propose(b"d", one.now_ms, one.now_ms + 10_000)
    assert waiting.number
    assert one.node.status().head == first, "proposals wait while leadership moves"


def test_take_over_starts_an_election_that_live_followers_do_not_refuse() -> None:
    one = One()
    one.append([])

    requests = [m for m in one.hear(TakeOver) if isinstance(m, VoteRequest)]

    assert {(m.to, m.pre, m.forced, m.term) for m in requests} == {
        (PEER, False, True, 2),
        (THIRD, False, True, 2),
    }


def test_members_change_one_voter_at_a_time_and_one_change_at_a_time() -> None:
    """Thesis 4.1. Checklist row 16."""
    one = One()
    change = Members(voters=frozenset({ME, PEER}))
    with pytest.raises(Refused, match="only the leader"):
        one.node.change_members(change, 0, 10_000)
    first = one.elect()
    with pytest.raises(Refused, match="not committed"):
        one.node.change_members(change, one.now_ms, one.now_ms + 10_000)
    one.acknowledge(first)

    with pytest.raises(Refused, match="one voter"):
        one.node.change_members(Members(voters=frozenset({ME})), one.now_ms, one.now_ms + 1)
    one.node.change_members(change, one.now_ms, one.now_ms + 10_000)

    assert one.node.status().members == change, "in force as soon as it is in the chain"
    with pytest.raises(Refused, match="not committed"):
        one.node.change_members(change, one.now_ms, one.now_ms + 10_000)


def test_a_read_is_confirmed_by_a_majority_that_answers_a_later_round() -> None:
    """Section 8, thesis 6.4."""
    one = One()
    first = one.elect()
    one.acknowledge(first)
    number = one.node.read_index(one.now_ms)
    asked = [m for m in one.work() if isinstance(m, Append)]
    round_ = asked[0].round

    def answer(answered: int) -> None:
        message = AppendAnswer(
            sender=THIRD, to=ME, term=one.term, cluster_id="c", accepted=True, last=first,
            hint=first, round=answered,
        )  # fmt: skip
        one.node.step(message, one.now_ms)

    answer(round_ - 1)
    assert one.node.ready().reads == ()
    one.node.advance()
    answer(round_)
    assert [(read.number, read.commit) for read in one.node.ready().reads] == [(number, first)]
