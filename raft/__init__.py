"""Chained Raft as a library: blocks instead of log entries, sans-I/O. The manual is README.md."""

from raft.block import Block, BlockKind
from raft.blockfile import BlockFile
from raft.config import Config
from raft.disk_files import DiskFiles
from raft.errors import (
    CorruptBlock,
    CorruptStore,
    InvariantBroken,
    Refused,
    StoreFailed,
    StoreFull,
    WrongCluster,
)
from raft.files import MemoryFiles
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import Members
from raft.messages import Message
from raft.node import Node
from raft.promises import PROMISED_FILE, find_promises, write_promised
from raft.proposals import Outcome, Proposal, Result
from raft.ready import Follower, ReadDone, Ready, Status
from raft.roles import Role
from raft.state import Batch, Recovered, Snapshot, State
from raft.synced import WAY_OUT

__all__ = [
    "GENESIS",
    "PROMISED_FILE",
    "WAY_OUT",
    "Batch",
    "Block",
    "BlockFile",
    "BlockId",
    "BlockKind",
    "Config",
    "CorruptBlock",
    "CorruptStore",
    "DiskFiles",
    "Follower",
    "Height",
    "InvariantBroken",
    "Members",
    "MemoryFiles",
    "Message",
    "Node",
    "NodeId",
    "Outcome",
    "Proposal",
    "ReadDone",
    "Ready",
    "Recovered",
    "Refused",
    "Result",
    "Role",
    "Snapshot",
    "State",
    "Status",
    "StoreFailed",
    "StoreFull",
    "Term",
    "WrongCluster",
    "find_promises",
    "write_promised",
]
