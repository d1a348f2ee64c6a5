"""Behind a snapshot: the blocks that memory keeps, what a host may count on, what bounds it."""

from random import Random

import pytest

from raft import GENESIS, Block, BlockId, BlockKind, Config, Message, Node, NodeId, Refused, Term
from raft.block import make_block
from raft.ids import Height
from raft.messages import Append, AppendAnswer, SnapshotChunk
from raft.tail import Tail
from tests.bench.raft_group import Group

IDS = tuple(NodeId(number) for number in (1, 2, 3))


def run_of(count: int, payload: bytes = b"d", term: int = 1) -> list[Block]:
    blocks: list[Block] = []
    parent = GENESIS
    for _ in range(count):
        blocks.append(make_block(parent, Term(term), BlockKind.DATA, payload))
        parent = blocks[-1].id
    return blocks


def test_the_tail_keeps_the_last_blocks_within_both_bounds() -> None:
    blocks = run_of(10, payload=b"12345")
    by_number = Tail(blocks_max=3, bytes_max=1000)
    by_bytes = Tail(blocks_max=100, bytes_max=24)
    for tail in (by_number, by_bytes):
        tail.keep(blocks[:6])
        tail.keep(blocks[6:])

    assert by_number.after(Height(7)) == blocks[7:]
    assert by_bytes.after(Height(6)) == blocks[6:]
    assert (len(by_number), len(by_bytes)) == (3, 4)


def test_the_tail_knows_the_ids_of_its_blocks_and_of_the_parent_of_the_lowest() -> None:
    blocks = run_of(5)
    tail = Tail(blocks_max=3, bytes_max=1000)
    tail.keep(blocks)

    assert [tail.id_at(Height(h)) for h in range(1, 7)] == [
        None, blocks[1].id, blocks[2].id, blocks[3].id, blocks[4].id, None,
    ]  # fmt: skip
    assert tail.last_at_most(BlockId(Term(9), Height(9))) == blocks[4].id
    assert tail.last_at_most(BlockId(Term(1), Height(2))) == blocks[1].id
    assert tail.last_at_most(BlockId(Term(1), Height(1))) is None
    assert tail.last_at_most(BlockId(Term(0), Height(4))) is None
    tail.clear()
    assert tail.id_at(Height(2)) is None


def leader_with(blocks: int, **config: int) -> Node:
    group = Group(3, rng=Random(1), config=config)
    leader = group.elect()
    for _ in range(blocks):
        leader.propose(b"payload", group.now_ms, group.now_ms + 1000)
        group.pump()
    return leader


def hears_that_all_is_missing_after(leader: Node, has: BlockId) -> list[Message]:
    """A follower says that it is there, and what the leader sends."""
    status = leader.status()
    peer = next(id_ for id_ in IDS if id_ != status.node_id)
    # By a change of leadership nothing is known of the follower yet: as after a restart.
    progress = leader._core.leading.progress[peer]  # type: ignore[union-attr]
    progress.match = None
    leader.step(
        AppendAnswer(
            sender=peer, to=status.node_id, term=status.term, cluster_id="bench", accepted=False,
            last=status.head, hint=has, round=0,
        ),
        leader._core.now_ms,
    )  # fmt: skip
    said: list[Message] = []
    while leader.has_ready():
        said += leader.ready().messages
        leader.advance()
    return [message for message in said if message.to == peer]


def test_a_follower_a_little_behind_the_root_gets_blocks_and_no_snapshot() -> None:
    leader = leader_with(20, tail_blocks_max=8)
    lagging = leader.chain.id_at(Height(15))
    leader.compact(b"state")
    assert leader.chain.root.height == 21

    (append,) = hears_that_all_is_missing_after(leader, lagging)

    assert isinstance(append, Append)
    assert append.parent == lagging
    assert [block.id.height for block in append.blocks] == list(range(16, 22))


@pytest.mark.parametrize("height", [12, 1])
def test_a_follower_below_the_tail_gets_the_snapshot(height: int) -> None:
    leader = leader_with(20, tail_blocks_max=8)
    lagging = leader.chain.id_at(Height(height))
    leader.compact(b"state")

    (chunk,) = hears_that_all_is_missing_after(leader, lagging)

    assert isinstance(chunk, SnapshotChunk)
    assert (chunk.last.height, chunk.data) == (21, b"state")


def test_memory_for_a_long_history_is_the_tail_and_what_came_after_the_snapshot() -> None:
    group = Group(3, rng=Random(1), config={"tail_blocks_max": 10})
    leader = group.elect()
    for _ in range(50):
        for _ in range(20):
            leader.propose(b"p", group.now_ms, group.now_ms + 1000)
        group.pump()
        for node in group.nodes.values():
            node.compact(b"state")

    assert leader.status().commit.height == 1001
    for node in group.nodes.values():
        group.pump()
        assert len(node.chain) == 0
        assert len(node._core.archive.tail) == 10


def test_status_counts_blocks_and_bytes_since_the_snapshot() -> None:
    leader = leader_with(20)
    status = leader.status()
    birth_bytes = len(leader.chain.block(leader.chain.id_at(Height(1))).payload)
    assert status.blocks_since_snapshot == 21
    assert status.bytes_since_snapshot == birth_bytes + 20 * len(b"payload")

    leader.compact(b"state", leader.chain.id_at(Height(18)))

    status = leader.status()
    assert (status.root.height, status.applied.height) == (18, 21)
    assert (status.blocks_since_snapshot, status.bytes_since_snapshot) == (3, 21)
    leader.compact(b"older", leader.chain.root)  # as if a newer one had come from the leader
    assert leader.status().root.height == 18
    leader.compact(b"all")
    assert leader.status().bytes_since_snapshot == 0


def test_a_snapshot_of_what_is_not_applied_here_is_refused() -> None:
    leader = leader_with(3)
    height = leader.status().applied.height

    with pytest.raises(Refused, match="not applied"):
        leader.compact(b"state", BlockId(Term(1), Height(height + 1)))
    with pytest.raises(Refused, match="not applied"):
        leader.compact(b"state", BlockId(Term(9), Height(height)))
    assert leader.status().root == GENESIS


def test_configured_bounds_reach_the_tail() -> None:
    config = Config(node_id=IDS[0], tail_blocks_max=2, tail_bytes_max=3)
    tail = Node(config, None, now_ms=0, rng=Random(1))._core.archive.tail

    tail.keep(run_of(5, payload=b"12"))

    assert len(tail) == 1
