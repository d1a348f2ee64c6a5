"""The work of the host (`Ready`) and the state that a node reports about itself (`Status`)."""

from dataclasses import dataclass

from raft.block import Block
from raft.ids import BlockId, Height, NodeId, Term
from raft.members import Members
from raft.messages import Message
from raft.proposals import Outcome
from raft.roles import Role
from raft.state import Batch, Snapshot

__all__ = ["Follower", "ReadDone", "Ready", "Status"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDone:
    """A linearizable read may look at the state machine now; None: no leader answered in time."""

    number: int
    commit: BlockId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The host's work, in this order: write `batch`; apply; sync; send; `node.advance()`.

    `committed` blocks are durable here already, so applying them need not wait for the sync of this
    batch; `outcomes` and `reads` are reported after they are applied. `messages` leave only when
    `batch` is durable (if `batch.must_sync`).
    """

    batch: Batch | None
    installed: Snapshot | None
    """Replace the state machine by this before `committed` is applied."""
    committed: tuple[Block, ...]
    outcomes: tuple[Outcome, ...]
    reads: tuple[ReadDone, ...]
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The state of a node as it reports it, for humans and checkers."""

    node_id: NodeId
    cluster_id: str
    """Empty until the block that names the cluster is committed."""
    role: Role
    term: Term
    format: int
    """Format of the messages that it sends."""
    leader: NodeId | None
    head: BlockId
    commit: BlockId
    applied: BlockId
    """The last block handed out in a Ready."""
    root: BlockId
    """The snapshot replaces everything up to this block."""
    members: Members
    blocks_since_snapshot: int
    """Blocks handed out to be applied since the snapshot: a restart applies them again."""
    bytes_since_snapshot: int
    """Their payloads together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """What a leader knows of another member, in its term."""

    match: Height | None
    """Highest block that it acknowledged; None: it has not answered yet."""
    answered_ms: int
    """When it was last heard from, on the host's monotonic clock."""
