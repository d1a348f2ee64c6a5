"""The encoding of messages: a versioned envelope, then the fields of the kind. Big endian.

Rules: `encode` and `decode` are inverse for every message; `decode` raises CorruptBlock for
any other input, of any length, and never reads past the end. A message carries the version that
introduced its layout; a changed layout is a new kind in the next version, and the old one is still
read. The transport delimits messages and keeps them whole.
"""

import struct
from collections.abc import Callable
from typing import Any

from raft.block import decode_block, encode_block
from raft.errors import CorruptBlock
from raft.ids import GENESIS, BlockId, Height, NodeId, Term
from raft.members import Members
from raft.messages import (
    Append,
    AppendAnswer,
    Message,
    Propose,
    ProposeAnswer,
    ReadAnswer,
    ReadRequest,
    SnapshotAnswer,
    SnapshotChunk,
    TakeOver,
    VoteAnswer,
    VoteRequest,
)

__all__ = ["VERSION", "decode", "encode"]

VERSION = 2
"""The newest version. A layout of version 2 is sent only to nodes that read it: `Config.format`."""

_ENVELOPE = struct.Struct(">BBQQQH")  # version, kind, sender, to, term, cluster id length
_FLAG = struct.Struct(">B")
_NUMBER = struct.Struct(">Q")
_ID = struct.Struct(">QQ")
_LENGTH = struct.Struct(">I")


class _Reader:
    """A position in received bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        if self.position + layout.size > len(self.data):
            raise CorruptBlock("a message is cut off")
        values = layout.unpack_from(self.data, self.position)
        self.position += layout.size
        return values

    def take(self, size: int) -> bytes:
        if self.position + size > len(self.data):
            raise CorruptBlock("a message is cut off")
        self.position += size
        return self.data[self.position - size : self.position]


# -- one pair of functions per field type


def _put_flag(value: bool) -> bytes:
    return _FLAG.pack(value)


def _get_flag(reader: _Reader) -> bool:
    (value,) = reader.fields(_FLAG)
    if value > 1:
        raise CorruptBlock(f"a flag of a message is {value}, neither 0 nor 1")
    return bool(value)


def _put_number(value: int) -> bytes:
    return _NUMBER.pack(value)


def _get_number(reader: _Reader) -> int:
    return int(reader.fields(_NUMBER)[0])


def _put_id(value: BlockId) -> bytes:
    return _ID.pack(*value)


def _get_id(reader: _Reader) -> BlockId:
    term, height = reader.fields(_ID)
    return BlockId(Term(term), Height(height))


def _put_maybe_id(value: BlockId | None) -> bytes:
    return _put_flag(value is not None) + (b"" if value is None else _put_id(value))


def _get_maybe_id(reader: _Reader) -> BlockId | None:
    return _get_id(reader) if _get_flag(reader) else None


def _put_bytes(value: bytes) -> bytes:
    return _LENGTH.pack(len(value)) + value


def _get_bytes(reader: _Reader) -> bytes:
    (length,) = reader.fields(_LENGTH)
    return reader.take(length)


def _put_blocks(value: tuple[Any, ...]) -> bytes:
    return _LENGTH.pack(len(value)) + b"".join(encode_block(block) for block in value)


def _get_blocks(reader: _Reader) -> tuple[Any, ...]:
    (count,) = reader.fields(_LENGTH)
    blocks = []
    previous = GENESIS
    for _ in range(count):
        block, reader.position = decode_block(reader.data, reader.position, previous)
        previous = block.id
        blocks.append(block)
    return tuple(blocks)


def _put_nodes(value: frozenset[NodeId]) -> bytes:
    return _LENGTH.pack(len(value)) + b"".join(_NUMBER.pack(node) for node in sorted(value))


def _get_nodes(reader: _Reader) -> frozenset[NodeId]:
    (count,) = reader.fields(_LENGTH)
    return frozenset(NodeId(_get_number(reader)) for _ in range(count))


def _put_members(value: Members) -> bytes:
    return _put_nodes(value.voters) + _put_nodes(value.learners)


def _get_members(reader: _Reader) -> Members:
    return Members(voters=_get_nodes(reader), learners=_get_nodes(reader))


_Field = tuple[str, Callable[[Any], bytes], Callable[[_Reader], Any]]


def _flag(name: str) -> _Field:
    return name, _put_flag, _get_flag


def _number(name: str) -> _Field:
    return name, _put_number, _get_number


def _id(name: str) -> _Field:
    return name, _put_id, _get_id


_CHUNK = (
    _id("last"),
    ("members", _put_members, _get_members),
    _number("offset"),
    ("data", _put_bytes, _get_bytes),
    _flag("done"),
    _number("round"),
)

_KINDS: dict[int, tuple[type[Message], tuple[_Field, ...]]] = {
    1: (VoteRequest, (_id("head"), _flag("pre"), _flag("forced"))),
    2: (VoteAnswer, (_flag("pre"), _flag("granted"))),
    3: (
        Append,
        (_id("parent"), ("blocks", _put_blocks, _get_blocks), _id("commit"), _number("round")),
    ),
    4: (AppendAnswer, (_flag("accepted"), _id("last"), _id("hint"), _number("round"))),
    5: (SnapshotChunk, _CHUNK),
    6: (SnapshotAnswer, (_id("last"), _number("next_offset"), _flag("done"), _number("round"))),
    7: (Propose, (_number("number"), ("payload", _put_bytes, _get_bytes))),
    8: (
        ProposeAnswer,
        (_number("number"), _number("asked"), ("block_id", _put_maybe_id, _get_maybe_id)),
    ),
    9: (TakeOver, ()),
    10: (ReadRequest, (_number("number"),)),
    11: (ReadAnswer, (_number("number"), _id("commit"))),
    12: (SnapshotChunk, (*_CHUNK, _number("checksum"))),
}
"""Number on the wire → message and its fields in order. A number is never reused."""

_NUMBERS = {kind: number for number, (kind, _) in _KINDS.items()}
_CHUNK_WITHOUT_CHECKSUM = 5
_VERSIONS = {12: 2}
"""Number → the version that introduced it, if not version 1."""


def encode(message: Message) -> bytes:
    """The bytes of a message."""
    number = _NUMBERS[type(message)]
    if isinstance(message, SnapshotChunk) and message.checksum is None:
        number = _CHUNK_WITHOUT_CHECKSUM
    version, cluster_id = _VERSIONS.get(number, 1), message.cluster_id.encode()
    head = _ENVELOPE.pack(
        version, number, message.sender, message.to, message.term, len(cluster_id)
    )
    fields = _KINDS[number][1]
    return b"".join((head, cluster_id, *(put(getattr(message, name)) for name, put, _ in fields)))


def decode(data: bytes) -> Message:
    """The decoded message. Raises CorruptBlock."""
    reader = _Reader(data)
    version, number, sender, to, term, cluster_id_length = reader.fields(_ENVELOPE)
    if not 1 <= version <= VERSION:
        raise CorruptBlock(f"a message of version {version}; this code speaks 1 to {VERSION}")
    if number not in _KINDS or version != _VERSIONS.get(number, 1):
        raise CorruptBlock(f"a message of unknown kind {number} in version {version}")
    try:
        cluster_id = reader.take(cluster_id_length).decode()
    except UnicodeDecodeError as error:
        raise CorruptBlock("a message whose cluster id is not text") from error
    kind, fields = _KINDS[number]
    values = {name: get(reader) for name, _, get in fields}
    if reader.position != len(data):
        raise CorruptBlock(f"{len(data) - reader.position} bytes after the end of a message")
    return kind(
        sender=NodeId(sender), to=NodeId(to), term=Term(term), cluster_id=cluster_id, **values
    )
