"""Messages and their bytes: inverse, and nothing else is understood."""

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.block import BlockKind, make_block
from raft.codec import VERSION, decode, encode
from raft.errors import CorruptBlock
from raft.ids import BlockId, Height, NodeId, Term
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

numbers = st.integers(0, 2**63)
ids = st.builds(lambda t, h: BlockId(Term(t), Height(h)), numbers, numbers)
nodes = numbers.map(NodeId)
node_sets = st.frozensets(nodes, max_size=4)
payloads = st.binary(max_size=50)
blocks = st.builds(
    lambda parent, kind, payload: make_block(parent, parent.term, kind, payload),
    st.builds(lambda t, h: BlockId(Term(t), Height(h)), numbers, st.integers(0, 2**62)),
    st.sampled_from(BlockKind),
    payloads,
)

BY_NAME = {
    "sender": nodes,
    "to": nodes,
    "term": numbers.map(Term),
    "cluster_id": st.text(max_size=20),
    "head": ids,
    "last": ids,
    "hint": ids,
    "parent": ids,
    "commit": ids,
    "block_id": st.none() | ids,
    "asked": numbers.map(Term),
    "blocks": st.lists(blocks, max_size=3).map(tuple),
    "members": st.builds(Members, voters=node_sets, learners=node_sets),
    "data": payloads,
    "payload": payloads,
    "checksum": st.none() | st.integers(0, 2**32 - 1),
} | dict.fromkeys(["pre", "forced", "granted", "accepted", "done"], st.booleans())
KINDS = [
    VoteRequest, VoteAnswer, Append, AppendAnswer, SnapshotChunk, SnapshotAnswer,
    Propose, ProposeAnswer, TakeOver, ReadRequest, ReadAnswer,
]  # fmt: skip


def of_kind(kind: type[Message]) -> st.SearchStrategy[Message]:
    return st.builds(kind, **{f.name: BY_NAME.get(f.name, numbers) for f in fields(kind)})


messages = st.one_of([of_kind(kind) for kind in KINDS])


@given(messages)
def test_every_message_survives_its_encoding(message: Message) -> None:
    assert decode(encode(message)) == message


@given(messages, st.data())
def test_a_message_cut_off_or_continued_is_refused(message: Message, data: st.DataObject) -> None:
    whole = encode(message)
    size = data.draw(st.integers(0, len(whole) - 1))

    with pytest.raises(CorruptBlock):
        decode(whole[:size])
    with pytest.raises(CorruptBlock):
        decode(whole + b"\0")


@given(st.binary(max_size=200))
def test_garbage_is_refused(data: bytes) -> None:
    try:
        message = decode(data)
    except CorruptBlock:
        return
    assert encode(message) == data


def test_another_version_and_an_unknown_kind_are_refused_by_name() -> None:
    good = encode(TakeOver(sender=NodeId(1), to=NodeId(2), term=Term(3), cluster_id="c"))

    with pytest.raises(CorruptBlock, match=f"version 9; this code speaks 1 to {VERSION}"):
        decode(b"\x09" + good[1:])
    with pytest.raises(CorruptBlock, match="unknown kind 77"):
        decode(good[:1] + b"\x4d" + good[2:])


def test_a_chunk_without_a_checksum_has_the_bytes_that_older_code_reads() -> None:
    """Written by the code before there was one."""
    old = bytes.fromhex(
        "0105000000000000000100000000000000020000000000000003000163000000000000000300"
        "0000000000000500000002000000000000000100000000000000020000000000000000000000"
        "04000000057374617465010000000000000007"
    )
    chunk = decode(old)

    assert isinstance(chunk, SnapshotChunk)
    assert (chunk.data, chunk.checksum) == (b"state", None)
    assert encode(chunk) == old
    with_checksum = encode(replace(chunk, checksum=7))
    assert with_checksum[0] == 2, "older code refuses it by its version"
    with pytest.raises(CorruptBlock, match="unknown kind 12 in version 1"):
        decode(b"\x01" + with_checksum[1:])
