"""The chain: the tree of known blocks with its pointers root, commit and head.

Rules, enforced by asserts, by errors that name the violation, and by tests on random trees:
- root is an ancestor-or-self of commit, commit of head. `_path` lists the ids from root to head,
  so "is it on the head path" is one look-up and never a walk. `_line` lists their blocks.
- Only blocks off the head path are in a hash table, `_aside`. It stays small, so walking or
  collecting a branch costs the same after a million committed blocks.
- A block never replaces another; its parent is live when it is added.
- A block is dead when it is neither an ancestor-or-self of commit nor a descendant of it. Dead
  subtrees are recorded when commit passes their fork, and removed leaf first in bounded steps: a
  parent is never removed before its child, and the cost depends on the dead blocks alone.
- The root represents everything below it (a snapshot, or genesis) and has no block of its own.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as concatenate

from raft.block import Block
from raft.errors import CorruptBlock, CorruptStore, InvariantBroken
from raft.ids import GENESIS, BlockId, Height, Term

__all__ = ["Chain"]

VISITS_PER_BLOCK = 4
"""Blocks that one `collect` may visit for each block it may remove: bounds its time."""


class Chain:
    """Mutable tree of immutable blocks. Costs depend on branch length, not on committed length."""

    __slots__ = ("_aside", "_branches", "_commit_height", "_dead", "_line", "_path")

    def __init__(self, root: BlockId = GENESIS) -> None:
        self._path: list[BlockId] = [root]
        self._line: list[Block] = []  # the block of _path[i + 1] is at i: the root has none
        self._aside: dict[BlockId, Block] = {}
        self._commit_height = root.height
        # Children off the head path. The path itself links its own blocks, so a chain without forks
        # pays nothing for being a tree.
        self._branches: dict[BlockId, set[BlockId]] = {}
        self._dead: list[BlockId] = []

    @classmethod
    def restore(
        cls, *, root: BlockId, head: BlockId, commit: BlockId, blocks: Iterable[Block]
    ) -> "Chain":
        """The chain that a store recovered. Raises CorruptStore for a pointer to an unknown
        block."""
        chain = cls(root)
        # A block at or below the root is part of the snapshot or was dead already.
        chain._aside = {block.id: block for block in blocks if block.id.height > root.height}
        path = [head]
        while path[-1].height > root.height:
            block = chain._aside.pop(path[-1], None)
            if block is None:
                raise CorruptStore(
                    f"block {path[-1]} is missing between root {root} and head {head}"
                )
            chain._line.append(block)
            path.append(block.parent)
        path.reverse()
        chain._line.reverse()
        if path[0] != root:
            raise CorruptStore(f"head {head} does not descend from root {root}")
        chain._path = path
        chain._aside = dict(chain._aside)  # copied to shrink: the table had room for all blocks
        if not chain.on_head_path(commit):
            raise CorruptStore(f"commit {commit} is not between root {root} and head {head}")
        chain._commit_height = commit.height
        chain._note_branches()
        return chain

    def _note_branches(self) -> None:
        """File every block off the path under its parent, and mark dead subtrees."""
        for block in self._aside.values():
            if self.knows(block.parent):
                self._branches.setdefault(block.parent, set()).add(block.id)
            else:  # its fork is below the root, so the branch is dead
                self._dead.append(block.id)
        for parent in self._path[: self._commit_height - self.root.height]:
            self._dead.extend(self._branches.pop(parent, ()))

    @property
    def root(self) -> BlockId:
        return self._path[0]

    @property
    def head(self) -> BlockId:
        return self._path[-1]

    @property
    def commit(self) -> BlockId:
        return self._path[self._commit_height - self._path[0].height]

    @property
    def has_dead(self) -> bool:
        return bool(self._dead)

    def __len__(self) -> int:
        """Number of known blocks, including dead ones that are not removed yet."""
        return len(self._line) + len(self._aside)

    def __iter__(self) -> Iterator[Block]:
        return concatenate(self._line, self._aside.values())

    def knows(self, id_: BlockId) -> bool:
        return self.on_head_path(id_) or id_ in self._aside

    def block(self, id_: BlockId) -> Block:
        """The block with this id. KeyError for an unknown id and for the root."""
        block = self._find(id_)
        if block is None:
            raise KeyError(id_)
        return block

    def _find(self, id_: BlockId) -> Block | None:
        index = id_.height - self._path[0].height
        if 0 < index < len(self._path) and self._path[index] == id_:
            return self._line[index - 1]
        return self._aside.get(id_)

    def on_head_path(self, id_: BlockId) -> bool:
        """Is it an ancestor-or-self of head (and not below the root)?"""
        index = id_.height - self._path[0].height
        return 0 <= index < len(self._path) and self._path[index] == id_

    def id_at(self, height: Height) -> BlockId:
        """The id at this height of the head path."""
        assert self.root.height <= height <= self.head.height, (height, self.root, self.head)
        return self._path[height - self._path[0].height]

    def last_at_most(self, limit: BlockId) -> BlockId | None:
        """The highest block of the head path whose term and height are both within `limit`'s.

        None when even the root exceeds it. Terms never decrease along a path: a binary search.
        """
        count = min(len(self._path), limit.height - self._path[0].height + 1)
        if count <= 0:
            return None
        index = bisect_right(self._path, limit.term, hi=count, key=_term_of) - 1
        return self._path[index] if index >= 0 else None

    def blocks_between(self, after: Height, last: Height) -> list[Block]:
        """Blocks of the head path with after < height <= last, lowest first."""
        start = after - self._path[0].height
        assert start >= 0, (after, self.root)
        return self._line[start : last - self._path[0].height]

    def blocks_after(self, height: Height) -> Iterator[Block]:
        """Blocks of the head path above this height, lowest first."""
        start = height - self._path[0].height
        assert start >= 0, (height, self.root)
        return (self._line[index] for index in range(start, len(self._line)))

    def is_live(self, id_: BlockId) -> bool:
        """Known, and an ancestor-or-self or a descendant of commit (down to the root)."""
        if self.on_head_path(id_):
            return True
        while not self.on_head_path(id_):
            block = self._aside.get(id_)
            if block is None:
                return False
            id_ = block.parent
        return id_.height >= self._commit_height

    def extend(self, blocks: Sequence[Block]) -> list[Block]:
        """Add a run of blocks, each the parent of the next; return those that were new.

        Raises CorruptBlock when a known id arrives with different content or a link is invalid;
        then no block is added, not even those before it. The head does not move.
        """
        fresh: list[Block] = []
        for number, block in enumerate(blocks):
            if number and block.parent != blocks[number - 1].id:
                raise CorruptBlock(f"block {block.id} does not follow {blocks[number - 1].id}")
            known = self._find(block.id)
            if known is not None:
                if known != block:
                    raise CorruptBlock(f"block {block.id} is known with different content")
                continue
            block.verify()
            if not fresh and not self.can_follow(block.parent):
                raise CorruptBlock(f"block {block.id}: its parent {block.parent} is not live")
            fresh.append(block)
        for block in fresh:
            self._aside[block.id] = block
            self._branches.setdefault(block.parent, set()).add(block.id)
        return fresh

    def grow(self, block: Block) -> None:
        """Append a block of our own to the head, as a leader does."""
        assert block.parent == self.head, (block.id, self.head)
        assert block.id not in self._aside, block.id
        self._line.append(block)
        self._path.append(block.id)

    def can_follow(self, parent: BlockId) -> bool:
        """May a new block have this parent? Only commit or a descendant of it."""
        return parent.height >= self._commit_height and self.is_live(parent)

    def move_head(self, to: BlockId) -> tuple[Height, list[Block]]:
        """Follow the branch of `to`; return the fork's height and the blocks gained, lowest first.

        `to` may be an ancestor of the head. The blocks of the old branch stay in the tree.
        """
        gained: list[Block] = []
        fork = to
        while not self.on_head_path(fork):
            block = self._aside[fork]
            gained.append(block)
            fork = block.parent
        if fork.height < self._commit_height:
            raise InvariantBroken(
                f"head cannot move to {to}: it lacks committed block {self.commit}"
            )
        gained.reverse()
        keep = fork.height - self.root.height + 1
        for block in self._line[keep - 1 :]:
            self._branches.setdefault(block.parent, set()).add(block.id)
            self._aside[block.id] = block
        del self._path[keep:], self._line[keep - 1 :]
        for block in gained:
            self._drop_branch(block.parent, block.id)
            del self._aside[block.id]
            self._path.append(block.id)
            self._line.append(block)
        return fork.height, gained

    def _drop_branch(self, parent: BlockId, child: BlockId) -> None:
        siblings = self._branches[parent]
        siblings.remove(child)
        if not siblings:
            del self._branches[parent]

    def advance_commit(self, to: Height) -> None:
        """Commit the block at this height of the head path, and with it all its ancestors.

        For a commit off the head path the caller calls `move_head` first.
        """
        assert self._commit_height <= to <= self.head.height, (self._commit_height, to, self.head)
        base = self._path[0].height
        for parent in self._path[self._commit_height - base : to - base]:
            if parent in self._branches:
                self._dead.extend(self._branches.pop(parent))
        self._commit_height = to

    def collect(self, blocks_max: int) -> list[BlockId]:
        """Remove at most `blocks_max` dead blocks, children before parents; return their ids.

        Descending to the leaf of a long branch is bounded too: the answer may be empty while dead
        blocks remain.
        """
        removed: list[BlockId] = []
        for _ in range(VISITS_PER_BLOCK * blocks_max):
            if not self._dead or len(removed) == blocks_max:
                break
            top = self._dead[-1]
            children = self._branches.get(top)
            if children:
                self._dead.append(children.pop())
                if not children:
                    del self._branches[top]
                continue
            self._dead.pop()
            del self._aside[top]
            removed.append(top)
        return removed

    def move_root(self, to: BlockId) -> int:
        """Forget the path up to `to`, which a snapshot replaces; return the number of blocks."""
        if not (self.on_head_path(to) and to.height <= self._commit_height):
            raise InvariantBroken(f"root cannot move to {to}: it is not committed here")
        gone = to.height - self.root.height
        del self._path[:gone], self._line[:gone]
        return gone


def _term_of(id_: BlockId) -> Term:
    return id_.term
