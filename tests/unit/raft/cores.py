"""A member's core by itself: the rules of Raft are functions over it."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from raft.block import Block, BlockKind, make_block
from raft.config import Config
from raft.core import Core
from raft.ids import BlockId, Height, NodeId, Term
from raft.messages import Message
from raft.replication import start_leading
from raft.roles import RoleEvent

ME, PEER, THIRD = NodeId(1), NodeId(2), NodeId(3)
TIMEOUT_MS = 1000
M = TypeVar("M", bound=Message)


def core_of(voters: tuple[NodeId, ...] = (ME, PEER, THIRD), **config: Any) -> Core:
    """A member of a new cluster, in term 0."""
    values = {"node_id": ME, "initial_voters": voters, "cluster_id": "c", **config}
    return Core(Config(**values), None, now_ms=0, rng=Random(1))


def leader_of(term: int = 1, before: Sequence[Block] = (), **config: Any) -> Core:
    """The leader of a term, whose own blocks are durable, after blocks of earlier terms."""
    core = core_of(**config)
    chain_up(core, before)
    core.enter_term(Term(term), vote=ME)
    core.change_role(RoleEvent.TRANSFER)
    core.change_role(RoleEvent.VOTE_WON)
    start_leading(core)
    core.outbox.unsynced.clear()
    return core


def follower_of(term: int = 1, leader: NodeId = PEER, **config: Any) -> Core:
    """A follower that knows the leader of a term."""
    core = core_of(**config)
    core.enter_term(Term(term), vote=None)
    core.change_role(RoleEvent.LEADER_FOUND)
    core.leader = leader
    return core


def run_of(parent: BlockId, term: int, count: int, payload: bytes = b"d") -> list[Block]:
    """Blocks of a term, one after the other."""
    blocks: list[Block] = []
    for _ in range(count):
        blocks.append(make_block(parent, Term(term), BlockKind.DATA, payload))
        parent = blocks[-1].id
    return blocks


def chain_up(core: Core, blocks: Sequence[Block], commit: int = 0) -> None:
    """Put durable blocks on the head path; commit up to a height."""
    for block in blocks:
        core.chain.grow(block)
        core.history.follow(block)
    if commit:
        core.chain.advance_commit(Height(commit))


def sent(core: Core, kind: type[M]) -> list[M]:
    """The messages of a kind that were queued; the queue is empty then."""
    found = [message for message in core.outbox.messages if isinstance(message, kind)]
    core.outbox.messages.clear()
    return found
