"""One member as a process of its own: TCP on loopback, block file with fsync.

`python -m tests.bench.raft_process DIRECTORY ID PORT` (0: any) prints its port, then takes one JSON
line per command on stdin and prints one JSON line per event: it leads, a load is done, or what it
sees of itself when it is asked to look. The order of work
is that of raft/README.md; every write and fsync runs in one thread, so that the event loop goes on
taking messages and proposals while the disk works, and the next batch takes them all.
"""

import asyncio
import json
import sys
import zlib
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from struct import Struct
from time import monotonic, perf_counter
from typing import Any

from raft import BlockFile, Config, DiskFiles, Message, Node, NodeId, Ready, Result, Role
from raft.codec import decode, encode
from tests.bench.raft_commits import PAYLOAD, percentile

LENGTH = Struct(">I")
RECONNECT_S = 0.05
PENDING_BYTES_MAX = 64 * 1024 * 1024
COMPACT_BLOCKS = 20_000


def now_ms() -> int:
    return int(monotonic() * 1000)


def tell(**event: Any) -> None:
    print(json.dumps(event), flush=True)


class Peer:
    """The way to one other member; what cannot leave now is dropped, as Raft allows."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.writer: asyncio.StreamWriter | None = None

    def send(self, message: Message) -> None:
        writer = self.writer
        if writer is None or writer.is_closing():
            return
        if writer.transport.get_write_buffer_size() > PENDING_BYTES_MAX:
            return
        data = encode(message)
        writer.write(LENGTH.pack(len(data)) + data)

    async def connect(self) -> None:
        """Connect, again and again."""
        while True:
            with suppress(OSError):
                reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
                await reader.read()  # until the other side goes
                self.writer.close()
                self.writer = None
            await asyncio.sleep(RECONNECT_S)


class Load:
    """A closed loop of so many outstanding proposals."""

    def __init__(self, outstanding: int, seconds: float) -> None:
        self.outstanding = outstanding
        self.seconds = seconds
        self.start = perf_counter()
        self.open: dict[int, float] = {}
        self.latencies: list[float] = []

    @property
    def over(self) -> bool:
        return perf_counter() - self.start >= self.seconds

    def report(self) -> dict[str, float]:
        elapsed = perf_counter() - self.start
        return {
            "proposals_per_s": len(self.latencies) / elapsed,
            "p50_us": percentile(self.latencies, 0.5) * 1e6,
            "p99_us": percentile(self.latencies, 0.99) * 1e6,
        }


class Host:
    """Node, store, peers and at most one load."""

    def __init__(self, directory: Path, me: NodeId) -> None:
        self.me = me
        self.store, self.recovered = BlockFile.open(DiskFiles(directory), me)
        self.disk = ThreadPoolExecutor(max_workers=1)
        self.wake = asyncio.Event()
        self.peers: dict[NodeId, Peer] = {}
        self.node: Node | None = None
        self.load: Load | None = None
        self.told_term = 0
        self.digest = 0
        """The state machine: a checksum over the ids of all blocks."""
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self, ports: dict[str, int], heartbeat_ms: int, election_timeout_ms: int) -> None:
        ids = tuple(NodeId(int(id_)) for id_ in ports)
        config = Config(
            node_id=self.me, initial_voters=ids, cluster_id="bench",
            heartbeat_ms=heartbeat_ms, election_timeout_ms=election_timeout_ms,
        )  # fmt: skip
        self.node = Node(config, self.recovered, now_ms=now_ms(), rng=Random())
        self.peers = {id_: Peer(ports[str(id_)]) for id_ in ids if id_ != self.me}
        works: list[Awaitable[None]] = [peer.connect() for peer in self.peers.values()]
        self.tasks = [asyncio.ensure_future(work) for work in [*works, self.run(self.node)]]

    async def run(self, node: Node) -> None:
        while True:
            node.tick(now_ms())
            while node.has_ready():
                await self.do(node, node.ready())
                self.feed(node)
                node.tick(now_ms())
            self.tell_leading(node)
            wake_ms = node.wake_at_ms()
            timeout_s = None if wake_ms is None else max(0, wake_ms - now_ms()) / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self.wake.wait()
            self.wake.clear()

    async def do(self, node: Node, ready: Ready) -> None:
        if ready.batch is not None:
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(self.disk, self.store.persist, ready.batch)
        if ready.installed is not None:
            self.digest = int(ready.installed.data)
        for block in ready.committed:
            self.digest = zlib.crc32(b"%d:%d" % block.id, self.digest)
        load, at = self.load, perf_counter()
        for outcome in ready.outcomes:
            if load is not None and outcome.number in load.open:
                assert outcome.result is Result.COMMITTED, outcome
                load.latencies.append(at - load.open.pop(outcome.number))
        for message in ready.messages:
            self.peers[message.to].send(message)
        node.advance()
        if node.status().blocks_since_snapshot > COMPACT_BLOCKS:
            node.compact(b"%d" % self.digest)

    def feed(self, node: Node) -> None:
        """Replace the proposals that ended."""
        load = self.load
        if load is None:
            return
        if load.over:
            self.load = None
            tell(event="load", **load.report())
            return
        at_ms, at = now_ms(), perf_counter()
        for _ in range(load.outstanding - len(load.open)):
            load.open[node.propose(PAYLOAD, at_ms, at_ms + 60_000).number] = at

    def tell_leading(self, node: Node) -> None:
        """Once per term, when a block of it is committed: from here on this node serves."""
        status = node.status()
        serves = status.role is Role.LEADER and status.commit.term == status.term
        if serves and status.term != self.told_term:
            self.told_term = status.term
            tell(event="leads", term=status.term, at=monotonic())

    def look(self, node: Node) -> None:
        status = node.status()
        tell(
            event="look", role=status.role.name, term=status.term, leader=status.leader,
            commit=str(status.commit), head=str(status.head), digest=self.digest,
        )  # fmt: skip

    async def receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                (length,) = LENGTH.unpack(await reader.readexactly(LENGTH.size))
                message = decode(await reader.readexactly(length))
                if self.node is not None:
                    self.node.step(message, now_ms())
                    self.wake.set()
        writer.close()

    def command(self, line: str) -> None:
        words = json.loads(line)
        do = words.pop("do")
        if do == "begin":
            self.begin(**words)
        elif self.node is None:
            return
        elif do == "look":
            self.look(self.node)
        else:
            self.load = Load(**words)
            self.feed(self.node)
            self.wake.set()


async def main(directory: Path, me: NodeId, port: int) -> None:
    """Serve until stdin ends or somebody kills this process."""
    host = Host(directory, me)
    server = await asyncio.start_server(host.receive, "127.0.0.1", port, limit=16 * 1024 * 1024)
    tell(event="listens", port=server.sockets[0].getsockname()[1])
    stdin = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(stdin)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    while line := await stdin.readline():
        host.command(line.decode())
        for task in host.tasks:
            if task.done():
                task.result()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), NodeId(int(sys.argv[2])), int(sys.argv[3])))
