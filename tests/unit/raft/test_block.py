"""Blocks: the bytes they become, and what is refused."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.block import (
    Block,
    BlockKind,
    block_bytes,
    decode_block,
    encode_block,
    make_block,
)
from raft.errors import CorruptBlock
from raft.ids import GENESIS, BlockId, Height, Term

PARENT = BlockId(Term(3), Height(7))
BLOCK = make_block(PARENT, Term(4), BlockKind.DATA, b"payload")


@given(
    term=st.integers(0, 2**63), height=st.integers(0, 2**63), payload=st.binary(max_size=300),
    kind=st.sampled_from(BlockKind), position=st.integers(0, 5),
)  # fmt: skip
def test_block_survives_its_encoding(
    term: int, height: int, payload: bytes, kind: BlockKind, position: int
) -> None:
    block = make_block(BlockId(Term(term), Height(height)), Term(term), kind, payload)

    data = b"x" * position + encode_block(block)

    assert decode_block(data, position) == (block, len(data))
    assert block_bytes(block) == len(data) - position


def test_a_flipped_bit_anywhere_is_detected() -> None:
    """Checklist row 5."""
    whole = encode_block(BLOCK)

    for bit in range(len(whole) * 8):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBlock):
            decode_block(bytes(data))


def test_a_block_cut_off_anywhere_is_detected() -> None:
    whole = encode_block(BLOCK)

    for size in range(len(whole)):
        with pytest.raises(CorruptBlock):
            decode_block(whole[:size])


@pytest.mark.parametrize(
    ("id_", "parent"),
    [
        (BlockId(Term(4), Height(9)), PARENT),
        (BlockId(Term(2), Height(8)), PARENT),
        (GENESIS, GENESIS),
    ],
)
def test_a_block_must_follow_its_parent_in_height_and_term(id_: BlockId, parent: BlockId) -> None:
    made = make_block(parent, Term(9), BlockKind.DATA, b"")
    block = Block(id=id_, parent=parent, kind=made.kind, payload=b"", checksum=0)
    good_sum = _checksum_of(block)
    block = Block(id=id_, parent=parent, kind=made.kind, payload=b"", checksum=good_sum)

    with pytest.raises(CorruptBlock, match="cannot follow"):
        block.verify()


def _checksum_of(block: Block) -> int:
    data = encode_block(block)[:-4]
    # The payload is empty, so the checksum is that of the fields.
    return zlib.crc32(b"", zlib.crc32(data))


def test_ids_order_by_term_before_height() -> None:
    short_and_new = BlockId(Term(5), Height(1))
    long_and_old = BlockId(Term(4), Height(100))

    assert short_and_new > long_and_old
