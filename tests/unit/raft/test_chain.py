"""The chain against an oracle that walks: who is live, who is dead, and what removing may touch."""

import dataclasses
from random import Random

import pytest

from raft.block import Block, BlockKind, make_block
from raft.chain import Chain
from raft.errors import CorruptBlock, CorruptStore, InvariantBroken
from raft.ids import GENESIS, BlockId, Height, Term


def grow(chain: Chain, parent: BlockId, term: int, count: int = 1) -> list[Block]:
    """A run of new blocks on `parent`."""
    run: list[Block] = []
    for _ in range(count):
        run.append(make_block(parent, Term(term), BlockKind.DATA, b"%d" % term))
        parent = run[-1].id
    assert chain.extend(run) == run
    return run


class Oracle:
    """The same tree as a plain dict of parents; every question is answered by walking."""

    def __init__(self) -> None:
        self.parent: dict[BlockId, BlockId] = {}
        self.root = GENESIS

    def ancestors(self, id_: BlockId) -> list[BlockId]:
        """`id_` and everything before it, as far as known."""
        walk = [id_]
        while walk[-1] != self.root and walk[-1] in self.parent:
            walk.append(self.parent[walk[-1]])
        return walk

    def is_dead(self, id_: BlockId, commit: BlockId) -> bool:
        return id_ not in self.ancestors(commit) and commit not in self.ancestors(id_)


class Walk:
    """A random life of a chain: forks, moves of the head, commits, snapshots, removals."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.chain = Chain()
        self.oracle = Oracle()
        self.term = 1

    def live(self) -> list[BlockId]:
        known = [self.chain.root, *self.oracle.parent]
        above = [id_ for id_ in known if id_.height >= self.chain.commit.height]
        return [id_ for id_ in above if self.chain.commit in self.oracle.ancestors(id_)]

    def fork(self) -> None:
        self.term += 1  # a new leader each time, often on an old block
        parent = self.rng.choice(self.live())
        for block in grow(self.chain, parent, self.term, self.rng.randint(1, 5)):
            self.oracle.parent[block.id] = block.parent

    def move_head(self) -> None:
        to = self.rng.choice(self.live())
        self.chain.move_head(to)
        assert self.chain.head == to

    def commit(self) -> None:
        low, high = self.chain.commit.height, self.chain.head.height
        self.chain.advance_commit(Height(self.rng.randint(low, high)))

    def snapshot(self) -> None:
        path = [i for i in self.oracle.ancestors(self.chain.commit) if i not in (GENESIS,)]
        if path and self.rng.random() < 0.3:
            root = self.rng.choice(path)
            self.chain.move_root(root)
            for id_ in self.oracle.ancestors(root):
                self.oracle.parent.pop(id_, None)
            self.oracle.root = root

    def collect(self) -> None:
        for id_ in self.chain.collect(self.rng.randint(0, 4)):
            assert self.oracle.is_dead(id_, self.chain.commit), f"{id_} was live"
            assert id_ not in self.oracle.parent.values(), f"{id_} went before its child"
            del self.oracle.parent[id_]

    def check(self) -> None:
        chain, oracle = self.chain, self.oracle
        assert {block.id for block in chain} == set(oracle.parent)
        path = oracle.ancestors(chain.head)
        assert path[-1] == chain.root
        assert chain.commit in path
        assert all(chain.on_head_path(id_) == (id_ in path) for id_ in [*oracle.parent, GENESIS])
        for id_ in oracle.parent:
            assert chain.is_live(id_) != oracle.is_dead(id_, chain.commit)


@pytest.mark.parametrize("seed", range(150))
def test_gc_removes_all_dead_blocks_leaf_first_and_never_a_live_one(seed: int) -> None:
    """Checklist row 8."""
    walk = Walk(seed)
    steps = (walk.fork, walk.fork, walk.move_head, walk.commit, walk.snapshot, walk.collect)

    for _ in range(60):
        walk.rng.choice(steps)()
        walk.check()
    while walk.chain.has_dead:
        walk.collect()

    assert not [id_ for id_ in walk.oracle.parent if walk.oracle.is_dead(id_, walk.chain.commit)]


@pytest.mark.parametrize("seed", range(50))
def test_a_restored_chain_equals_the_one_before(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(40):
        walk.rng.choice((walk.fork, walk.move_head, walk.commit, walk.snapshot, walk.collect))()

    before = walk.chain
    walk.chain = Chain.restore(
        root=before.root, head=before.head, commit=before.commit, blocks=list(before)
    )

    # A dead branch may end below the root now, and is then dropped without further ado.
    for id_ in [id_ for id_ in walk.oracle.parent if not walk.chain.knows(id_)]:
        assert walk.oracle.is_dead(id_, before.commit)
        assert id_.height <= before.root.height
        del walk.oracle.parent[id_]
    walk.check()
    while walk.chain.has_dead:
        walk.collect()
    assert not [id_ for id_ in walk.oracle.parent if walk.oracle.is_dead(id_, before.commit)]


def test_gc_removes_a_dead_branch_that_holds_the_highest_id() -> None:
    """The predecessor compared ids and spared it. Checklist row 8."""
    chain = Chain()
    committed = grow(chain, GENESIS, term=1, count=2)
    dead = grow(chain, GENESIS, term=9, count=50)
    chain.move_head(committed[-1].id)
    chain.advance_commit(Height(1))

    removed = chain.collect(1000)

    assert removed == [block.id for block in reversed(dead)]
    assert [block.id for block in chain] == [block.id for block in committed]


def test_gc_works_in_bounded_steps() -> None:
    chain = Chain()
    keep = grow(chain, GENESIS, term=1)
    grow(chain, GENESIS, term=2, count=10)
    chain.move_head(keep[0].id)
    chain.advance_commit(Height(1))

    sizes = [len(chain.collect(4)) for _ in range(4)]

    assert sizes == [4, 4, 2, 0]
    assert not chain.has_dead


def test_a_known_id_with_other_content_is_refused_and_nothing_changes() -> None:
    """Checklist row 5."""
    chain = Chain()
    (block,) = grow(chain, GENESIS, term=1)
    other = make_block(GENESIS, Term(1), BlockKind.DATA, b"another content")
    assert other.id == block.id

    with pytest.raises(CorruptBlock, match="different content"):
        chain.extend([other])

    assert chain.block(block.id) == block
    assert chain.extend([block]) == []


def test_a_block_is_only_added_to_a_live_parent() -> None:
    chain = Chain()
    keep = grow(chain, GENESIS, term=1, count=3)
    (dead,) = grow(chain, GENESIS, term=2)
    chain.move_head(keep[-1].id)
    chain.advance_commit(Height(2))
    unknown = BlockId(Term(7), Height(7))

    for parent in (dead.id, keep[0].id, unknown):
        with pytest.raises(CorruptBlock, match="not live"):
            chain.extend([make_block(parent, Term(8), BlockKind.DATA, b"")])


def test_a_run_with_a_gap_is_refused() -> None:
    chain = Chain()
    first = make_block(GENESIS, Term(1), BlockKind.DATA, b"")
    second = make_block(first.id, Term(1), BlockKind.DATA, b"")
    third = make_block(second.id, Term(1), BlockKind.DATA, b"")

    with pytest.raises(CorruptBlock, match="does not follow"):
        chain.extend([first, third])


def test_head_never_leaves_the_commit() -> None:
    chain = Chain()
    keep = grow(chain, GENESIS, term=1, count=2)
    (other,) = grow(chain, GENESIS, term=2)
    chain.move_head(keep[-1].id)
    chain.advance_commit(Height(1))

    for to in (other.id, GENESIS):
        with pytest.raises(InvariantBroken):
            chain.move_head(to)


def test_root_moves_only_to_a_committed_block() -> None:
    chain = Chain()
    run = grow(chain, GENESIS, term=1, count=2)
    chain.move_head(run[-1].id)
    chain.advance_commit(Height(1))

    with pytest.raises(InvariantBroken):
        chain.move_root(run[1].id)


def test_the_root_and_what_is_unknown_have_no_block() -> None:
    chain = Chain()

    for id_ in (GENESIS, BlockId(Term(1), Height(1))):
        with pytest.raises(KeyError):
            chain.block(id_)


def test_last_at_most_bounds_term_and_height() -> None:
    chain = Chain()
    parent = GENESIS
    for term in (1, 1, 3, 3, 6):
        (block,) = grow(chain, parent, term)
        parent = block.id
    chain.move_head(parent)

    path = [GENESIS, *(chain.id_at(Height(h)) for h in range(1, 6))]
    for term in range(8):
        for height in range(8):
            limit = BlockId(Term(term), Height(height))
            fits = [id_ for id_ in path if id_.term <= term and id_.height <= height]
            assert chain.last_at_most(limit) == fits[-1]


def test_restoring_refuses_pointers_that_lead_nowhere() -> None:
    chain = Chain()
    run = grow(chain, GENESIS, term=1, count=3)
    ids = [block.id for block in run]
    (side,) = grow(chain, GENESIS, term=2)

    with pytest.raises(CorruptStore, match="missing"):
        Chain.restore(root=GENESIS, head=ids[2], commit=GENESIS, blocks=[run[0], run[2]])
    with pytest.raises(CorruptStore, match="commit"):
        Chain.restore(root=GENESIS, head=ids[2], commit=side.id, blocks=[*run, side])
    with pytest.raises(CorruptStore, match="does not descend"):
        Chain.restore(root=side.id, head=ids[2], commit=side.id, blocks=run)


def test_of_a_run_with_a_damaged_block_nothing_is_added() -> None:
    """Else its first blocks were known, never written, and acknowledged by the next message."""
    chain = Chain()
    good = make_block(GENESIS, Term(1), BlockKind.DATA, b"good")
    bad = dataclasses.replace(make_block(good.id, Term(1), BlockKind.DATA, b"bad"), checksum=1)

    with pytest.raises(CorruptBlock, match="checksum"):
        chain.extend([good, bad])

    assert not chain.knows(good.id)
    assert chain.extend([good]) == [good]
