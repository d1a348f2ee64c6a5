"""From a proposal to a block: here if we lead, else through the leader, else wait."""

from raft.block import BlockKind
from raft.core import Core
from raft.messages import Propose, ProposeAnswer

__all__ = ["on_propose", "on_propose_answer", "place_waiting"]

FORWARDED_MAX = 10_000
"""Answers to forwarded proposals that a leader remembers; a duplicate arrives within fewer."""


def place_waiting(core: Core) -> None:
    """Put every waiting proposal on its way, if there is a leader to take it."""
    if core.leader is None:
        return
    leading = core.leading
    if leading is not None and leading.transfer_to is not None:
        return
    for proposal in core.proposals.take_waiting():
        if leading is not None:
            core.proposals.place(proposal.number, core.grow(proposal.kind, proposal.payload))
        else:
            core.send(Propose, core.leader, number=proposal.number, payload=proposal.payload)


def on_propose(core: Core, message: Propose) -> None:
    """Append it if we lead, and say which block it became."""
    leading = core.leading
    block_id = None
    if leading is not None and leading.transfer_to is None:
        key = (message.sender, message.number)
        block_id = leading.forwarded.get(key)
        if block_id is None:
            block_id = core.grow(BlockKind.DATA, message.payload)
            leading.forwarded[key] = block_id
            if len(leading.forwarded) > FORWARDED_MAX:
                del leading.forwarded[next(iter(leading.forwarded))]
    core.send(ProposeAnswer, message.sender, number=message.number, block_id=block_id)


def on_propose_answer(core: Core, message: ProposeAnswer) -> None:
    """Watch the block it became; or wait for the next sign of a leader and ask again."""
    block_id, chain = message.block_id, core.chain
    if block_id is None:
        core.proposals.wait_again(message.number)
        return
    if block_id.height <= chain.root.height:
        return  # a snapshot overtook the answer: nobody can tell any more
    core.proposals.place(message.number, block_id)
    if block_id.height <= chain.commit.height and not chain.on_head_path(block_id):
        core.proposals.dead(block_id)
    elif block_id.height <= core.outbox.applied.height:
        core.proposals.committed(block_id)
