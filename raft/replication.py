"""Appending and committing, both sides (sections 5.3 and 5.4.2, thesis 6.2 to 6.4)."""

from collections.abc import Iterable

from raft.block import Block, BlockKind, block_bytes
from raft.core import Core, Leading
from raft.errors import InvariantBroken
from raft.forwarding import place_waiting
from raft.ids import GENESIS, BlockId, Height, NodeId
from raft.members import encode_members
from raft.messages import Append, AppendAnswer, ReadAnswer, SnapshotAnswer, SnapshotChunk, TakeOver
from raft.progress import Flow, Progress
from raft.roles import Role, RoleEvent
from raft.snapshots import begin_snapshot, on_snapshot_chunk, send_chunk

__all__ = [
    "advance_commit",
    "begin_anew",
    "on_append",
    "on_append_answer",
    "on_snapshot_answer",
    "replicate",
    "start_leading",
    "take_chunk",
    "tick_leader",
]


def start_leading(core: Core) -> None:
    """Start to lead with a block at once: nothing older commits without one of its term (5.4.2)."""
    config, chain = core.config, core.chain
    core.leading = Leading(
        now_ms=core.now_ms,
        quorum_due_ms=core.now_ms + config.election_timeout_ms,
        own_match=chain.commit.height,
    )
    core.leader = core.id
    _match_members(core, core.leading)  # so that the first append brings the first block
    if core.history.cluster_id:
        core.grow(BlockKind.EMPTY, b"")
    else:
        core.grow(BlockKind.BIRTH, encode_members(core.members, config.cluster_id))
    place_waiting(core)


def tick_leader(core: Core, leading: Leading) -> None:
    """Send due heartbeats; step down when a majority no longer answers (check-quorum)."""
    if core.now_ms >= leading.heartbeat_due_ms:
        leading.heartbeat_due_ms = core.now_ms + core.config.heartbeat_ms
        leading.round += 1
        for peer, progress in sorted(leading.progress.items()):
            progress.probe_out = False
            _send(core, leading, peer, progress, with_blocks=False)
    if leading.transfer_to is not None and core.now_ms >= leading.transfer_end_ms:
        leading.transfer_to = None
        place_waiting(core)
    if core.now_ms >= leading.quorum_due_ms:
        timeout = core.config.election_timeout_ms
        leading.quorum_due_ms = core.now_ms + timeout
        heard = {core.id} | {
            peer for peer, p in leading.progress.items() if p.answered_ms > core.now_ms - timeout
        }
        if len(heard & core.members.voters) < core.members.majority:
            core.change_role(RoleEvent.QUORUM_LOST)
            core.candidacy.reset(core.now_ms)


def replicate(core: Core) -> None:
    """Send every follower the blocks its window allows, and the commit it does not know yet."""
    leading = core.leading
    if leading is None:
        return
    _match_members(core, leading)
    for peer, progress in leading.progress.items():
        if progress.flow is Flow.SNAPSHOT and not progress.probe_out:
            send_chunk(core, leading, peer, progress)
        while progress.next <= core.chain.head.height and progress.may_send_blocks(
            core.config.append_inflight_max
        ):
            _send(core, leading, peer, progress, with_blocks=True)
        if progress.flow is Flow.REPLICATE and progress.commit_sent < core.chain.commit.height:
            _send(core, leading, peer, progress, with_blocks=False)
    if core.requests.reads.has_queued and core.chain.commit.term == core.term:
        _ask_round(core, leading)


def begin_anew(core: Core, leading: Leading, peer: NodeId) -> None:
    """Reset a follower's progress; late answers from its earlier run do not count.

    An answer carries the round of the message it answers: a new round separates the two runs.
    """
    leading.round += 1
    next_height = Height(core.chain.head.height + 1)
    leading.progress[peer] = Progress(next_height, core.now_ms, since_round=leading.round)


def _match_members(core: Core, leading: Leading) -> None:
    """Keep progress for exactly the members of the head path, except this node."""
    wanted = core.members.all - {core.id}
    if leading.progress.keys() != wanted:
        for peer in wanted.difference(leading.progress):
            next_height = Height(core.chain.head.height + 1)
            leading.progress[peer] = Progress(next_height, core.now_ms)
        for peer in set(leading.progress).difference(wanted):
            del leading.progress[peer]


def _ask_round(core: Core, leading: Leading) -> None:
    """Read-index: start a round that proves that we still lead."""
    leading.round += 1
    core.requests.reads.ask(leading.round, core.chain.commit)
    for peer, progress in leading.progress.items():
        _send(core, leading, peer, progress, with_blocks=False)
    _confirm_rounds(core, leading)


def _confirm_rounds(core: Core, leading: Leading) -> None:
    rounds = {peer: p.round for peer, p in leading.progress.items()} | {core.id: leading.round}
    answered = sorted((rounds.get(voter, 0) for voter in core.members.voters), reverse=True)
    for asker, number, commit in core.requests.reads.confirm(answered[core.members.majority - 1]):
        core.send(ReadAnswer, asker, number=number, commit=commit)


def _send(
    core: Core, leading: Leading, peer: NodeId, progress: Progress, *, with_blocks: bool
) -> None:
    """Send one append; or a snapshot chunk, when the follower needs blocks below our root."""
    chain = core.chain
    parent_height = Height(progress.next - 1)
    parent = _path_id(core, parent_height)
    if progress.flow is not Flow.SNAPSHOT and parent is None:
        begin_snapshot(core, progress)
    if progress.flow is Flow.SNAPSHOT:
        send_chunk(core, leading, peer, progress)
        return
    assert parent is not None
    blocks = _blocks_to_send(core, parent_height) if with_blocks else ()
    last = blocks[-1].id.height if blocks else parent_height
    core.send(
        Append,
        peer,
        parent=parent,
        blocks=blocks,
        commit=chain.commit,
        round=leading.round,
    )
    progress.sent(last, chain.commit.height)


def _path_id(core: Core, height: Height) -> BlockId | None:
    """The id at this height of our path; None below the blocks in memory."""
    if height >= core.chain.root.height:
        return core.chain.id_at(height)
    return core.archive.tail.id_at(height)


def _blocks_to_send(core: Core, parent_height: Height) -> tuple[Block, ...]:
    """As many blocks as fit into one message, at least one; blocks of the tail only up to the
    root."""
    chain, size = core.chain, 0
    pending: Iterable[Block] = (
        core.archive.tail.after(parent_height)
        if parent_height < chain.root.height
        else chain.blocks_after(parent_height)
    )
    blocks: list[Block] = []
    for block in pending:
        size += block_bytes(block)
        if blocks and size > core.config.append_bytes_max:
            break
        blocks.append(block)
    return tuple(blocks)


def on_append(core: Core, message: Append) -> None:
    """Take the leader's blocks, follow its branch, acknowledge its last block and no more."""
    _heed_leader(core, message.sender)
    chain, last = core.chain, message.last
    parent, blocks = message.parent, message.blocks
    if parent.height < chain.root.height:  # a late message that starts below our snapshot
        blocks = tuple(block for block in blocks if block.id.height > chain.root.height)
        parent = blocks[0].parent if blocks else chain.root
        if not blocks:
            # Below the root our blocks are gone, so we cannot compare: acknowledge only the root,
            # which is committed and therefore on the leader's path.
            root, round_ = chain.root, message.round
            core.send(
                AppendAnswer, message.sender, accepted=True, last=root, hint=root, round=round_
            )
            return
    if not chain.is_live(parent):
        _answer(core, message, accepted=False)
        return
    core.outbox.add_blocks(chain.extend(blocks))
    if not chain.on_head_path(last):
        core.follow(last)
    commit = Height(min(message.commit.height, last.height))
    if commit > chain.commit.height:
        core.commit_to(commit)
    _answer(core, message, accepted=True)


def take_chunk(core: Core, message: SnapshotChunk) -> None:
    """Take a snapshot chunk, which proves a live leader as an append does."""
    _heed_leader(core, message.sender)
    on_snapshot_chunk(core, message)


def _heed_leader(core: Core, leader: NodeId) -> None:
    """Note the leader of our term, which alone sends this message."""
    if core.role is not Role.FOLLOWER or core.leader is None:
        core.change_role(RoleEvent.LEADER_FOUND)
        core.leader = leader
    elif core.leader != leader:
        raise InvariantBroken(f"{core.leader} and {leader} both lead term {core.term}")
    core.candidacy.hear_leader(core.now_ms)
    core.requests.reads.send_again(core.now_ms - core.config.heartbeat_ms)
    place_waiting(core)


def _answer(core: Core, message: Append, *, accepted: bool) -> None:
    last = message.last if accepted else message.parent
    hint = last if accepted else core.chain.last_at_most(message.parent) or core.chain.root
    core.send(
        AppendAnswer,
        message.sender,
        accepted=accepted,
        last=last,
        hint=hint,
        round=message.round,
    )


def on_append_answer(core: Core, message: AppendAnswer) -> None:
    """Move this follower's window and try to commit."""
    heard = _note_contact(core, message)
    if heard is None:
        return
    leading, progress = heard
    if not message.accepted:
        _probe_back(core, leading, progress, message)
    elif _is_ours(core, message.last):
        progress.acknowledge(message.last.height, leading.round)
        advance_commit(core)
        _finish_transfer(core, leading, message.sender)


def _note_contact(
    core: Core, message: AppendAnswer | SnapshotAnswer
) -> tuple[Leading, Progress] | None:
    """Record contact with a follower; None: an answer to an earlier leadership, or from a
    stranger."""
    leading = core.leading
    progress = leading.progress.get(message.sender) if leading is not None else None
    if leading is None or progress is None or message.round < progress.since_round:
        return None
    progress.answered_ms = core.now_ms
    progress.round = max(progress.round, message.round)
    _confirm_rounds(core, leading)
    return leading, progress


def on_snapshot_answer(core: Core, message: SnapshotAnswer) -> None:
    """Send the next chunk, or blocks again when the snapshot is installed."""
    heard = _note_contact(core, message)
    if heard is None:
        return
    leading, progress = heard
    transfer = progress.transfer
    if transfer is None or transfer.snapshot.last != message.last:
        return
    if message.done:
        progress.acknowledge(message.last.height, leading.round)
        advance_commit(core)
    elif transfer.is_news(message.next_offset, message.round):
        transfer.move_to(message.next_offset, leading.round)
        progress.probe_out = False


def _is_ours(core: Core, id_: BlockId) -> bool:
    """On our path, or below our root: every block we ever sent descends from the root."""
    return core.chain.on_head_path(id_) or id_.height < core.chain.root.height


def _probe_back(core: Core, leading: Leading, progress: Progress, message: AppendAnswer) -> None:
    """The follower lacks `last`: probe at the highest block that can be on both paths."""
    refused = message.last.height
    if progress.match is not None and refused <= progress.match:
        # Usually a late answer: the follower has that block by now. But this may answer a message
        # that was sent after the acknowledgement arrived: then the follower has lost the block
        # since, as a voter whose chain was damaged (`promises.py`).
        if message.round > progress.matched_round:
            begin_anew(core, leading, message.sender)
        return
    if progress.flow is Flow.PROBE and refused != progress.next - 1:
        return  # an answer to an earlier probe
    hint = message.hint
    meeting = core.chain.last_at_most(hint) or core.archive.tail.last_at_most(hint)
    if meeting is None:
        begin_snapshot(core, progress)
    else:
        progress.probe_from(Height(meeting.height + 1))


def advance_commit(core: Core) -> None:
    """Commit up to the highest block of our own term that a majority has (5.4.2).

    Counting replicas of an older term's block is not enough: a later leader could still replace it
    (figure 8 of the paper).
    """
    leading, chain = core.leading, core.chain
    if leading is None:
        return
    # Our own vote counts only for durable blocks, as a follower's does.
    unsynced, own = core.outbox.unsynced, leading.own_match
    while own < chain.head.height and chain.id_at(Height(own + 1)) not in unsynced:
        own = Height(own + 1)
    leading.own_match = own
    matches: list[int] = []
    for voter in core.members.voters:
        progress = leading.progress.get(voter)
        match = own if voter == core.id else progress.match if progress is not None else None
        matches.append(GENESIS.height if match is None else match)
    matches.sort(reverse=True)
    height = Height(matches[core.members.majority - 1])
    if height > chain.commit.height and chain.id_at(height).term == core.term:
        core.commit_to(height)
        if core.id not in core.members.voters and core.history.height <= height:
            core.change_role(RoleEvent.REMOVED)


def _finish_transfer(core: Core, leading: Leading, peer: NodeId) -> None:
    """Let the target of the transfer start its election once it has our head."""
    if leading.transfer_to == peer and leading.progress[peer].match == core.chain.head.height:
        core.send(TakeOver, peer)


def offer_takeover(core: Core, leading: Leading, to: NodeId) -> None:
    """Start the transfer; at once if `to` is up to date."""
    leading.transfer_to = to
    leading.transfer_end_ms = core.now_ms + core.config.election_timeout_ms
    if to in leading.progress:
        _finish_transfer(core, leading, to)
