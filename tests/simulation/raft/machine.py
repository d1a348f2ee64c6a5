"""One simulated machine: disk, node, state machine and clock. It crashes and starts again.

It is a host in the sense of raft/README.md, with a disk that takes its time: messages leave and
`advance` is said only when the sync is over.
"""

import json
import zlib
from dataclasses import dataclass, field
from random import Random

from raft import (
    Batch,
    Block,
    BlockFile,
    BlockId,
    Config,
    MemoryFiles,
    Node,
    NodeId,
    Outcome,
    Ready,
    State,
)

__all__ = ["Machine"]


@dataclass
class Machine:
    """Everything but `disk` is lost in a crash."""

    id: NodeId
    config: Config
    rng: Random
    clock_rate: float = 1.0
    disk: MemoryFiles = field(default_factory=MemoryFiles)
    store: BlockFile | None = None
    node: Node | None = None
    life: int = 0
    """Counts the starts: events of an earlier life are ignored."""
    busy: Ready | None = None
    clock_ms: float = 0.0
    clock_at_ms: int = 0
    applied: int = 0
    """Height of the last block in the state machine."""
    digest: int = 0
    """The state machine: a checksum over the ids and payloads applied so far."""
    may_recover: list[State] = field(default_factory=lambda: [State()])
    """The state that was synced last, and those written since: one of them survives a crash."""

    def now_ms(self, world_ms: int) -> int:
        """This machine's clock, which runs at its own rate and never back."""
        self.clock_ms += (world_ms - self.clock_at_ms) * self.clock_rate
        self.clock_at_ms = world_ms
        return int(self.clock_ms)

    def start(self, world_ms: int) -> None:
        self.store, recovered = BlockFile.open(self.disk, self.id, segment_bytes=4096)
        assert recovered.state in self.may_recover, (
            f"node {self.id} recovered {recovered.state}, not one of {self.may_recover}"
        )
        self.may_recover = [recovered.state]
        self.applied = self.digest = 0
        now_ms = self.now_ms(world_ms)
        self.node = Node(self.config, recovered, now_ms=now_ms, rng=self.rng)

    def crash(self) -> None:
        style = self.rng.randrange(3)
        kept = [
            lambda _, unsynced: 0,
            lambda _, unsynced: unsynced,
            lambda _, unsynced: self.rng.randint(0, unsynced),
        ][style]
        self.disk = self.disk.crash(kept, names_kept=self.rng.random() < 0.5)
        self.node = self.store = self.busy = None
        self.life += 1

    def write(self, batch: Batch) -> None:
        assert self.store is not None
        self.may_recover.append(batch.state)
        self.store.append(batch)

    def sync(self, batch: Batch) -> None:
        """The disk is done; from now on this batch's state is promised."""
        assert self.store is not None
        if batch.must_sync:
            self.store.sync()
            del self.may_recover[: self.may_recover.index(batch.state)]

    def apply(self, block: Block) -> None:
        assert block.id.height == self.applied + 1, f"node {self.id} skipped before {block.id}"
        self.applied = block.id.height
        self.digest = zlib.crc32(block.payload, zlib.crc32(b"%d:%d" % block.id, self.digest))

    def snapshot(self) -> bytes:
        return json.dumps([self.applied, self.digest]).encode()

    def install(self, data: bytes) -> None:
        self.applied, self.digest = json.loads(data)

    def told(self, outcomes: tuple[Outcome, ...]) -> dict[int, Outcome]:
        return {outcome.number: outcome for outcome in outcomes}

    def head_of(self) -> BlockId:
        assert self.node is not None
        return self.node.status().head
