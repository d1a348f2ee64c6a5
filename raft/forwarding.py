"""What is asked of us and only a leader can do: here if we lead, else by the leader, else later.

A proposal becomes a block; a read learns the block that must be applied before it may look.
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
    """Put every waiting proposal on its way, if there is a leader to take it."""
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
    """A message may be lost though its leader lives: send it once more, it makes one block."""
    if core.leader is None or core.leading is not None:
        return
    for number, payload in core.requests.proposals.resend(core.now_ms, _again_ms(core), core.term):
        core.send(Propose, core.leader, number=number, payload=payload)


def _again_ms(core: Core) -> int:
    return core.now_ms + core.config.election_timeout_ms


def on_propose(core: Core, message: Propose) -> None:
    """Append it if we lead the very term it was sent in, and say which block it became.

    "Not appended" lets the sender try again, so it is said only when no copy of this message was
    or will be appended: the answer is remembered, and a node that may have forgotten it, or may
    have led in that term before a restart, does nothing (see `forwarded.py`; the proposal then ends
    with its term, see `sent.py`).
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
    """Watch the block it became; or wait for the next sign of a leader and ask again.

    The answer says what was done once, so it holds however late it comes, and in any later term.
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
    """What our chain says of this block by now; None: not decided, or not applied here yet."""
    root = core.chain.root
    if block_id.height < root.height:
        kept = core.archive.tail.id_at(block_id.height)
        return fate_below(root if kept is None else kept, block_id)
    if core.is_overtaken(block_id):
        return Result.DEAD
    return Result.COMMITTED if block_id.height <= core.outbox.applied.height else None


def send_reads(core: Core) -> None:
    """Queued reads go to the leader, all with one question; on the leader, replication asks."""
    if core.leading is None and core.leader is not None and core.requests.reads.has_queued:
        core.send(ReadRequest, core.leader, number=core.requests.reads.send(core.now_ms))


def on_read_request(core: Core, message: ReadRequest) -> None:
    """As for a read of our own; if we do not lead, the sender finds out and asks who does."""
    if core.leading is not None:
        core.requests.reads.add_for(message.sender, message.number)


def on_read_answer(core: Core, message: ReadAnswer) -> None:
    """It was said by one who led after our question, so it holds whoever leads now."""
    core.requests.reads.answered(message.number, message.commit)
