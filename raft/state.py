"""The values that a node exchanges with its store."""

import zlib
from dataclasses import dataclass

from raft.block import Block
from raft.ids import GENESIS, BlockId, NodeId, Term
from raft.members import Members, encode_members

__all__ = ["Batch", "Recovered", "Snapshot", "State", "snapshot_checksum"]


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Term, vote and the three pointers: everything durable that is not a block."""

    term: Term = GENESIS.term
    vote: NodeId | None = None
    head: BlockId = GENESIS
    commit: BlockId = GENESIS
    root: BlockId = GENESIS


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The host's state machine as of block `last`, and the members in force there."""

    last: BlockId
    cluster_id: str
    members: Members
    data: bytes


def snapshot_checksum(snapshot: Snapshot) -> int:
    """Checksum over block, cluster, members and data."""
    said = b"%d:%d" % snapshot.last + encode_members(snapshot.members, snapshot.cluster_id)
    return zlib.crc32(snapshot.data, zlib.crc32(said))


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One atomic write: after a crash all of it is present, or nothing.

    Order within: snapshot, blocks, removals, state. With `must_sync` it has to be durable before
    any message of the same Ready leaves; without, writing it is enough (only the commit pointer
    moved or dead blocks were removed, which a restarted node finds again by itself).
    """

    state: State
    blocks: tuple[Block, ...] = ()
    removed: tuple[BlockId, ...] = ()
    snapshot: Snapshot | None = None
    must_sync: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The content of a store: the argument that restarts a Node."""

    state: State
    blocks: tuple[Block, ...]
    snapshot: Snapshot | None
    segments: int
    cut_bytes: int
    """Length of the torn tail that recovery removed; 0 after a clean stop."""
    promised: State | None = None
    """The promises from before a damage, until the chain reaches their head; see `promises.py`."""

    def report(self) -> str:
        """One line for the host's log."""
        torn = f", torn tail of {self.cut_bytes} bytes cut" if self.cut_bytes else ""
        state = self.state
        lacks = f", to be rebuilt up to {self.promised.head}" if self.promised else ""
        return (
            f"{len(self.blocks)} blocks in {self.segments} segments, term {state.term}, "
            f"root {state.root}, commit {state.commit}, head {state.head}{torn}{lacks}"
        )
