"""Work for the host: bounded messages, and blocks applied once, in order, when they are durable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.block import Block, BlockKind, make_block
from raft.chain import Chain
from raft.config import Config
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import Members
from raft.messages import Message, Propose, ReadRequest, SnapshotChunk
from raft.outbox import Outbox
from raft.ready import Ready
from raft.state import Snapshot, State

ME, PEER, THIRD = NodeId(1), NodeId(2), NodeId(3)


def outbox(**overrides: int) -> Outbox:
    return Outbox(State(), None, Config(node_id=ME, **overrides))


def take(box: Outbox, state: State | None = None) -> Ready:
    return box.take(state=state or State(), removed=(), committed=(), outcomes=(), reads=())


def chain_of(count: int) -> tuple[Chain, list[Block]]:
    blocks, parent = [], GENESIS
    for _ in range(count):
        blocks.append(make_block(parent, Term(1), BlockKind.DATA, b"data"))
        parent = blocks[-1].id
    chain = Chain.restore(root=GENESIS, head=GENESIS, commit=GENESIS, blocks=())
    for block in blocks:
        chain.grow(block)
    return chain, blocks


def read(number: int, to: NodeId = PEER) -> Message:
    return ReadRequest(sender=ME, to=to, cluster_id="c", term=Term(1), number=number)


def chunk(size: int) -> Message:
    return SnapshotChunk(
        sender=ME, to=PEER, cluster_id="c", term=Term(1), last=GENESIS, offset=0, done=False,
        members=Members(voters=frozenset()), data=b"x" * size, round=0,
    )  # fmt: skip


@given(st.lists(st.sampled_from([PEER, THIRD]), max_size=60), st.integers(2, 9))
def test_waiting_messages_are_bounded_per_peer_and_the_newest_stay_in_order(peers, most) -> None:
    box = outbox(waiting_max=most)
    take(box)

    for number, peer in enumerate(peers):
        box.add_message(read(number, peer))

    for peer in (PEER, THIRD):
        sent = [number for number, to in enumerate(peers) if to == peer]
        kept = [m.number for m in box.messages if isinstance(m, ReadRequest) and m.to == peer]
        assert len(kept) <= most
        assert kept == sent[len(sent) - len(kept) :]
        assert len(kept) >= min(len(sent), max(1, most // 2))


def test_many_messages_of_one_kind_push_out_none_of_another() -> None:
    box = outbox(waiting_max=4)
    take(box)
    vote = Propose(sender=ME, to=PEER, cluster_id="c", term=Term(1), number=1, payload=b"p")
    box.add_message(vote)

    for number in range(50):
        box.add_message(read(number))

    assert vote in box.messages


def test_chunks_are_bounded_by_their_bytes_and_the_newest_is_kept_whatever_its_size() -> None:
    box = outbox(waiting_bytes_max=100)
    take(box)

    for size in (40, 40, 40, 500):
        box.add_message(chunk(size))

    assert [len(m.data) for m in box.messages if isinstance(m, SnapshotChunk)] == [500]


def test_messages_that_wait_for_no_disk_are_all_sent() -> None:
    box = outbox(waiting_max=2)

    for number in range(9):
        box.add_message(read(number))

    assert len(take(box).messages) == 9
    assert box.messages == []


def test_a_block_is_applied_only_when_it_is_durable_here() -> None:
    chain, blocks = chain_of(3)
    box = outbox()
    box.add_blocks(blocks[:2])
    chain.advance_commit(Height(3))

    assert box.applicable(chain) == ()
    take(box)
    assert box.applicable(chain) == ()
    box.done()
    assert box.applicable(chain) == tuple(blocks)
    assert box.applicable(chain) == ()
    assert (box.applied, box.applied_bytes) == (blocks[2].id, 12)


def test_a_long_chain_is_applied_in_steps() -> None:
    chain, blocks = chain_of(5)
    box = outbox(apply_blocks_max=2)
    chain.advance_commit(Height(5))

    steps = [box.applicable(chain) for _ in range(4)]

    assert [len(step) for step in steps] == [2, 2, 1, 0]
    assert [block for step in steps for block in step] == blocks


@pytest.mark.parametrize(
    ("state", "must_sync"),
    [
        (State(term=Term(2)), True),
        (State(vote=PEER), True),
        (State(commit=BlockId(Term(1), Height(1))), False),
    ],
)
def test_only_what_answers_promise_must_be_synced(state: State, must_sync: bool) -> None:
    ready = take(outbox(), state)

    assert ready.batch is not None
    assert ready.batch.must_sync is must_sync


def test_without_news_there_is_no_batch_and_no_work() -> None:
    chain, _ = chain_of(1)
    box = outbox()

    assert not box.has_work(State(), chain)
    assert take(box).batch is None


def test_a_snapshot_replaces_blocks_that_were_not_written_yet() -> None:
    _, blocks = chain_of(3)
    box = outbox()
    box.add_blocks(blocks)
    last = BlockId(Term(1), Height(9))
    snapshot = Snapshot(last=last, cluster_id="c", members=Members(voters=frozenset()), data=b"s")

    box.install(snapshot, [blocks[2].id])
    ready = take(box)

    assert ready.installed == snapshot
    assert ready.batch is not None
    assert (ready.batch.blocks, ready.batch.removed) == ((), (blocks[2].id,))
    assert (ready.batch.snapshot, ready.batch.must_sync) == (snapshot, True)
    assert (box.applied, box.unsynced) == (last, set())


def test_a_block_that_comes_again_is_not_removed() -> None:
    _, blocks = chain_of(1)
    box = outbox()
    last = BlockId(Term(1), Height(9))
    snapshot = Snapshot(last=last, cluster_id="c", members=Members(voters=frozenset()), data=b"s")
    box.install(snapshot, [blocks[0].id])

    box.add_blocks(blocks)

    batch = take(box).batch
    assert batch is not None
    assert (batch.removed, batch.blocks) == ((), tuple(blocks))
