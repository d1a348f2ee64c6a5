"""The encoding of the block file: segment header, frames, snapshot file. Pure; does no I/O.

A segment is a header followed by frames. A frame is one Batch, so the frame is the unit of
atomicity. Its checksum covers the body, its sequence number, its segment and its position: a frame
is valid nowhere else. It also records up to which position the segment was synced when it was
written: damage below that is no torn write. A frame without a body is a mark: it records only that
position. Integers are big endian. A change of layout raises FORMAT_VERSION.
"""

import struct
import zlib
from dataclasses import dataclass

from raft.block import Block, decode_block, encode_block
from raft.errors import CorruptBlock, CorruptStore
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import decode_members, encode_members
from raft.state import Batch, Snapshot, State

__all__ = [
    "HEADER_BYTES",
    "Frame",
    "decode_snapshot",
    "encode_frame",
    "encode_header",
    "encode_mark",
    "encode_snapshot",
    "find_frame_after",
    "find_proof_after",
    "read_frame",
    "read_header",
]

FORMAT_VERSION = 2

_HEADER = struct.Struct(">8sHQQQ")  # magic, version, node id, segment number, first sequence
_FRAME = struct.Struct(">4sIQQI")  # magic, body length, sequence, synced position, checksum
_PLACE = struct.Struct(">QQQQI")  # segment number, position, sequence, synced, body length
_STATE = struct.Struct(">QqQQQQQQ")  # term, vote or -1, head, commit, root
_ID = struct.Struct(">QQ")
_SNAPSHOT = struct.Struct(">8sHQQI")  # magic, version, last block, members length
_CHECKSUM = struct.Struct(">I")

_HEADER_MAGIC = b"RAFTCHN\n"
_FRAME_MAGIC = b"\xc4FR\n"
_SNAPSHOT_MAGIC = b"RAFTSNP\n"
HEADER_BYTES = _HEADER.size + _CHECKSUM.size

_TAG_BLOCK, _TAG_REMOVED, _TAG_STATE = 1, 2, 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A decoded frame and its end position."""

    sequence: int
    blocks: tuple[Block, ...]
    removed: tuple[BlockId, ...]
    state: State | None
    """None in a mark."""
    synced: int
    end: int


def encode_header(node_id: NodeId, number: int, first_sequence: int) -> bytes:
    """The header of a segment."""
    fields = _HEADER.pack(_HEADER_MAGIC, FORMAT_VERSION, node_id, number, first_sequence)
    return fields + _CHECKSUM.pack(zlib.crc32(fields))


def read_header(data: bytes, name: str) -> tuple[NodeId, int, int]:
    """(node id, segment number, first sequence). Raises CorruptStore."""
    if len(data) < HEADER_BYTES:
        raise CorruptStore(f"{name}: the segment header is cut off")
    magic, version, node_id, number, first_sequence = _HEADER.unpack_from(data)
    (checksum,) = _CHECKSUM.unpack_from(data, _HEADER.size)
    if magic != _HEADER_MAGIC or checksum != zlib.crc32(data[: _HEADER.size]):
        raise CorruptStore(f"{name}: the segment header is damaged, or this is no block file")
    if version != FORMAT_VERSION:
        raise CorruptStore(f"{name}: format version {version}; this code reads {FORMAT_VERSION}")
    return NodeId(node_id), number, first_sequence


def encode_frame(batch: Batch, *, number: int, position: int, sequence: int, synced: int) -> bytes:
    """The frame of a batch (its snapshot goes to a separate file)."""
    parts: list[bytes] = []
    for block in batch.blocks:
        parts += (bytes((_TAG_BLOCK,)), encode_block(block))
    for id_ in batch.removed:
        parts += (bytes((_TAG_REMOVED,)), _ID.pack(*id_))
    parts += (bytes((_TAG_STATE,)), _encode_state(batch.state))
    body = b"".join(parts)
    return _frame(body, number, position, sequence, synced)


def encode_mark(*, number: int, position: int, sequence: int) -> bytes:
    """A mark: everything before it is synced. It has the sequence number of the next frame."""
    return _frame(b"", number, position, sequence, position)


def _frame(body: bytes, number: int, position: int, sequence: int, synced: int) -> bytes:
    place = _PLACE.pack(number, position, sequence, synced, len(body))
    checksum = zlib.crc32(body, zlib.crc32(place))
    return _FRAME.pack(_FRAME_MAGIC, len(body), sequence, synced, checksum) + body


def _encode_state(state: State) -> bytes:
    vote = -1 if state.vote is None else state.vote
    return _STATE.pack(state.term, vote, *state.head, *state.commit, *state.root)


def _decode_state(data: bytes, position: int) -> State:
    term, vote, *pointers = _STATE.unpack_from(data, position)
    head, commit, root = (
        BlockId(Term(pointers[i]), Height(pointers[i + 1])) for i in range(0, 6, 2)
    )
    return State(
        term=Term(term),
        vote=None if vote < 0 else NodeId(vote),
        head=head,
        commit=commit,
        root=root,
    )


def read_frame(data: bytes, position: int, *, number: int) -> Frame | None:
    """The frame at `position`, or None if it is incomplete or damaged."""
    body_start = position + _FRAME.size
    if body_start > len(data):
        return None
    magic, length, sequence, synced, checksum = _FRAME.unpack_from(data, position)
    end = body_start + length
    if magic != _FRAME_MAGIC or end > len(data):
        return None
    body = data[body_start:end]
    place = _PLACE.pack(number, position, sequence, synced, length)
    if checksum != zlib.crc32(body, zlib.crc32(place)):
        return None
    if not body:
        return Frame(sequence=sequence, blocks=(), removed=(), state=None, synced=synced, end=end)
    return _decode_body(body, sequence, synced, end)


def _decode_body(
    body: bytes, sequence: int, synced: int, end: int, previous: BlockId = GENESIS
) -> Frame:
    """Decode a body. Its checksum is valid, so bad content was written that way: CorruptStore."""
    blocks: list[Block] = []
    removed: list[BlockId] = []
    position = 0
    # The state is always the last entry of a body: it ends the loop.
    while body[position] != _TAG_STATE:
        tag, position = body[position], position + 1
        if tag == _TAG_BLOCK:
            try:
                block, position = decode_block(body, position, previous)
                previous = block.id
            except CorruptBlock as error:
                raise CorruptStore(f"frame {sequence}: {error}") from error
            blocks.append(block)
        elif tag == _TAG_REMOVED:
            term, height = _ID.unpack_from(body, position)
            removed.append(BlockId(Term(term), Height(height)))
            position += _ID.size
        else:
            raise CorruptStore(f"frame {sequence}: unknown entry {tag}")
    state = _decode_state(body, position + 1)
    return Frame(
        sequence=sequence,
        blocks=tuple(blocks),
        removed=tuple(removed),
        state=state,
        synced=synced,
        end=end,
    )


def find_proof_after(data: bytes, position: int, *, number: int) -> int | None:
    """The start of a valid frame that proves that `position` was synced before it: then the damage
    is no torn write. A frame without that proof may survive a torn one, because pages of one file
    reach the disk in any order.
    """
    candidate = data.find(_FRAME_MAGIC, position + 1)
    while candidate >= 0:
        frame = read_frame(data, candidate, number=number)
        if frame is not None and frame.synced > position:
            return candidate
        candidate = data.find(_FRAME_MAGIC, candidate + 1)
    return None


def find_frame_after(data: bytes, position: int, *, number: int) -> int | None:
    """The start of the next valid frame after `position`; None: there is none."""
    candidate = data.find(_FRAME_MAGIC, position + 1)
    while candidate >= 0 and read_frame(data, candidate, number=number) is None:
        candidate = data.find(_FRAME_MAGIC, candidate + 1)
    return candidate if candidate >= 0 else None


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """The content of a snapshot file."""
    members = encode_members(snapshot.members, snapshot.cluster_id)
    fields = _SNAPSHOT.pack(_SNAPSHOT_MAGIC, FORMAT_VERSION, *snapshot.last, len(members))
    body = fields + members + snapshot.data
    return body + _CHECKSUM.pack(zlib.crc32(body))


def decode_snapshot(data: bytes, name: str) -> Snapshot:
    """Raises CorruptStore: a complete snapshot is renamed into place, so it is never torn."""
    body, checksum = data[: -_CHECKSUM.size], data[-_CHECKSUM.size :]
    if len(body) < _SNAPSHOT.size or checksum != _CHECKSUM.pack(zlib.crc32(body)):
        raise CorruptStore(f"{name}: wrong checksum")
    magic, version, term, height, members_length = _SNAPSHOT.unpack_from(body)
    if magic != _SNAPSHOT_MAGIC or version != FORMAT_VERSION:
        raise CorruptStore(f"{name}: not a snapshot of format version {FORMAT_VERSION}")
    members_end = _SNAPSHOT.size + members_length
    try:
        members, cluster_id = decode_members(body[_SNAPSHOT.size : members_end])
    except CorruptBlock as error:
        raise CorruptStore(f"{name}: {error}") from error
    return Snapshot(
        last=BlockId(Term(term), Height(height)),
        cluster_id=cluster_id,
        members=members,
        data=body[members_end:],
    )
