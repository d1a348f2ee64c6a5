"""Plausibility checks on messages: a message that no correct member sends is refused.

Rules: the checks run before anything changes, so a refused message leaves the node as it was; they
only read. A false but possible message (a commit that is one block too high) cannot be detected
here. One that would break an invariant always can: after these checks an impossible state is our
own bug. Terms: with pre-vote a term rises only with the support of a majority and at most once in a
quarter of an election timeout, so a jump is bounded by the time a member was away. A node in no
cluster yet has no term to compare with.
"""

from collections.abc import Callable, Iterable
from typing import Any

from raft.block import Block, BlockKind
from raft.core import Core
from raft.errors import CorruptBlock
from raft.ids import BlockId
from raft.members import Members, decode_members
from raft.messages import (
    Append,
    AppendAnswer,
    Message,
    Propose,
    ProposeAnswer,
    ReadAnswer,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteRequest,
)

__all__ = ["TERM_JUMP_MAX", "why_not"]

TERM_JUMP_MAX = 1 << 40
"""Terms that a member may have missed: more than a thousand years of nothing but elections could
produce, so that no member is locked out, even after jumps made by a damaged member; and the range
of a term outlasts millions of such jumps."""
NUMBER_MAX = 1 << 62
"""Limit of heights and node ids; larger numbers are refused."""
SNAPSHOT_BYTES_MAX = 1 << 30
"""Largest snapshot that a follower collects: a state machine above a gigabyte does not belong in a
chain."""


def why_not(core: Core, message: Message) -> str | None:
    """The reason why this message cannot be true, as part of a sentence; None if there is none."""
    if message.sender == core.id:
        return f"a message of node {message.sender} to itself"
    jump_max = TERM_JUMP_MAX if core.history.cluster_id else NUMBER_MAX
    if message.term > core.term + jump_max:
        return f"term {message.term} is too far above our term {core.term} for elections"
    look = _LOOKS.get(type(message))
    return None if look is None else look(core, message)


def _of_its_time(message: Message, ids: Iterable[BlockId]) -> str | None:
    for id_ in ids:
        if id_.term > message.term or id_.height > NUMBER_MAX:
            return f"it names block {id_}, which cannot exist in term {message.term}"
    return None


def _vote_request(_core: Core, message: VoteRequest) -> str | None:
    if message.head.term >= message.term:
        return f"a candidate of term {message.term} has a head of term {message.head.term}"
    return _of_its_time(message, (message.head,))


def _append(core: Core, message: Append) -> str | None:
    ids = (message.parent, message.commit, *(block.id for block in message.blocks))
    wrong = _of_its_time(message, ids) or _not_in_line(message)
    if wrong or message.term < core.term:  # late: the answer reports our newer term
        return wrong
    return (
        _second_leader(core, message)
        or _against_the_committed(core, message)
        or _unreadable_members(message.blocks)
    )


def _second_leader(core: Core, message: Message) -> str | None:
    """Another leader in our term? It has one leader: the one we heard, or this node."""
    if message.term != core.term or core.leader in (None, message.sender):
        return None
    return f"{core.leader} and {message.sender} both lead term {core.term}"


def _not_in_line(message: Append) -> str | None:
    parent = message.parent
    for block in message.blocks:
        if block.parent != parent:
            return f"block {block.id} does not follow {parent}"
        if block.id.height != parent.height + 1 or block.id.term < parent.term:
            return f"block {block.id} cannot follow {parent}"
        parent = block.id
    return None


def _against_the_committed(core: Core, message: Append) -> str | None:
    """A leader has every block that is committed here (5.4), so it sends no other at those
    heights."""
    chain, blocks = core.chain, message.blocks
    low, high = chain.root.height, chain.commit.height
    named = [block.id for block in blocks if low < block.id.height <= high]
    if low <= message.commit.height <= high:
        named.append(message.commit)
    for id_ in named:
        if not chain.on_head_path(id_):
            return f"block {id_} is not {chain.id_at(id_.height)}, which is committed"
    above = message.commit.height - message.parent.height
    if 0 < above <= len(blocks) and blocks[above - 1].id != message.commit:
        return f"block {blocks[above - 1].id} cannot be committed as {message.commit}"
    return None


def _unreadable_members(blocks: tuple[Block, ...]) -> str | None:
    for block in blocks:
        if block.kind not in (BlockKind.BIRTH, BlockKind.CONFIG):
            continue
        try:
            members, cluster_id = decode_members(block.payload)
        except CorruptBlock as error:
            return f"block {block.id}: {error}"
        if not cluster_id:
            return f"block {block.id}: its cluster id is empty"
        if reason := _no_members(members):
            return f"block {block.id}: {reason}"
    return None


def _no_members(members: Members) -> str | None:
    if not members.voters:
        return "it has no voters"
    if not all(0 <= node <= NUMBER_MAX for node in members.all):
        return f"it has a member id outside 0 to {NUMBER_MAX}"
    return None


def _append_answer(core: Core, message: AppendAnswer) -> str | None:
    wrong = _of_its_time(message, (message.last, message.hint)) or _unasked(core, message)
    if wrong or core.leading is None or message.term != core.term or not message.accepted:
        return wrong
    if message.last.height > core.chain.head.height:
        return f"it acknowledges block {message.last}, which this leader did not make yet"
    return None


def _unasked(core: Core, message: AppendAnswer | SnapshotAnswer) -> str | None:
    """An answer to a round that was not started yet? Each term counts its rounds from 0."""
    leading = core.leading
    if leading is not None and message.term == core.term and message.round > leading.round:
        return f"it answers round {message.round}, but the last round is {leading.round}"
    return None


def _snapshot_chunk(core: Core, message: SnapshotChunk) -> str | None:
    last, chain = message.last, core.chain
    end = message.offset + len(message.data)
    wrong = _of_its_time(message, (last,)) or _second_leader(core, message)
    wrong = wrong or _no_members(message.members)
    if not wrong and (last.height < 1 or end > SNAPSHOT_BYTES_MAX):
        wrong = f"a snapshot up to {last} with {end} bytes, of at most {SNAPSHOT_BYTES_MAX}"
    if wrong or message.term < core.term:
        return wrong
    if not chain.root.height <= last.height <= chain.commit.height:
        return None
    if not chain.on_head_path(last):
        return f"a snapshot ends at {last}, but {chain.id_at(last.height)} is committed"
    return None


def _snapshot_answer(core: Core, message: SnapshotAnswer) -> str | None:
    wrong = _of_its_time(message, (message.last,)) or _unasked(core, message)
    if wrong or core.leading is None or message.term != core.term:
        return wrong
    progress = core.leading.progress.get(message.sender)
    transfer = None if progress is None else progress.transfer
    if transfer is None or transfer.snapshot.last != message.last:
        return None
    snapshot = transfer.snapshot
    if message.next_offset > len(snapshot.data):
        return f"it acknowledges {message.next_offset} of {len(snapshot.data)} snapshot bytes"
    return None


def _propose(core: Core, message: Propose) -> str | None:
    size, size_max = len(message.payload), core.config.payload_bytes_max
    return f"{size} bytes exceed {size_max} per block" if size > size_max else None


def _propose_answer(core: Core, message: ProposeAnswer) -> str | None:
    block_id = message.block_id
    if message.asked > message.term:
        return f"it answers in term {message.term} a proposal of term {message.asked}"
    if block_id is None:
        return None
    if block_id.term != message.asked:
        return f"a proposal of term {message.asked} cannot be block {block_id}"
    if not core.requests.proposals.can_be(message.number, block_id):
        return f"block {block_id} does not hold proposal {message.number}"
    return _of_its_time(message, (block_id,))


def _read_answer(_core: Core, message: ReadAnswer) -> str | None:
    return _of_its_time(message, (message.commit,))


def _take_over(core: Core, message: TakeOver) -> str | None:
    return _second_leader(core, message)


_LOOKS: dict[type[Message], Callable[[Core, Any], str | None]] = {
    VoteRequest: _vote_request,
    Append: _append,
    AppendAnswer: _append_answer,
    SnapshotChunk: _snapshot_chunk,
    SnapshotAnswer: _snapshot_answer,
    Propose: _propose,
    ProposeAnswer: _propose_answer,
    ReadAnswer: _read_answer,
    TakeOver: _take_over,
}
"""Message → its check; a VoteAnswer and a ReadRequest have no content that could be checked."""
