"""The processing of Raft's Ready: store, apply, sync, send, advance (raft.Ready has the reasons).

Rules: committed blocks are applied in order, once, and before any answer reports them. Applying
does not wait for a sync that it does not depend on. Messages are sent when their batch is durable.
A batch that finds no disk space waits for it, as for a slow disk, and everything else continues.
Only committed blocks bind this broker to a cluster.
"""

from __future__ import annotations

from collections.abc import Callable

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.lasting import Lasting
from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.peers import Peers
from josefine_broker.engine.context import Context
from josefine_broker.engine.metadata.changes import At
from josefine_broker.engine.metadata.image import MetadataImage
from josefine_broker.engine.metadata_quorum.apply_committed import (
    apply_block,
    name_cluster,
    replace_image,
)
from josefine_broker.engine.metadata_quorum.quorum import Quorum
from josefine_broker.engine.outbox import Outbox
from raft import Block, BlockKind, Ready, Snapshot

ROOM_CHECK_MS = 100
"""How often a write that found no space is repeated."""

Applied = Callable[[At, bytes | None], None]
"""Called after the image has this block, with its payload; None after a snapshot."""


class RaftWork:
    """The Ready processing of one broker; the Ready in hand belongs to the quorum."""

    def __init__(
        self, quorum: Quorum, ctx: Context, peers: Peers, outbox: Outbox, on_applied: Applied
    ) -> None:
        self._quorum = quorum
        self._ctx = ctx
        self._peers = peers
        self._outbox = outbox
        self._on_applied = on_applied
        self._store_again_ms: int | None = None
        self._lack = Lasting(outbox.tell, "no room for metadata")

    def take(self) -> bool:
        """Start the next Ready, if any; without a batch to store it is processed at once."""
        work = self._quorum.take()
        if work is None:
            return False
        if work.batch is None:
            self._apply(work)
            self._finish(work)
        else:
            self._put_out()
        return True

    def tick(self, now_ms: int) -> None:
        """Repeat a write that found no space, when it is due."""
        if self._store_again_ms is not None and now_ms >= self._store_again_ms:
            self._store_again_ms = None
            self._put_out()

    def wake_at_ms(self) -> int | None:
        return self._store_again_ms

    def appended(self, now_ms: int) -> None:
        """The batch in hand is written."""
        self._quorum.lacks_room = self._ctx.storage.metadata_lacks = ""
        self._lack.end(now_ms, "room for metadata again")
        self._apply(self._in_hand())

    def synced(self) -> None:
        """The batch in hand is durable."""
        self._finish(self._in_hand())

    def found_no_room(self, reason: str, now_ms: int) -> None:
        """No part of the batch in hand was written."""
        self._lack.goes_on(now_ms, reason)
        self._quorum.lacks_room = self._ctx.storage.metadata_lacks = reason
        # Raft allows the delay: to the others this broker is a slow one. It acknowledges nothing
        # meanwhile.
        self._store_again_ms = now_ms + ROOM_CHECK_MS

    # -- the steps

    def _in_hand(self) -> Ready:
        """The host reports on a batch only while one is being stored: anything else is a broken
        invariant."""
        work = self._quorum.in_hand
        assert work is not None, "nothing is being stored"
        return work

    def _put_out(self) -> None:
        """Give the batch to the host. With blocks to apply or outcomes to report, the sync is a
        step of its own: these wait for the write alone."""
        work = self._in_hand()
        assert work.batch is not None
        self._outbox.ready.store = e.Store(work.batch, bool(work.committed or work.outcomes))

    def _apply(self, work: Ready) -> None:
        """Snapshot, blocks, then outcomes: a proposal's result may only be reported when its effect
        is in the image."""
        if work.installed is not None:
            self._install(work.installed)
        for block in work.committed:
            self._apply_block(block)
        for outcome in work.outcomes:
            self._quorum.ended(outcome)

    def _install(self, snapshot: Snapshot) -> None:
        """Replace the image by the leader's snapshot. Raises Fatal if this broker cannot read it:
        it would continue with an image that the others no longer have."""
        try:
            image = MetadataImage.from_bytes(snapshot.data)
        except CorruptData as error:
            raise Fatal(f"a snapshot that this broker cannot read: {error}") from error
        # The identity comes after the image: a broker that dies in between has bound itself to
        # nothing.
        replace_image(self._ctx, image, snapshot.last.height)
        self._born(snapshot.cluster_id)
        self._quorum.applied = snapshot.last
        self._on_applied(At(*snapshot.last), None)

    def _apply_block(self, block: Block) -> None:
        """Apply one committed block. Births, member changes and the empty block of a new leader do
        not change the image."""
        at = At(*block.id)
        if block.kind is BlockKind.DATA:
            apply_block(self._ctx, block.payload, at)
        elif block.kind is BlockKind.BIRTH:
            self._born(self._quorum.node.status().cluster_id)
        self._quorum.applied = block.id
        if block.kind is BlockKind.DATA:
            self._on_applied(at, block.payload)

    def _born(self, cluster_id: str) -> None:
        """The cluster has a name: this broker belongs to it, for good."""
        self._peers.cluster_id = self._outbox.ready.belongs_to = cluster_id
        name_cluster(self._ctx, cluster_id)

    def _finish(self, work: Ready) -> None:
        """The batch is durable: only now may others learn of the vote or the blocks in it (Raft,
        5.1)."""
        for message in work.messages:
            if message.cluster_id and not self._peers.cluster_id:
                # The message's sender is beyond the commit that names the cluster. Here that block
                # is durable but waits for the next batch to be applied.
                self._outbox.ready.belongs_to = message.cluster_id
            self._outbox.send(message.to, message)
        self._quorum.done()
        # Between two batches, when no block of the image is half applied.
        if self._quorum.is_snapshot_due():
            self._quorum.compact(self._ctx.image.to_bytes())
