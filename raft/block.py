"""The block: an immutable, checksummed record with a link to its parent.

Rules: the checksum covers every other field. A block is valid under its parent when its height is
the parent's plus one and its term is not below the parent's. This module knows no tree.
"""

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum

from raft.errors import CorruptBlock
from raft.ids import GENESIS, BlockId, Height, Term

__all__ = ["Block", "BlockKind", "block_bytes", "decode_block", "encode_block", "make_block"]


class BlockKind(IntEnum):
    """What the payload is for. Only DATA belongs to the state machine of the host."""

    EMPTY = 0  # a new leader's first block: commits what older terms left (Raft paper, 5.4.2)
    DATA = 1  # one proposal of the host
    BIRTH = 2  # the first leader's first block: cluster id and first members
    CONFIG = 3  # a change of members


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block. Create it with `make_block`, which computes the checksum."""

    id: BlockId
    parent: BlockId
    kind: BlockKind
    payload: bytes
    checksum: int

    def verify(self) -> None:
        """Raise CorruptBlock unless checksum and link hold."""
        if self.checksum != _checksum(self.id, self.parent, self.kind, self.payload):
            raise CorruptBlock(f"block {self.id}: checksum does not match its content")
        if self.id.height != self.parent.height + 1 or self.id.term < self.parent.term:
            raise CorruptBlock(f"block {self.id} cannot follow {self.parent}")


_KINDS = {int(kind): kind for kind in BlockKind}

# term, height, parent term, parent height, kind, payload length
_FIELDS = struct.Struct(">QQQQBI")
_CHECKSUM = struct.Struct(">I")
BLOCK_OVERHEAD_BYTES = _FIELDS.size + _CHECKSUM.size


def _checksum(id_: BlockId, parent: BlockId, kind: BlockKind, payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(_FIELDS.pack(*id_, *parent, kind, len(payload))))


def make_block(parent: BlockId, term: Term, kind: BlockKind, payload: bytes) -> Block:
    """The block that a leader of `term` appends to `parent`."""
    assert term >= parent.term, (term, parent)
    id_ = BlockId(term, Height(parent.height + 1))
    checksum = _checksum(id_, parent, kind, payload)
    return Block(id=id_, parent=parent, kind=kind, payload=payload, checksum=checksum)


def block_bytes(block: Block) -> int:
    """Size of the block's encoding."""
    return BLOCK_OVERHEAD_BYTES + len(block.payload)


def encode_block(block: Block) -> bytes:
    """Fields, payload, checksum; big endian. The block's container carries the format version."""
    fields = _FIELDS.pack(*block.id, *block.parent, block.kind, len(block.payload))
    return fields + block.payload + _CHECKSUM.pack(block.checksum)


def decode_block(data: bytes, position: int = 0, previous: BlockId = GENESIS) -> tuple[Block, int]:
    """The block at `position` and the position after it. Raises CorruptBlock.

    `previous` is the likely parent: consecutive blocks then share their id objects (saves a fifth
    of the memory of a small block).
    """
    fields_end = position + _FIELDS.size
    if fields_end > len(data):
        raise CorruptBlock(f"block at byte {position}: its fields are cut off")
    term, height, parent_term, parent_height, kind, length = _FIELDS.unpack_from(data, position)
    payload_end = fields_end + length
    if payload_end + _CHECKSUM.size > len(data):
        raise CorruptBlock(f"block {term}:{height} at byte {position}: its payload is cut off")
    payload = bytes(data[fields_end:payload_end])
    (checksum,) = _CHECKSUM.unpack_from(data, payload_end)
    if checksum != zlib.crc32(payload, zlib.crc32(data[position:fields_end])):
        raise CorruptBlock(f"block {term}:{height} at byte {position}: wrong checksum")
    known_kind = _KINDS.get(kind)
    if known_kind is None:
        raise CorruptBlock(f"block {term}:{height}: unknown kind {kind}")
    parent = BlockId(parent_term, parent_height)
    block = Block(
        id=BlockId(term, height),
        parent=previous if previous == parent else parent,
        kind=known_kind,
        payload=payload,
        checksum=checksum,
    )
    return block, payload_end + _CHECKSUM.size
