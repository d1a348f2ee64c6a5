"""The promises of a member whose chain is damaged: its term, its vote and the head it acknowledged.

A member may lose its blocks, because others have them, but not its promises. If the last state of a
damaged block file can still be proved, the member starts again with an empty chain and a file with
that state. It then votes only for candidates with at least the promised head, and does not start an
election before its own chain reaches that head: whatever it acknowledged before is in the chain
of each later leader, so a head that is at least the promised one includes it.

The last state is proved when every byte after the last intact state is intact too, and
`synced.mark` names no later position. One damaged frame before it is thus harmless, and damage at
the end, a missing end or a lost mark are not. Nothing here changes a damaged file.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from raft.block import BlockKind
from raft.errors import CorruptBlock, CorruptStore
from raft.files import Files
from raft.ids import BlockId, Height, NodeId, Term
from raft.members import decode_members
from raft.segment import (
    HEADER_BYTES,
    Frame,
    decode_snapshot,
    find_frame_after,
    read_frame,
    read_header,
)
from raft.state import State
from raft.synced import NOTHING_KNOWN, Synced, SyncedMark

__all__ = ["PROMISED_FILE", "Found", "find_promises", "read_promised", "write_promised"]

PROMISED_FILE = "promised.state"

_PROMISED = struct.Struct(">8sHQqQQQQ")  # magic, version, term, vote or -1, head, commit
_CHECKSUM = struct.Struct(">I")
_MAGIC = b"RAFTPRM\n"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a damaged block file still proves."""

    state: State | None
    """Its last state; None: a later promise may be lost."""
    voters: frozenset[NodeId]
    """Those of the newest member list that can be read; empty: none can."""
    cluster_id: str
    """Empty: it cannot be read."""


def write_promised(files: Files, state: State) -> None:
    """Store the promises durably, before the damaged files are put aside. Raises OSError."""
    vote = -1 if state.vote is None else state.vote
    body = _PROMISED.pack(_MAGIC, _VERSION, state.term, vote, *state.head, *state.commit)
    temporary = PROMISED_FILE + ".tmp"
    file = files.open(temporary)
    try:
        file.truncate(0)
        file.append(body + _CHECKSUM.pack(zlib.crc32(body)))
        file.sync()
    finally:
        file.close()
    files.rename(temporary, PROMISED_FILE)
    files.sync_names()


def read_promised(files: Files) -> State | None:
    """The promises from before a damage; None: there was none. Raises CorruptStore."""
    if PROMISED_FILE not in files.names():
        return None
    data = files.read(PROMISED_FILE)
    body, checksum = data[: _PROMISED.size], data[_PROMISED.size :]
    if len(body) < _PROMISED.size or checksum != _CHECKSUM.pack(zlib.crc32(body)):
        raise CorruptStore(f"{PROMISED_FILE}: wrong checksum")
    magic, version, term, vote, *ids = _PROMISED.unpack(body)
    if magic != _MAGIC or version != _VERSION:
        raise CorruptStore(f"{PROMISED_FILE}: not the promises of format version {_VERSION}")
    head_term, head_height, commit_term, commit_height = ids
    return State(
        term=Term(term),
        vote=None if vote < 0 else NodeId(vote),
        head=BlockId(Term(head_term), Height(head_height)),
        commit=BlockId(Term(commit_term), Height(commit_height)),
    )


def find_promises(files: Files, node_id: NodeId) -> Found:
    """What the damaged files prove. Raises CorruptStore when they are another node's, or of another
    format: these are not damaged, and must stay as they are."""
    names = files.names()
    segments = {name: files.read(name) for name in names if name.endswith(".seg")}
    _check_owner(segments, node_id)
    voters, cluster_id = _last_members(files, names, segments)
    # Promises from an earlier damage that the chain has not reached yet bind as well: with a
    # second damage before that, the older head would have to be kept too. Rare: not proved.
    is_whole = PROMISED_FILE not in names
    state = _last_state(segments, SyncedMark(files).read()) if is_whole else None
    return Found(state=state, voters=voters, cluster_id=cluster_id)


def _check_owner(segments: dict[str, bytes], node_id: NodeId) -> None:
    """Compare the headers that can be read. Raises CorruptStore."""
    for name, data in segments.items():
        try:
            owner, _, _ = read_header(data, name)
        except CorruptStore as error:
            if "format version" in str(error):
                raise
            continue
        if owner != node_id:
            raise CorruptStore(f"{name} belongs to node {owner}, not to node {node_id}")


def _last_state(segments: dict[str, bytes], known: Synced) -> State | None:
    """The newest state, if nothing after it can have been lost."""
    if known == NOTHING_KNOWN:
        return None
    for name, data in reversed(segments.items()):
        number = _number_of(name)
        if number < known.number:
            return None  # the mark is in a later segment, which is missing
        state, position = None, HEADER_BYTES
        for frame, start in _frames(data, number):
            if start != position:
                state = None  # a gap: a lost frame may have had a later state
            state, position = frame.state or state, frame.end
        if number == known.number and position < known.position:
            return None
        if position != len(data):
            # Also what looks like a torn write: next to other damage it is not trusted.
            return None
        if state is not None:
            return state
        if position != HEADER_BYTES:
            return None
        # Nothing was written to it yet: the segment before was synced to its end.
        if known.number == number:
            known = Synced(number - 1, 0)
    return None


def _last_members(
    files: Files, names: list[str], segments: dict[str, bytes]
) -> tuple[frozenset[NodeId], str]:
    """Voters and cluster id of the newest member list that can be read."""
    voters, cluster_id = frozenset[NodeId](), ""
    for name in names:
        if name.endswith(".snap"):
            try:
                snapshot = decode_snapshot(files.read(name), name)
            except CorruptStore:
                continue
            voters, cluster_id = snapshot.members.voters, snapshot.cluster_id
    for name, data in segments.items():
        for frame, _ in _frames(data, _number_of(name)):
            for block in frame.blocks:
                if block.kind in (BlockKind.BIRTH, BlockKind.CONFIG):
                    try:
                        members, cluster_id = decode_members(block.payload)
                    except CorruptBlock:
                        continue
                    voters = members.voters
    return voters, cluster_id


def _frames(data: bytes, number: int) -> Iterator[tuple[Frame, int]]:
    """Every intact frame of a segment with its position, also after damage: a frame's checksum
    binds it to its place, so one that is valid is where it was written."""
    position: int | None = HEADER_BYTES
    while position is not None:
        try:
            frame = read_frame(data, position, number=number)
        except CorruptStore:
            frame = None
        if frame is None:
            position = find_frame_after(data, position, number=number)
            continue
        yield frame, position
        position = frame.end if frame.end < len(data) else None


def _number_of(name: str) -> int:
    """The number in a segment's name; 0 for a name that no segment has."""
    try:
        return int(name.removesuffix(".seg"), 16)
    except ValueError:
        return 0
