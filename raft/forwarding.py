"""Requests that only the leader can serve: handled here, forwarded, or kept until there is one.

A proposal becomes a block; a read learns which block must be applied before it may look.
"""

from raft.block import BlockKind
from raft.core import Core
from raft.ids import BlockId
from raft.messages import Propose, ProposeAnswer, ReadAnswer, ReadRequest
from raft.proposals import Result, fate_below

__all__ = [
    "ask_again",
    "on_propose",
    "on_propose_answer",
    "on_read_answer",
    "on_read_request",
    "place_waiting",
    "send_reads",
]


def place_waiting(core: Core) -> None:
    """Append or forward every waiting proposal, if a leader is known."""
    if core.leader is None:
        return
    leading = core.leading
    if leading is not None and leading.transfer_to is not None:
        return
    proposals = core.requests.proposals
    for proposal in proposals.take_waiting():
        if leading is not None:
            proposals.place(proposal.number, core.grow(proposal.kind, proposal.payload))
        else:
            proposals.sent(proposal.number, core.term, _again_ms(core))
            core.send(Propose, core.leader, number=proposal.number, payload=proposal.payload)


def ask_again(core: Core) -> None:
    """Resend proposals without an answer: a message may be lost while the leader is alive. A
    duplicate creates no second block."""
    if core.leader is None or core.leading is not None:
        return
    for number, payload in core.requests.proposals.resend(core.now_ms, _again_ms(core), core.term):
        core.send(Propose, core.leader, number=number, payload=payload)


def _again_ms(core: Core) -> int:
    return core.now_ms + core.config.election_timeout_ms


def on_propose(core: Core, message: Propose) -> None:
    """Append it if we lead the very term it was sent in, and answer with its block.

    "Not appended" lets the sender retry, so it is sent only when no copy of this message was or
    will be appended. The answer is remembered. A node that may have forgotten it, or may have led
    in that term before a restart, does nothing (see `forwarded.py`; the proposal then ends with its
    term, see `sent.py`).
    """
    sender, term, number = message.sender, message.term, message.number
    forwarded = core.requests.forwarded
    if not forwarded.knows(sender, term, number):
        leading = core.leading
        block_id = None
        if forwarded.may_have_appended(sender, term, number):
            return
        if leading is not None and leading.transfer_to is None and term == core.term:
            block_id = core.grow(BlockKind.DATA, message.payload)
        elif not forwarded.can_refuse(term):
            return
        forwarded.remember(sender, term, number, block_id)
    block_id = forwarded.answer(sender, term, number)
    core.send(ProposeAnswer, sender, number=number, asked=term, block_id=block_id)


def on_propose_answer(core: Core, message: ProposeAnswer) -> None:
    """Watch the block it became; or wait for the next sign of a leader and send it again.

    The answer describes a completed event, so it is valid however late it arrives, in any later
    term.
    """
    block_id = message.block_id
    if block_id is None:
        core.requests.proposals.wait_again(message.number, message.asked)
        return
    core.requests.proposals.place(message.number, block_id)
    result = _fate(core, block_id)
    if result is not None:
        core.requests.proposals.end_block(block_id, result)


def _fate(core: Core, block_id: BlockId) -> Result | None:
    """The fate of this block in our chain; None: undecided, or not applied here yet."""
    root = core.chain.root
    if block_id.height < root.height:
        kept = core.archive.tail.id_at(block_id.height)
        return fate_below(root if kept is None else kept, block_id)
    if core.is_overtaken(block_id):
        return Result.DEAD
    return Result.COMMITTED if block_id.height <= core.outbox.applied.height else None


def send_reads(core: Core) -> None:
    """Send all queued reads to the leader as one request; the leader itself uses replication."""
    if core.leading is None and core.leader is not None and core.requests.reads.has_queued:
        core.send(ReadRequest, core.leader, number=core.requests.reads.send(core.now_ms))


def on_read_request(core: Core, message: ReadRequest) -> None:
    """Like a local read; if we do not lead, we stay silent and the sender asks the next leader."""
    if core.leading is not None:
        core.requests.reads.add_for(message.sender, message.number)


def on_read_answer(core: Core, message: ReadAnswer) -> None:
    """The sender led after our request, so the answer holds even if another node leads now."""
    core.requests.reads.answered(message.number, message.commit)
