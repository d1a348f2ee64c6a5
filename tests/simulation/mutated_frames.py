"""Damage to what brokers say: bytes flipped, cut and doubled, and values that still decode.

A value is damaged behind its checksum: blocks are sealed anew, so that only rules can refuse them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from random import Random
from typing import Any

from raft import Block, BlockId, BlockKind, Height, Members, Message, NodeId, Term
from raft.block import _checksum

__all__ = ["damaged_bytes", "damaged_message"]

NUMBERS = (0, 1, 2, 1 << 24, 1 << 31, 1 << 40, 1 << 62, (1 << 62) + 1, 1 << 63, (1 << 64) - 1)
STEPS = (-1_000, -2, -1, 1, 2, 1_000)
NUMBER_END = 1 << 64


def damaged_bytes(rng: Random, data: bytes) -> bytes:
    """Bits flipped, cut off, doubled, other bytes in the middle."""
    changed = bytearray(data)
    kind = rng.randrange(6)
    at = rng.randrange(len(data)) if data else 0
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data + data[at:]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randrange(9)) + data[at:]
    if kind == 3 and len(data) >= 8:
        at = rng.randrange(len(data) - 7)
        changed[at : at + 8] = rng.choice(NUMBERS).to_bytes(8, "big")
        return bytes(changed)
    for _ in range(rng.randrange(1, 9)):
        if changed:
            changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def damaged_message(rng: Random, message: Message) -> Message:
    """One or two of its fields say something else, and it can still be encoded."""
    names = [field.name for field in dataclasses.fields(message)]
    chosen = rng.sample(names, rng.choice((1, 1, 2)))
    return dataclasses.replace(
        message, **{name: _damaged(rng, getattr(message, name)) for name in chosen}
    )


def _damaged(rng: Random, value: Any) -> Any:
    damage = _DAMAGE.get(type(value))
    return value if damage is None else damage(rng, value)


def _number(rng: Random, value: int) -> int:
    changed = rng.choice(NUMBERS) if rng.random() < 0.4 else value + rng.choice(STEPS)
    return max(0, changed) % NUMBER_END


def _id(rng: Random, value: BlockId) -> BlockId:
    term, height = value
    if rng.random() < 0.6:
        term = Term(_number(rng, term))
    if rng.random() < 0.6:
        height = Height(_number(rng, height))
    return BlockId(term, height)


def _bytes(rng: Random, value: bytes) -> bytes:
    return damaged_bytes(rng, value)


def _block(rng: Random, block: Block) -> Block:
    id_, parent, kind, payload = block.id, block.parent, block.kind, block.payload
    choice = rng.randrange(4)
    if choice == 0:
        id_ = _id(rng, id_)
    elif choice == 1:
        parent = _id(rng, parent)
    elif choice == 2:
        kind = rng.choice(list(BlockKind))
    else:
        payload = damaged_bytes(rng, payload)
    checksum = _checksum(id_, parent, kind, payload)
    return Block(id=id_, parent=parent, kind=kind, payload=payload, checksum=checksum)


def _blocks(rng: Random, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    if not blocks:
        return blocks
    at = rng.randrange(len(blocks))
    choice = rng.randrange(5)
    if choice == 0:
        return blocks[:at]
    if choice == 1:
        return blocks[at:]
    if choice == 2:
        return blocks + blocks[at:]
    if choice == 3:
        return tuple(reversed(blocks))
    return (*blocks[:at], _block(rng, blocks[at]), *blocks[at + 1 :])


def _members(rng: Random, members: Members) -> Members:
    voters = set(members.voters)
    if voters and rng.random() < 0.5:
        voters.discard(rng.choice(sorted(voters)))
    if rng.random() < 0.5:
        voters.add(NodeId(_number(rng, 1)))
    return Members(voters=frozenset() if rng.random() < 0.2 else frozenset(voters))


def _text(rng: Random, value: str) -> str:
    return rng.choice(("", "another", value + "x", "\0", "é" * 300))


_DAMAGE: dict[type, Callable[[Random, Any], Any]] = {
    int: _number,
    bool: lambda _rng, value: not value,
    str: _text,
    bytes: _bytes,
    BlockId: _id,
    tuple: _blocks,
    Members: _members,
    type(None): lambda rng, _value: BlockId(Term(_number(rng, 1)), Height(_number(rng, 1))),
}
