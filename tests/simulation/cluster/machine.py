"""One simulated machine: its disks, its clocks, and the broker process on it, if there is one.

kill -9 takes the process and leaves the page cache; a loss of power takes what was not synced, too.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import raft
from josefine_broker.base.addresses import HostPort
from tests.simulation.chain_damage import Restorable
from tests.simulation.cluster.file_kinds import FileKind, kind_of
from tests.simulation.cluster.members import NEWEST
from tests.simulation.cluster.network import Connection
from tests.simulation.cluster.scheduler import Scheduler
from tests.simulation.memory_files import Inode, MemoryFiles

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["Clock", "Disk", "Machine"]

EPOCH_MS = 1_700_000_000_000
RAFT_PORT = 9093


def _nothing(path: str) -> bool:
    return False


class Clock:
    """A monotonic clock at a rate of its own, a wall clock somewhere near the others'."""

    def __init__(self, scheduler: Scheduler, rate: float, wall_offset_ms: int) -> None:
        self._scheduler = scheduler
        self.rate = rate
        self._wall_offset_ms = wall_offset_ms

    def now_ms(self) -> int:
        return EPOCH_MS + self._wall_offset_ms + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._scheduler.now_ms * self.rate)

    def jump(self, by_ms: int) -> None:
        """Somebody sets the wall clock."""
        self._wall_offset_ms += by_ms

    def delay_ms(self, clock_ms: int) -> int:
        """World time until this clock shows at least `clock_ms`; at least one millisecond."""
        return max(1, math.ceil(clock_ms / self.rate) - self._scheduler.now_ms)


class Disk:
    """The log disk, with the flusher's thread: jobs run later, one after another."""

    def __init__(self, scheduler: Scheduler, rng: Random, met: Counter[str]) -> None:
        self.files = MemoryFiles()
        self.slow = 0.0
        """Share of slow syncs."""
        self._scheduler = scheduler
        self._rng = rng
        self._met = met
        self._jobs: deque[Callable[[], None]] = deque()
        self._life = 0

    def submit(self, job: Callable[[], None]) -> None:
        """Run `job` soon."""
        self._jobs.append(job)
        if len(self._jobs) == 1:
            self._begin()

    def delay_ms(self) -> int:
        """How long a sync takes."""
        if self._rng.random() < self.slow:
            self._met["slow disk"] += 1
            return int(self._rng.random() * 400)
        return 0

    def sync_ms(self) -> int:
        """When a sync of group commit is done, if it begins now."""
        return 1 + int(self._rng.random() * 5) + self.delay_ms()

    def run_sync(self, job: Callable[[], None]) -> None:
        """A sync of group commit."""
        self._met["logs synced for a group"] += 1
        try:
            job()
        except OSError:
            self._met["sync for a group failed"] += 1  # the log it belongs to knows

    def drain(self) -> None:
        """Finish every job: a clean stop waits for that."""
        while self._jobs:
            self._run(self._jobs.popleft())

    def _begin(self) -> None:
        life = self._life
        self._scheduler.at(
            1 + int(self._rng.random() * 5) + self.delay_ms(), lambda: self._do(life)
        )

    def _do(self, life: int) -> None:
        if life == self._life and self._jobs:
            self._run(self._jobs[0])
            self._jobs.popleft()
            if self._jobs:
                self._begin()

    def _run(self, job: Callable[[], None]) -> None:
        try:
            job()
        except OSError:
            self._met["disk job failed"] += 1  # the log it belongs to knows

    def forget_jobs(self) -> None:
        """The process is gone, and its threads with it."""
        self._life += 1
        self._jobs.clear()

    def lose_power(self) -> None:
        self.files = self.files.power_loss(self._rng)

    def repair(self) -> None:
        """Writes and syncs work again."""
        self.files.failing_sync = False
        self.files.failing.clear()
        self.files.fails = _nothing

    def break_file(self, rng: Random) -> Inode | None:
        """One segment of a log takes neither write nor sync; None: there is none."""
        names = self.files.names
        logs = sorted(path for path in names if path.endswith(".log"))
        if not logs:
            return None
        inode = names[rng.choice(logs)]
        self.files.failing.add(inode)
        return inode

    def break_kind(self, kind: FileKind | None) -> None:
        """No file of that kind takes a write or a sync; None: no directory does."""
        if kind is None:
            self.files.fails = lambda path: path.endswith("/")
        else:
            self.files.fails = lambda path: kind_of(path.removesuffix(".tmp")) is kind

    def fill(self, spare_bytes: int) -> None:
        """No room but for so many bytes."""
        self.files.space_bytes = spare_bytes + sum(
            len(inode.data) for inode in self.files.names.values()
        )

    def empty(self) -> None:
        """There is room again."""
        self.files.space_bytes = None


class Machine:
    """Implements `network.Port`. Everything but disks and clocks ends with the process."""

    def __init__(
        self, id_: int, scheduler: Scheduler, rng: Random, met: Counter[str], clock: Clock
    ) -> None:
        self.id = id_
        self.rng = rng
        self.clock = clock
        self.disk = Disk(scheduler, Random(rng.getrandbits(64)), met)
        self.raft_disk = raft.MemoryFiles()
        self.chain = Restorable()
        self.cluster_id = ""
        """What `broker.json` says."""
        self.address = HostPort(f"host{id_}", RAFT_PORT)
        """Of its raft listener."""
        self.book = b""
        """What `raft.peers.json` says."""
        self.process: Process | None = None
        self.life = 0
        """Counts the processes."""
        self.paused_until_ms = 0
        self.is_powered = True
        self.boots = 1
        self.features = NEWEST
        """What its code understands."""

    def lose_everything(self) -> None:
        """The data directory is gone, with all that is in it."""
        assert self.process is None
        self.disk.files = MemoryFiles()
        self.raft_disk = raft.MemoryFiles()
        self.chain = Restorable()
        self.cluster_id, self.book = "", b""

    # As a port of the network.

    def accept(self, connection: Connection) -> bool:
        return self.process is not None and self.process.server.accept(connection)

    def received(self, connection: Connection, frame: bytes) -> None:
        process = self.process
        assert process is not None
        process.event(lambda: process.server.received(connection, frame))

    def hung_up(self, connection: Connection) -> None:
        process = self.process
        if process is not None:
            process.server.hung_up(connection)

    def fill_metadata(self, spare: int) -> None:
        """Raft's disk has no room but for so many writes."""
        self.raft_disk.full_at = self.raft_disk.growths + spare

    def empty_metadata(self) -> None:
        """There is room again."""
        self.raft_disk.full_at = None

    def break_chain(self, rng: Random) -> None:
        """Raft's segments, or its other files, or their directory cannot be written."""
        ending = rng.choice((".seg", ".snap.tmp", ""))
        self.raft_disk.fails = lambda name: name.endswith(ending) if ending else not name

    def repair_chain(self) -> None:
        """They can again."""
        self.raft_disk.fails = _nothing

    def restore_chain(self) -> None:
        """Somebody puts back what was damaged of it, if anything was."""
        self.raft_disk = self.chain.restored(self.raft_disk)
        self.raft_disk.no_handle_at = self.raft_disk.full_at = None

    # Ends of a process.

    def end_process(self, *, power: bool) -> None:
        """kill -9, or the power goes."""
        assert self.process is not None
        self.process.ended(power=power)
        self.process = None
        self.paused_until_ms = 0
        self.disk.forget_jobs()
        self.disk.empty()
        if power:
            self.is_powered = False
            self.boots += 1
            self.disk.lose_power()
            self.raft_disk = self.raft_disk.crash(
                lambda _, unsynced: self.rng.randint(0, unsynced),
                names_kept=self.rng.random() < 0.5,
            )
        else:
            self.raft_disk = self.raft_disk.crash(lambda _, unsynced: unsynced, names_kept=True)
