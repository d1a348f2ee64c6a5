"""A message as one line of a trace: who says what to whom."""

from collections.abc import Callable
from typing import Any

from raft import Message
from raft.messages import (
    Append,
    AppendAnswer,
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

__all__ = ["describe"]


def describe(message: Message) -> str:
    """Sender, receiver, kind, term, and what matters of the rest."""
    said = _DESCRIBE[type(message)](message)
    return f"{message.sender}>{message.to} term {message.term}: {said}"


def _append(message: Append) -> str:
    blocks = " ".join(str(block.id) for block in message.blocks)
    return f"append after {message.parent}: {blocks or 'nothing'}, commit {message.commit}"


def _append_answer(message: AppendAnswer) -> str:
    if message.accepted:
        return f"has {message.last}"
    return f"lacks {message.last}, try {message.hint}"


def _vote_request(message: VoteRequest) -> str:
    kind = "pre-vote?" if message.pre else "vote? (the leader asked)" if message.forced else "vote?"
    return f"{kind} head {message.head}"


def _vote_answer(message: VoteAnswer) -> str:
    return f"{'pre-vote' if message.pre else 'vote'} {'granted' if message.granted else 'refused'}"


def _chunk(message: SnapshotChunk) -> str:
    end = message.offset + len(message.data)
    last = ", the last" if message.done else ""
    return f"snapshot up to {message.last}, bytes {message.offset} to {end}{last}"


def _chunk_answer(message: SnapshotAnswer) -> str:
    done = "installed" if message.done else f"go on at byte {message.next_offset}"
    return f"snapshot up to {message.last}: {done}"


def _propose_answer(message: ProposeAnswer) -> str:
    return f"it is block {message.block_id}" if message.block_id else "not appended"


_DESCRIBE: dict[type[Message], Callable[[Any], str]] = {
    Append: _append,
    AppendAnswer: _append_answer,
    VoteRequest: _vote_request,
    VoteAnswer: _vote_answer,
    TakeOver: lambda _: "take over",
    SnapshotChunk: _chunk,
    SnapshotAnswer: _chunk_answer,
    Propose: lambda message: f"propose {message.payload.decode()}",
    ProposeAnswer: _propose_answer,
    ReadRequest: lambda _: "where may I read?",
    ReadAnswer: lambda message: f"read at {message.commit}",
}
