"""The messages between nodes. Values; `raft/codec.py` encodes them.

Every message carries its sender's term, except that pre-vote messages carry the candidate's next
term, and its sender's cluster id. That is empty until the sender knows a committed birth block;
nodes with different non-empty ids never talk.
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
    """The fields that every message has."""

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
    """The leader itself asked for this election (transfer): a voter that hears the leader may
    grant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteAnswer(Message):
    """A granted pre-vote carries the candidate's term, any other answer the sender's term."""

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
    """Of the whole snapshot (`state.snapshot_checksum`); None from a node that sends format 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotAnswer(Message):
    """`next_offset` bytes of the snapshot ending at `last` are here; installed when `done`."""

    last: BlockId
    next_offset: int
    done: bool
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Propose(Message):
    """A proposal forwarded to the leader. `number` is the sender's own."""

    number: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeAnswer(Message):
    """The block it became, or None: no copy of the request was or ever will be appended."""

    number: int
    asked: Term
    """The term in which it was sent: an answer to an earlier attempt does not apply to a later
    one."""
    block_id: BlockId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest(Message):
    """ "Which block must I have applied to read everything committed by now?" """

    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadAnswer(Message):
    """The leader's commit after the request; a majority confirmed that it still led."""

    number: int
    commit: BlockId


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver(Message):
    """Start an election now (leadership transfer, thesis section 3.10)."""
