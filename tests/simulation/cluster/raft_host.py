"""The host of one Raft node in virtual time: writes, applies, syncs, sends, in raft/README's order.

What `josefine_broker/shell/raft_host.py` does with threads and tasks; the node and its block file
are the real ones.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.core.changes import At
from josefine_broker.core.door import Speech, why_not_payload
from josefine_broker.core.image import MetadataImage
from josefine_broker.core.membership import MemberChange
from josefine_broker.core.proposals import may_propose_again
from josefine_broker.handlers.blocks import apply_block, replace_image
from josefine_broker.handlers.controlling import RaftView
from raft import (
    BlockFile,
    BlockKind,
    Config,
    Message,
    Node,
    NodeId,
    Outcome,
    Ready,
    Refused,
    Result,
    Role,
    StoreFull,
)
from raft.codec import decode, encode
from raft.messages import Propose

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["RaftHost"]

HEARTBEAT_MS = 80
ELECTION_TIMEOUT_MS = 400
SNAPSHOT_BLOCKS = 15
TAIL_BLOCKS = 2
PROPOSE_AGAIN_MS = 20
ROOM_CHECK_MS = 100
WIRE_EVERY = 16
"""Every so many messages go through their encoding; codec.py has its own proof."""


class RaftHost:
    """Implements `handlers.context.RaftPort`. One per process."""

    def __init__(self, process: Process, voters: tuple[int, ...]) -> None:
        self._process = process
        machine = process.machine
        self.store, recovered = BlockFile.open(
            machine.raft_disk, NodeId(machine.id), segment_bytes=16_384
        )
        config = Config(
            node_id=NodeId(machine.id),
            initial_voters=tuple(NodeId(each) for each in voters),
            cluster_id=f"proposed by {machine.id}",
            heartbeat_ms=HEARTBEAT_MS,
            election_timeout_ms=ELECTION_TIMEOUT_MS,
            snapshot_chunk_bytes=1024,
            tail_blocks_max=TAIL_BLOCKS,
        )
        rng = Random(machine.rng.getrandbits(64))
        now_ms = machine.clock.monotonic_ms()
        self.node = Node(config, recovered, now_ms=now_ms, rng=rng)
        self._busy: Ready | None = None
        self._wake_ms: int | None = None
        self._sent = 0
        self._view: tuple[object, ...] = ()
        self._open: dict[int, tuple[bytes, int]] = {}

    def propose(self, payload: bytes, deadline_ms: int) -> object:
        self._process.touch_raft()
        now_ms = self._process.clock.monotonic_ms()
        try:
            proposal = self.node.propose(payload, now_ms, deadline_ms)
        except Refused as error:
            raise KafkaError(ErrorCode.request_timed_out, str(error)) from error
        self._open[proposal.number] = payload, deadline_ms
        return proposal

    def _ended(self, outcome: Outcome) -> None:
        """Propose it again, as `quorum.py` does."""
        payload, deadline_ms = self._open.pop(outcome.number)
        is_dead = outcome.result is Result.DEAD
        process = self._process
        if outcome.result is Result.COMMITTED or process.clock.monotonic_ms() >= deadline_ms:
            return
        if may_propose_again(payload, is_dead=is_dead):
            process.world.met["change proposed again"] += 1
            process.after_ms(PROPOSE_AGAIN_MS, partial(self._propose_again, payload, deadline_ms))

    def _propose_again(self, payload: bytes, deadline_ms: int) -> None:
        with suppress(KafkaError):
            self.propose(payload, deadline_ms)

    def hand_over(self) -> bool:
        """Let another voter lead; whether this one does not any more."""
        if not self.leads:
            return True
        live = self._process.ctx.image.live_brokers()
        followers = self.node.followers()
        best = max(followers, key=lambda each: (each in live, followers[each].match or -1))
        with suppress(Refused):
            self.node.transfer_leadership(best, self._process.clock.monotonic_ms())
            self._process.world.met["raft leadership handed over"] += 1
            self._process.touch_raft()
        return False

    def change_members(self, change: MemberChange) -> None:
        """All brokers are voters from the beginning: there is never one."""
        raise AssertionError(f"the controller wants other members: {change}")

    def step(self, peer: int, message: Message) -> None:
        """A frame of a broker of the cluster: the door lets every one of them in."""
        refusal = self.refusal(peer, message)
        assert refusal is None, f"{self._process.machine.id} refused {message}: {refusal}"
        self._process.gone.discard(message.sender)
        self.node.step(message, self._process.clock.monotonic_ms())

    def refusal(self, peer: int, message: Message) -> str | None:
        """As `membership.py` asks the door."""
        refusal = self._process.door(peer, Speech.RAFT, message.sender)
        if refusal is None and isinstance(message, Propose):
            refusal = why_not_payload(message.payload)
        return refusal

    @property
    def leads(self) -> bool:
        return self.node._core.role is Role.LEADER

    def pump(self) -> None:
        """Give the disk its next work, if it is idle; plan the next tick."""
        node = self.node
        if self._busy is None:
            self._look()
        while self._busy is None and node.has_ready():
            self._busy = node.ready()
            self._write()
        self._plan_tick()

    def _write(self) -> None:
        """Once there is room; then apply, and sync."""
        process, ready = self._process, self._busy
        assert ready is not None
        if ready.batch is not None:
            try:
                self.store.append(ready.batch)
            except StoreFull:
                process.world.met["metadata found no room"] += 1
                self._look()
                process.after_ms(ROOM_CHECK_MS, self._write_again)
                return
        self._apply(ready)
        if ready.batch is not None and ready.batch.must_sync:
            disk = process.machine.disk
            delay_ms = 1 + process.world.dice(3) + disk.delay_ms()
            process.after_ms(delay_ms, self._synced)
        else:
            self._finish()

    def _write_again(self) -> None:
        self._process.touch_raft()
        self._write()

    def _apply(self, ready: Ready) -> None:
        process = self._process
        if ready.installed is not None:
            came = ready.batch is not None and ready.batch.snapshot is not None
            process.world.met["snapshot installed"] += came
            image = MetadataImage.from_bytes(ready.installed.data)
            replace_image(process.ctx, image, ready.installed.last.height)
            process.born(ready.installed.cluster_id)
            process.applied(At(*ready.installed.last), None)
        for block in ready.committed:
            if block.kind is BlockKind.DATA:
                apply_block(process.ctx, block.payload, At(*block.id))
                process.applied(At(*block.id), block.payload)
            elif block.kind is BlockKind.BIRTH:
                process.born(self.node.status().cluster_id)
        for outcome in ready.outcomes:
            self._ended(outcome)

    def _synced(self) -> None:
        self._process.touch_raft()
        self.store.sync()
        is_birth = self.leads and self.node.chain.commit.height == 0
        if not (is_birth and self._process.world.breaks_birth(self._process)):
            self._finish()

    def _finish(self) -> None:
        ready, self._busy = self._busy, None
        assert ready is not None
        for message in ready.messages:
            self._send(message)
        self.node.advance()
        self._look()
        status = self.node.status()
        if status.blocks_since_snapshot >= SNAPSHOT_BLOCKS:
            self._process.world.met["snapshot made"] += 1
            self.node.compact(self._process.ctx.image.to_bytes())

    def _send(self, message: Message) -> None:
        self._sent += 1
        if self._sent % WIRE_EVERY == 0:
            message = decode(encode(message))
        world = self._process.world
        world.strangers.overhear(message)
        sender = self._process.machine.id
        deliver = partial(
            world.to_broker, message.to, lambda process: process.raft.step(sender, message)
        )
        world.network.datagram(sender, message.to, deliver)

    def _look(self) -> None:
        """Tell the controller's part when role, term, leader or the own term's commit changed."""
        core = self.node._core
        is_leader = core.role is Role.LEADER and core.outbox.applied.term == core.term
        gone = frozenset(self._process.gone) if is_leader else frozenset()
        seen = core.term, core.leader, is_leader, core.members, gone
        if seen != self._view:
            self._view = seen
            view = RaftView(
                term=core.term,
                leader=-1 if core.leader is None else core.leader,
                leads=is_leader,
                voters=frozenset(core.members.voters),
                learners=frozenset(core.members.learners),
                caught_up=frozenset(),
                gone=gone,
            )
            self._process.raft_moved(view)

    def _plan_tick(self) -> None:
        wake_ms = self.node.wake_at_ms()
        if wake_ms is None or (self._wake_ms is not None and self._wake_ms <= wake_ms):
            return  # an earlier one is planned, and plans the next
        self._wake_ms = wake_ms
        process = self._process
        delay_ms = process.clock.delay_ms(wake_ms) + process.world.dice(3)
        process.after_ms(delay_ms, partial(self._tick, wake_ms))

    def _tick(self, wake_ms: int) -> None:
        if self._wake_ms == wake_ms:
            self._wake_ms = None
            self._process.touch_raft()
            self.node.tick(self._process.clock.monotonic_ms())
