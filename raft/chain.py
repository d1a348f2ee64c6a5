"""The chain: the tree of known blocks with its pointers root, commit and head.

Rules, held by asserts, by errors that name what broke, and by the tests' random trees:
- root is an ancestor-or-self of commit, commit of head. `_path` lists the ids from root to head,
  so "is it on the head path" is one look-up and never a walk. `_line` lists their blocks.
- Only blocks off the head path are in a hash table, `_aside`: it stays as small as they are few, so
  that walking and collecting a branch costs the same behind a million committed blocks.
- A block is never stored over another; its parent is live when it is added.
- A block is dead when it is neither an ancestor-or-self of commit nor a descendant of it. Dead
  subtrees are noted when commit passes their fork, and removed leaf first in bounded steps, so a
  parent never goes before its child and the cost is that of the dead blocks alone.
- The root stands for everything below it (a snapshot, or genesis) and has no block of its own.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain as concatenate

from raft.block import Block
from raft.errors import CorruptBlock, CorruptStore, InvariantBroken
from raft.ids import GENESIS, BlockId, Height, Term

__all__ = ["Chain"]

VISITS_PER_BLOCK = 4
"""Of those that one `collect` may look at, for each that it may remove: bounds its time."""


class Chain:
    """Mutable tree of immutable blocks. Times: branch length, never the committed length."""

    __slots__ = ("_aside", "_branches", "_commit_height", "_dead", "_line", "_path")

    def __init__(self, root: BlockId = GENESIS) -> None:
        self._path: list[BlockId] = [root]
        self._line: list[Block] = []  # the block of _path[i + 1] is at i: the root has none
        self._aside: dict[BlockId, Block] = {}
        self._commit_height = root.height
        # Children that are not on the head path. The path holds the others, so that a chain
        # without forks pays nothing for being a tree.
        self._branches: dict[BlockId, set[BlockId]] = {}
        self._dead: list[BlockId] = []

    @classmethod
    def restore(
        cls, *, root: BlockId, head: BlockId, commit: BlockId, blocks: Iterable[Block]
    ) -> "Chain":
        """The chain that a store gave back. Raises CorruptStore when a pointer leads nowhere."""
        chain = cls(root)
        # What lies at or below the root is in the snapshot or was dead already.
        chain._aside = {block.id: block for block in blocks if block.id.height > root.height}
        path = [head]
        while path[-1].height > root.height:
            block = chain._aside.pop(path[-1], None)
            if block is None:
                raise CorruptStore(f"block {path[-1]} on the way from head {head} is missing")
            chain._line.append(block)
            path.append(block.parent)
        path.reverse()
        chain._line.reverse()
        if path[0] != root:
            raise CorruptStore(f"head {head} does not descend from root {root}")
        chain._path = path
        chain._aside = dict(chain._aside)  # the table of all blocks would never shrink by itself
        if not chain.on_head_path(commit):
            raise CorruptStore(f"commit {commit} is not on the way from root {root} to head {head}")
        chain._commit_height = commit.height
        chain._note_branches()
        return chain

    def _note_branches(self) -> None:
        """File every block off the path under its parent, and the dead subtrees as dead."""
        for block in self._aside.values():
            if self.knows(block.parent):
                self._branches.setdefault(block.parent, set()).add(block.id)
            else:  # its fork lies below the root: such a branch can only be dead
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
        """Number of known blocks, the dead ones that are not removed yet included."""
        return len(self._line) + len(self._aside)

    def __iter__(self) -> Iterator[Block]:
        return concatenate(self._line, self._aside.values())

    def knows(self, id_: BlockId) -> bool:
        return self.on_head_path(id_) or id_ in self._aside

    def block(self, id_: BlockId) -> Block:
        """The block of this id. KeyError for one that is unknown, and for the root."""
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

        None when even the root exceeds it. Terms do not fall along a path: a binary search.
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

        Raises CorruptBlock when a known id comes with other content or a link is invalid; then none
        is added, not even those before it. The head does not move.
        """
        fresh: list[Block] = []
        for number, block in enumerate(blocks):
            if number and block.parent != blocks[number - 1].id:
                raise CorruptBlock(f"block {block.id} does not follow {blocks[number - 1].id}")
            known = self._find(block.id)
            if known is not None:
                if known != block:
                    raise CorruptBlock(f"block {block.id} is known with other content")
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
        """Put a block of our own on the head and move there: what a leader does."""
        assert block.parent == self.head, (block.id, self.head)
        assert block.id not in self._aside, block.id
        self._line.append(block)
        self._path.append(block.id)

    def can_follow(self, parent: BlockId) -> bool:
        """May a new block hang on `parent`? Only on commit or on a descendant of it."""
        return parent.height >= self._commit_height and self.is_live(parent)

    def move_head(self, to: BlockId) -> tuple[Height, list[Block]]:
        """Follow the branch of `to`; return the fork's height and the blocks gained, lowest first.

        `to` may be an ancestor of the head. What is left behind stays in the tree.
        """
        gained: list[Block] = []
        fork = to
        while not self.on_head_path(fork):
            block = self._aside[fork]
            gained.append(block)
            fork = block.parent
        if fork.height < self._commit_height:
            raise InvariantBroken(f"head cannot move to {to}: it does not contain {self.commit}")
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

        A commit off the head path is the caller's to prepare: `move_head` first.
        """
        assert self._commit_height <= to <= self.head.height, (self._commit_height, to, self.head)
        base = self._path[0].height
        for parent in self._path[self._commit_height - base : to - base]:
            if parent in self._branches:
                self._dead.extend(self._branches.pop(parent))
        self._commit_height = to

    def collect(self, blocks_max: int) -> list[BlockId]:
        """Remove at most `blocks_max` dead blocks, children before parents; return their ids.

        The way down to the leaf of a long branch is taken in steps too: an answer may be empty
        while there still is something dead.
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
        """Forget the path up to `to`, which a snapshot now stands for; return how many blocks."""
        if not (self.on_head_path(to) and to.height <= self._commit_height):
            raise InvariantBroken(f"root cannot move to {to}: it is not committed here")
        gone = to.height - self.root.height
        del self._path[:gone], self._line[:gone]
        return gone


def _term_of(id_: BlockId) -> Term:
    return id_.term
