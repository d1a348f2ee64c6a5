"""What nodes say to one another. Values; `raft/codec.py` gives them bytes.

Every message carries a term, its sender's but for those of a pre-vote, and its sender's cluster id.
That is empty until the sender knows that a birth block is committed; two ids that are not empty and
differ never talk.
"""

from dataclasses import dataclass

from raft.block import Block
from raft.ids import BlockId, NodeId, Term
from raft.members import Members

__all__ = [
    "Append",
    "AppendAnswer",
    "Message",
    "Propose",
    "ProposeAnswer",
    "ReadAnswer",
    "ReadRequest",
    "SnapshotAnswer",
    "SnapshotChunk",
    "TakeOver",
    "VoteAnswer",
    "VoteRequest",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The envelope."""

    sender: NodeId
    to: NodeId
    term: Term
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteRequest(Message):
    """ "May I lead `term`?" With `pre`, "could I?": nobody's term or vote changes."""

    head: BlockId
    pre: bool
    forced: bool = False
    """The leader itself asked for this election (transfer): hearing it is no reason to refuse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Message):
    """Its term is the candidate's when a pre-vote is granted, else the answering node's."""

    pre: bool
    granted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Message):
    """Blocks that follow `parent`, lowest first. Without blocks it is a heartbeat or a probe."""

    parent: BlockId
    blocks: tuple[Block, ...]
    commit: BlockId
    round: int
    """Echoed by the answer: proves that the leader led after the round began (read-index)."""

    @property
    def last(self) -> BlockId:
        return self.blocks[-1].id if self.blocks else self.parent


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendAnswer(Message):
    """Accepted: `last` is on my head path and durable. Rejected: I do not have `last`, the parent
    that was offered; `hint` is my highest block within its term and height."""

    accepted: bool
    last: BlockId
    hint: BlockId
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotChunk(Message):
    """A piece, from byte `offset`, of the leader's snapshot that ends at block `last`."""

    last: BlockId
    members: Members
    offset: int
    data: bytes
    done: bool
    round: int
    checksum: int | None = None
    """Of the whole snapshot (`state.snapshot_checksum`); None from who speaks format 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer(Message):
    """`next_offset` bytes of the snapshot ending at `last` are here; installed when `done`."""

    last: BlockId
    next_offset: int
    done: bool
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose(Message):
    """A proposal made elsewhere, for the leader to append. `number` is the sender's own."""

    number: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeAnswer(Message):
    """The block it became, or None: no copy of the request was or ever will be appended."""

    number: int
    asked: Term
    """The term in which it was sent: an answer to an earlier attempt says nothing of this one."""
    block_id: BlockId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest(Message):
    """ "Up to which block must I have applied to read what is committed now?" """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer(Message):
    """The leader's commit after it was asked; it led still, a majority says."""

    number: int
    commit: BlockId


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(Message):
    """Start an election now (leadership transfer, thesis section 3.10)."""
