"""The barest leader with two followers: the floor of a record with acks=all on three copies.

    python -m tests.bench.bare_replicas [ROUNDS]

Three uvloop processes write each record to a file and exchange frames of the brokers' sizes with
canned answers: no parsing, no sessions, no offsets, no errors. A cluster of brokers is measured by
turns with them, by the same client (load.py): one record of 100 bytes at a time. Prints one JSON
object: the medians of the rounds' p50, and their ratio.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from struct import Struct
from typing import ClassVar

import uvloop

from josefine_broker.client.io_blocking import BlockingClient, NewTopic, Policy
from tests.bench.brokers import client
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

LEADER, FOLLOWER = "leader", "follower"
TOPIC, SIZE, ACKS_ALL, SECONDS = "replicated", 100, -1, 1.5
BATCH_BYTES = 61 + 7 + SIZE
LENGTH = Struct(">i")
FETCH = LENGTH.pack(120) + b"\0\x01" + bytes(118)
FETCHED_HEAD = LENGTH.pack(70 + BATCH_BYTES) + bytes(70)
PRODUCED = LENGTH.pack(60) + bytes(60)


class Log:
    def __init__(self, path: Path) -> None:
        self.fd, self.end = os.open(path, os.O_RDWR | os.O_CREAT), 0

    def append(self, batch: memoryview) -> None:
        self.end += os.pwrite(self.fd, batch, self.end)


class Framed(asyncio.BufferedProtocol):
    """One frame at a time, of a peer that waits for its answer."""

    def __init__(self, log: Log) -> None:
        self.log, self.view, self.end = log, memoryview(bytearray(1 << 16)), 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, _: int) -> memoryview:
        return self.view[self.end :]

    def buffer_updated(self, received: int) -> None:
        self.end += received
        if self.end >= 4 and self.end >= (size := 4 + LENGTH.unpack_from(self.view)[0]):
            self.end = 0
            self.heard(self.view[:size])

    def heard(self, frame: memoryview) -> None:
        raise NotImplementedError


class Follower(Framed):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        transport.write(FETCH)

    def heard(self, frame: memoryview) -> None:
        self.log.append(frame[-BATCH_BYTES:])
        self.transport.write(FETCH)


class Leader(Framed):
    """A connection of a client or of a follower."""

    followers: ClassVar[dict[Leader, None]] = {}
    producer: Leader | None = None
    confirmed = 0

    def connection_lost(self, _: Exception | None) -> None:
        if Leader.producer is self:
            Leader.producer = None

    def heard(self, frame: memoryview) -> None:
        if frame[5] == 0:
            Leader.producer = self
            self.log.append(frame[-BATCH_BYTES:])
            answer = FETCHED_HEAD + frame[-BATCH_BYTES:]
            for each in Leader.followers:
                each.transport.write(answer)
        elif self not in Leader.followers:
            Leader.followers[self] = None
        else:
            Leader.confirmed += 1
            if Leader.confirmed % 2 == 0 and Leader.producer is not None:
                Leader.producer.transport.write(PRODUCED)


async def serve(role: str, directory: str, port: str = "0") -> None:
    loop, log = asyncio.get_running_loop(), Log(Path(directory, f"{os.getpid()}.log"))
    if role == FOLLOWER:
        await loop.create_connection(lambda: Follower(log), "127.0.0.1", int(port))
        Path(directory, f"{os.getpid()}.connected").touch()
        await asyncio.Event().wait()
    server = await loop.create_server(lambda: Leader(log), "127.0.0.1", int(port))
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def p50_us(address: str) -> float:
    found = json.loads(client("load", address, TOPIC, 1, SECONDS, SIZE, ACKS_ALL))
    return float(found["p50_us"])


def measure(directory: Path, rounds: int) -> dict[str, object]:
    command = [sys.executable, "-m", "tests.bench.bare_replicas"]
    (directory / "cluster").mkdir()
    processes = []
    try:
        leader = subprocess.Popen([*command, LEADER, directory], stdout=subprocess.PIPE, text=True)
        processes.append(leader)
        assert leader.stdout is not None
        port = leader.stdout.readline().strip()
        for _ in range(2):
            processes.append(subprocess.Popen([*command, FOLLOWER, directory, port]))
        wait_until(lambda: len([*directory.glob("*.connected")]) == 2, 30, "both followers")
        with Cluster(directory / "cluster", 3, **REPLICATED) as cluster:
            policy = Policy(request_timeout_ms=60_000)
            with BlockingClient(cluster.bootstrap, policy=policy) as admin:
                admin.metadata()
                admin.create_topics([NewTopic(TOPIC, 1)])
            cluster.wait_settled()
            address = cluster.broker(cluster.leader_of(TOPIC)).bootstrap
            p50_us(address)  # warms up
            pairs = [(p50_us(address), p50_us(f"127.0.0.1:{port}")) for _ in range(rounds)]
    finally:
        for each in processes:
            each.kill()
            each.wait()
    ours, bare = median(a for a, _ in pairs), median(b for _, b in pairs)
    return {"josefine_p50_us": ours, "bare_p50_us": bare, "ratio": round(ours / bare, 2)}


def main() -> None:
    if sys.argv[1:2] in ([LEADER], [FOLLOWER]):
        uvloop.run(serve(*sys.argv[1:]))
        return
    with tempfile.TemporaryDirectory(prefix="josefine-bare-") as scratch:
        rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
        print(json.dumps(measure(Path(scratch), rounds)), flush=True)


if __name__ == "__main__":
    main()
