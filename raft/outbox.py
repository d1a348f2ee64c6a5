"""The work queued for the host (write, apply, report, send) and the Ready in progress.

Rules: one Ready at a time. A block is durable when the Ready that carried it is advanced. A block
is handed out to be applied once, in order, when it is committed and durable here.

Messages wait for the Ready in progress, for days if a full disk blocks it. So the queue is bounded
per message kind and peer; beyond the bound the older half is dropped. Any message may be lost, so
dropping breaks no promise and stops nothing: a node that needs an answer asks again, and the newest
message includes the older ones (an accepted append covers everything before it). The bound is per
kind and peer so that many heartbeats cannot push out a vote or a proposal's answer. A newer message
does not simply replace an older one: while the disk writes, however slowly, each of them moves its
receiver's window, and nothing is sent twice.
"""

from __future__ import annotations

from raft.block import Block
from raft.chain import Chain
from raft.config import Config
from raft.ids import BlockId, Height, NodeId
from raft.messages import Message, Propose, SnapshotChunk
from raft.proposals import Outcome
from raft.ready import ReadDone, Ready
from raft.state import Batch, Snapshot, State

__all__ = ["Outbox"]

_Sort = tuple[NodeId, type[Message]]
"""Receiver and kind."""


class _Waiting:
    """Waiting messages of one sort: their count, and the bytes that only they keep in memory."""

    __slots__ = ("bytes", "bytes_max", "count", "count_max")

    def __init__(self, config: Config, kind: type[Message]) -> None:
        self.count = self.bytes = 0
        self.count_max, self.bytes_max = config.waiting_max, config.waiting_bytes_max
        if kind is Propose:
            self.count_max, self.bytes_max = config.proposals_max, config.proposals_bytes_max


class Outbox:
    """Mutable; fed by the rules, emptied by `take` and `done`."""

    __slots__ = (
        "_config",
        "_dropped",
        "_waiting",
        "applied",
        "applied_bytes",
        "durable_state",
        "fresh",
        "in_hand",
        "installed",
        "messages",
        "new_snapshot",
        "unsynced",
    )

    def __init__(self, durable: State, snapshot: Snapshot | None, config: Config) -> None:
        self._config = config
        self.durable_state = durable
        self.applied = durable.root
        self.applied_bytes = 0  # payloads applied since the snapshot
        self.installed = snapshot  # the state machine starts from it
        self.new_snapshot: Snapshot | None = None
        self.fresh: list[Block] = []
        self.unsynced: set[BlockId] = set()
        self._dropped: dict[BlockId, None] = {}  # an ordered set
        self.messages: list[Message] = []
        self._waiting: dict[_Sort, _Waiting] = {}
        self.in_hand: Ready | None = None

    def add_message(self, message: Message) -> None:
        """Queue a message until everything written so far is durable; it may be dropped before."""
        self.messages.append(message)
        if self.in_hand is None:  # the next Ready takes it
            return
        sort = (message.to, type(message))
        waiting = self._waiting.get(sort)
        if waiting is None:
            waiting = self._waiting[sort] = _Waiting(self._config, type(message))
        waiting.count += 1
        waiting.bytes += _bytes_of(message)
        if waiting.count > waiting.count_max or waiting.bytes > waiting.bytes_max:
            self._drop_older_half(sort, waiting)

    def _drop_older_half(self, sort: _Sort, waiting: _Waiting) -> None:
        """Drop half at once, so that each message is examined rarely. The newest stays."""
        count_max, bytes_max = waiting.count_max // 2, waiting.bytes_max // 2
        kept: list[Message] = []
        waiting.count = waiting.bytes = 0
        is_full = False
        for message in reversed(self.messages):
            if (message.to, type(message)) == sort:
                size = waiting.bytes + _bytes_of(message)
                is_full |= waiting.count > 0 and (waiting.count >= count_max or size > bytes_max)
                if is_full:
                    continue
                waiting.count += 1
                waiting.bytes = size
            kept.append(message)
        self.messages = kept[::-1]

    def add_blocks(self, blocks: list[Block]) -> None:
        """Queue new blocks of the chain to be written."""
        for block in blocks:
            self._dropped.pop(block.id, None)
        self.fresh += blocks
        self.unsynced.update(block.id for block in blocks)

    def has_work(self, state: State, chain: Chain) -> bool:
        return bool(
            self.messages
            or self.fresh
            or self.new_snapshot is not None
            or self.installed is not None
            or state != self.durable_state
            or self._next_applicable(chain) > self.applied.height
        )

    def applicable(self, chain: Chain) -> tuple[Block, ...]:
        """The next blocks to apply; they count as applied from now on."""
        last = self._next_applicable(chain)
        if last <= self.applied.height:
            return ()
        blocks = tuple(chain.blocks_between(self.applied.height, last))
        self.applied = blocks[-1].id
        self.applied_bytes += sum(len(block.payload) for block in blocks)
        return blocks

    def count_since(self, blocks: list[Block]) -> None:
        """A new snapshot replaces all applied blocks except these."""
        self.applied_bytes = sum(len(block.payload) for block in blocks)

    def _next_applicable(self, chain: Chain) -> Height:
        height = self.applied.height
        limit = Height(min(chain.commit.height, height + self._config.apply_blocks_max))
        if not self.unsynced:
            return limit
        while height < limit and chain.id_at(Height(height + 1)) not in self.unsynced:
            height = Height(height + 1)
        return height

    def take(
        self,
        *,
        state: State,
        removed: tuple[BlockId, ...],
        committed: tuple[Block, ...],
        outcomes: tuple[Outcome, ...],
        reads: tuple[ReadDone, ...],
    ) -> Ready:
        """The queued work as one Ready for the host."""
        self.in_hand = Ready(
            batch=self._make_batch(state, removed),
            installed=self.installed,
            committed=committed,
            outcomes=outcomes,
            reads=reads,
            messages=tuple(self.messages),
        )
        self.installed = None
        self.messages.clear()
        self._waiting.clear()
        return self.in_hand

    def _make_batch(self, state: State, removed: tuple[BlockId, ...]) -> Batch | None:
        before, blocks, snapshot = self.durable_state, tuple(self.fresh), self.new_snapshot
        removed += tuple(self._dropped)
        self._dropped.clear()
        if state == before and not blocks and not removed and snapshot is None:
            return None
        self.fresh.clear()
        self.new_snapshot = None
        must_sync = bool(blocks) or snapshot is not None or _promises(state) != _promises(before)
        return Batch(
            state=state, blocks=blocks, removed=removed, snapshot=snapshot, must_sync=must_sync
        )

    def install(self, snapshot: Snapshot, dropped: list[BlockId]) -> None:
        """Replace the chain by a snapshot from the leader; `dropped` blocks are removed."""
        self.new_snapshot = self.installed = snapshot
        self.applied = snapshot.last
        self.applied_bytes = 0
        self.unsynced.difference_update(block.id for block in self.fresh)
        self.fresh.clear()
        self._dropped.update(dict.fromkeys(dropped))

    def done(self) -> None:
        """The Ready in progress is durable, applied and sent."""
        ready = self.in_hand
        assert ready is not None, "there is no Ready to advance"
        self.in_hand = None
        if ready.batch is not None:
            self.durable_state = ready.batch.state
            self.unsynced.difference_update(block.id for block in ready.batch.blocks)


def _bytes_of(message: Message) -> int:
    if isinstance(message, SnapshotChunk):
        return len(message.data)
    return len(message.payload) if isinstance(message, Propose) else 0


def _promises(state: State) -> tuple[object, ...]:
    """The part of the state that answers promise. The commit pointer is found again without it."""
    return state.term, state.vote, state.head, state.root
