"""Cluster membership: voters and learners, as recorded in the chain.

Rules: the members in force are those of the last BIRTH or CONFIG block on the head path, committed
or not (Raft paper, section 6). When the head leaves a branch, the changes of that branch are
forgotten.
"""

import json
from dataclasses import dataclass

from raft.block import Block, BlockKind
from raft.errors import CorruptBlock
from raft.ids import Height, NodeId

__all__ = ["MemberHistory", "Members", "decode_members", "encode_members"]

_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """Voters decide; learners receive blocks and do not count."""

    voters: frozenset[NodeId] = frozenset()
    learners: frozenset[NodeId] = frozenset()

    @property
    def all(self) -> frozenset[NodeId]:
        return self.voters | self.learners

    @property
    def majority(self) -> int:
        """Number of voters that make a decision."""
        return len(self.voters) // 2 + 1


def encode_members(members: Members, cluster_id: str) -> bytes:
    """The payload of a BIRTH or CONFIG block: versioned JSON, keys and ids sorted."""
    content = {
        "cluster_id": cluster_id,
        "learners": sorted(members.learners),
        "version": _VERSION,
        "voters": sorted(members.voters),
    }
    return json.dumps(content, separators=(",", ":"), sort_keys=True).encode()


def decode_members(payload: bytes) -> tuple[Members, str]:
    """(members, cluster id). Raises CorruptBlock for an unknown version or invalid content."""
    try:
        content = json.loads(payload)
        version = content["version"]
        if version != _VERSION:
            raise CorruptBlock(f"members of format version {version}; this code reads {_VERSION}")
        members = Members(
            voters=frozenset(NodeId(int(id_)) for id_ in content["voters"]),
            learners=frozenset(NodeId(int(id_)) for id_ in content["learners"]),
        )
        return members, str(content["cluster_id"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptBlock(f"members cannot be read: {error!r}") from error


class MemberHistory:
    """The membership changes on the head path so far, each with its height."""

    __slots__ = ("_said",)

    def __init__(self, height: Height, members: Members, cluster_id: str) -> None:
        self._said: list[tuple[Height, Members, str]] = [(height, members, cluster_id)]

    @property
    def current(self) -> Members:
        return self._said[-1][1]

    def may_be_needed(self, node: NodeId, commit: Height) -> bool:
        """Is it a voter, or was it one before a change that is not committed?

        Such a node starts elections too: it may be the only one that has the change, and so the
        only one that can win (thesis 4.2.2).
        """
        for said_at, members, _ in reversed(self._said):
            if node in members.voters:
                return True
            if said_at <= commit:
                return False
        return False

    @property
    def cluster_id(self) -> str:
        """The id in the last change on the path, committed or not; empty until a birth block."""
        return self._said[-1][2]

    @property
    def height(self) -> Height:
        """Height of the last change; until it is committed no other change starts."""
        return self._said[-1][0]

    def at(self, height: Height) -> tuple[Members, str]:
        """Members and cluster id in force at this height of the head path."""
        members, cluster_id = self._said[0][1:]
        for said_at, later, later_cluster_id in self._said:
            if said_at <= height:
                members, cluster_id = later, later_cluster_id
        return members, cluster_id

    def leave_above(self, fork: Height) -> None:
        """The head left its branch above `fork`."""
        while len(self._said) > 1 and self._said[-1][0] > fork:
            self._said.pop()

    def follow(self, block: Block) -> bool:
        """Record a membership change in a block of the head path; did the members change?"""
        if block.kind not in (BlockKind.BIRTH, BlockKind.CONFIG):
            return False
        members, cluster_id = decode_members(block.payload)
        self._said.append((block.id.height, members, cluster_id))
        return True

    def forget_below(self, root: Height) -> None:
        """A snapshot now replaces everything up to `root`."""
        while len(self._said) > 1 and self._said[1][0] <= root:
            del self._said[0]
