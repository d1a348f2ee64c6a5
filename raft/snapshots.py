"""Snapshots in chunks, for a follower whose next block is below the leader's root (section 7).

One chunk at a time is in flight to a follower; each also counts as a heartbeat. A started snapshot
is sent to its end, even when the leader has made a newer one meanwhile. Chunks of two leaders are
never combined: a new term starts the transfer again, and the whole has a checksum.
"""

from raft.archive import Incoming
from raft.core import Core, Leading
from raft.errors import Refused
from raft.ids import BlockId, Height, NodeId
from raft.messages import SnapshotAnswer, SnapshotChunk
from raft.progress import Progress
from raft.state import Snapshot, snapshot_checksum

__all__ = ["begin_snapshot", "compact", "on_snapshot_chunk", "send_chunk"]

CHECKSUMS = 2
"""The message format that introduced checksums of snapshots."""


def compact(core: Core, data: bytes, last: BlockId) -> None:
    """Replace the blocks up to `last` by `data`, the host's state as of that block."""
    chain, root = core.chain, core.chain.root
    if last.height <= root.height:
        return  # the leader sent a newer snapshot meanwhile
    if last.height > core.outbox.applied.height or not chain.on_head_path(last):
        raise Refused(f"block {last} is not applied here")
    members, cluster_id = core.history.at(last.height)
    core.archive.snapshot = core.outbox.new_snapshot = Snapshot(
        last=last, cluster_id=cluster_id, members=members, data=data
    )
    kept_from = max(root.height, last.height - core.config.tail_blocks_max)
    if kept_from > root.height:
        core.archive.tail.clear()
    core.archive.tail.keep(chain.blocks_between(Height(kept_from), last.height))
    chain.move_root(last)
    core.history.forget_below(last.height)
    core.outbox.count_since(chain.blocks_between(last.height, core.outbox.applied.height))


def begin_snapshot(core: Core, progress: Progress) -> None:
    """Send our snapshot: this follower needs blocks below our root."""
    assert core.archive.snapshot is not None, "a root above genesis has a snapshot"
    progress.send_snapshot(core.archive.snapshot)


def send_chunk(core: Core, leading: Leading, peer: NodeId, progress: Progress) -> None:
    """Send the next chunk (or the same again, if its answer was lost)."""
    transfer = progress.transfer
    assert transfer is not None
    snapshot, offset = transfer.snapshot, transfer.offset
    data = snapshot.data[offset : offset + core.config.snapshot_chunk_bytes]
    core.send(
        SnapshotChunk,
        peer,
        last=snapshot.last,
        members=snapshot.members,
        offset=offset,
        data=data,
        done=offset + len(data) == len(snapshot.data),
        round=leading.round,
        checksum=transfer.checksum if core.format >= CHECKSUMS else None,
    )
    progress.probe_out = True


def on_snapshot_chunk(core: Core, message: SnapshotChunk) -> None:
    """Collect chunks; the complete snapshot replaces our chain, unless we have that block
    anyway."""
    done = message.last.height <= core.chain.commit.height
    if not done and core.chain.on_head_path(message.last):
        core.commit_to(message.last.height)  # a snapshot holds only what is committed
        done = True
    if done:
        core.archive.incoming = None
        _answer(core, message, next_offset=0, done=True)
        return
    source = (message.term, message.last, message.checksum)
    if core.archive.incoming is None or core.archive.incoming.source != source:
        core.archive.incoming = Incoming(source)
    data = core.archive.incoming.data
    if message.offset == len(data):
        data += message.data
        if message.done:
            done = _install(core, message, bytes(data))
            _answer(core, message, next_offset=0, done=done)
            return
    _answer(core, message, next_offset=len(data), done=False)


def _answer(core: Core, message: SnapshotChunk, *, next_offset: int, done: bool) -> None:
    core.send(
        SnapshotAnswer,
        message.sender,
        last=message.last,
        next_offset=next_offset,
        done=done,
        round=message.round,
    )


def _install(core: Core, message: SnapshotChunk, data: bytes) -> bool:
    """Replace the chain by the snapshot: our blocks conflict with it or end before it. False if the
    checksum differs from the leader's: then it must be sent again."""
    snapshot = Snapshot(
        last=message.last, cluster_id=message.cluster_id, members=message.members, data=data
    )
    core.archive.incoming = None
    if message.checksum not in (None, snapshot_checksum(snapshot)):
        return False
    # The store drops blocks at or below the new root by itself.
    dropped = [block.id for block in core.chain if block.id.height > snapshot.last.height]
    core.archive.snapshot = snapshot
    core.archive.tail.clear()
    core.start_anew(snapshot)
    core.requests.proposals.snapshot_came(snapshot.last)
    core.outbox.install(snapshot, dropped)
    return True
