"""One simulated machine: disk, node, state machine and clock. It crashes and starts again.

It is a host in the sense of raft/README.md, with a disk that takes its time: messages leave and
`advance` is said only when the sync is over.
"""

import hashlib
import json
import math
import zlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from raft import (
    Block,
    BlockFile,
    BlockId,
    Config,
    MemoryFiles,
    Node,
    NodeId,
    Ready,
    Recovered,
    Role,
    Term,
)
from tests.simulation.chain_damage import Restorable
from tests.simulation.raft.faults import CALM, Faults

__all__ = ["Facts", "Machine"]

Facts = tuple[Role, Term, BlockId, BlockId]
"""Role, term, head, commit: what the checkers look at when it has changed."""


@dataclass
class Machine:
    """Everything but `disk` is lost in a crash."""

    id: NodeId
    config: Config
    rng: Random
    clock_rate: float = 1.0
    disk: MemoryFiles = field(default_factory=MemoryFiles)
    chain: Restorable = field(default_factory=Restorable)
    """Whether that is damaged."""
    store: BlockFile | None = None
    node: Node | None = None
    life: int = 0
    """Counts the crashes: events of an earlier life are ignored."""
    busy: Ready | None = None
    paused_until_ms: int = 0
    wake_ms: int | None = None
    """World time of the tick that is planned."""
    facts: Facts | None = None
    """As the checkers saw them last."""
    applied: int = 0
    """Height of the last block in the state machine."""
    digest: int = 0
    """The state machine: a checksum over the ids and payloads applied so far."""

    def now_ms(self, world_ms: int) -> int:
        """This machine's clock, which runs at its own rate."""
        return int(world_ms * self.clock_rate)

    def world_ms(self, clock_ms: int) -> int:
        """When this machine's clock shows at least `clock_ms`."""
        return math.ceil(clock_ms / self.clock_rate)

    def start(self, world_ms: int) -> Recovered:
        self.store, recovered = BlockFile.open(self.disk, self.id, segment_bytes=4096)
        self.applied = self.digest = 0
        self.node = Node(self.config, recovered, now_ms=self.now_ms(world_ms), rng=self.rng)
        return recovered

    def restore(self) -> None:
        """Somebody puts back what was damaged on its disk, if anything was."""
        self.disk = self.chain.restored(self.disk)

    def crash(self, faults: Faults = CALM) -> Counter[str]:
        """Lose power; say what became of the unsynced writes."""
        met: Counter[str] = Counter()
        style = self.rng.random()

        def kept(_: str, unsynced: int) -> int:
            if style < faults.lost_writes:
                met["unsynced writes lost"] += unsynced > 0
                return 0
            if style < faults.lost_writes + faults.torn_write:
                size = self.rng.randint(0, unsynced)
                met["last write torn"] += 0 < size < unsynced
                return size
            return unsynced

        self.disk = self.disk.crash(kept, names_kept=self.rng.random() < 0.5)
        self.node = self.store = self.busy = self.facts = self.wake_ms = None
        self.paused_until_ms = 0
        self.life += 1
        return met

    def look(self) -> Facts:
        """The node from inside, without making a Status after every event."""
        assert self.node is not None
        core = self.node._core
        return core.role, core.term, core.chain.head, core.chain.commit

    def apply(self, block: Block) -> None:
        assert block.id.height == self.applied + 1, f"node {self.id} skipped before {block.id}"
        self.applied = block.id.height
        self.digest = zlib.crc32(block.payload, zlib.crc32(b"%d:%d" % block.id, self.digest))

    def snapshot(self) -> bytes:
        """The state, and so much more that it takes a while to send. The bytes of two machines with
        one state differ, as those of two versions of a program may."""
        maker = f"{self.id}.{self.life}"
        said = [self.applied, self.digest, maker, _ballast(self.digest, maker)]
        return json.dumps(said).encode()

    def install(self, data: bytes) -> None:
        try:
            self.applied, self.digest, maker, ballast = json.loads(data)
        except ValueError as error:
            raise AssertionError(f"node {self.id} got a damaged snapshot") from error
        is_whole = ballast == _ballast(self.digest, maker)
        assert is_whole, f"node {self.id} got a damaged snapshot"

    def is_receiving_snapshot(self) -> bool:
        return self.node is not None and self.node._core.archive.incoming is not None

    def is_changing_members(self) -> bool:
        """It knows of a change of members that it does not know to be committed."""
        if self.node is None:
            return False
        core = self.node._core
        return core.history.height > core.chain.commit.height


def _ballast(digest: int, maker: str) -> str:
    return 2 * hashlib.sha512(f"{digest} {maker}".encode()).hexdigest()
