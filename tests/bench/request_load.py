"""The other requests that applications send most, as fast as a broker answers them.

    python -m tests.bench.request_load BOOTSTRAP TOPIC KIND CONNECTIONS SECONDS PID

KIND is `fetch` (of one batch, without a session), `session` (the same in a fetch session, as
consumers of Java and Go do), `wait` (a long poll of a session that one record ends, sent by another
connection), `heartbeat` (of a member of a classic group of its own) or `commit` (of one offset).
Raw frames, no client library; one request in flight on each connection. The topic needs as many
partitions as there are connections. Prints one JSON object, as load.py does, with the CPU seconds
that the broker's process PID has used meanwhile, without those of the preparation. `wait` counts
records, each of which is a fetch and a produce request. With BENCH_STAGED the process is a
staged_broker.py, which is notified when the load starts.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from struct import Struct
from typing import Any, NamedTuple

import uvloop

from josefine_broker.wire import apis, codec
from josefine_broker.wire.entities import find_coordinator as find_coordinator_shapes
from josefine_broker.wire.entities import heartbeat, join_group, offset_commit, sync_group
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.bench import load
from tests.bench.brokers import Running
from tests.bench.load import LENGTH, Loop
from tests.support.waiting import wait_until

FIND_VERSION, DEADLINE_S = 3, 30
FETCH_VERSION, JOIN_VERSION, SYNC_VERSION, HEARTBEAT_VERSION, COMMIT_VERSION = 12, 3, 3, 4, 8
WAIT_S = 0.0003
"""Until the record is sent for which a fetch waits."""
SESSION, EPOCH, OFFSET = Struct(">ii"), Struct(">i"), Struct(">q")
NO_OFFSET = 0x0123456789ABCDEF
"""Marks the place of the offset in a frame."""

Next = Callable[[], bytes]
"""The next request of a connection."""


def asked(sock: socket.socket, key: int, version: int, body: Any) -> Any:
    """One request and its answer, of a connection that is being prepared."""
    return answered(sock, key, version, encoded(key, version, body))


def answered(sock: socket.socket, key: int, version: int, frame: bytes) -> Any:
    sock.sendall(frame)
    (size,) = LENGTH.unpack(sock.recv(4, socket.MSG_WAITALL))
    answer = sock.recv(size, socket.MSG_WAITALL)
    return codec.decode_response(key, version, memoryview(answer))[1]


def encoded(key: int, version: int, body: Any) -> bytes:
    return b"".join(codec.encode_request(key, version, 1, "load", body))


def find_coordinator(sock: socket.socket, group: str) -> None:
    """Makes the offsets topic, too."""
    body = find_coordinator_shapes.FindCoordinatorRequest(coordinator_keys=(group,))
    check(sock, apis.FIND_COORDINATOR, FIND_VERSION, body)


def check(sock: socket.socket, key: int, version: int, body: Any) -> None:
    """Ask once, and again while the coordinator loads; the load only counts answers."""
    wait_until(
        lambda: all(code == 0 for code in codes_in(asked(sock, key, version, body))),
        DEADLINE_S, "an answer without an error",
    )  # fmt: skip


def codes_in(answer: Any) -> list[int]:
    if isinstance(answer, heartbeat.HeartbeatResponse):
        return [answer.error_code]
    if isinstance(answer, find_coordinator_shapes.FindCoordinatorResponse):
        return [each.error_code for each in answer.coordinators]
    return [part.error_code for topic in answer.topics for part in topic.partitions]


def fetch_of(topic: str, partition: int, offset: int, session: tuple[int, int]) -> FetchRequest:
    part = FetchPartition(partition, -1, offset, -1, -1, 1_000)  # type: ignore[arg-type]
    named = (FetchTopic(topic, None, (part,)),)
    return FetchRequest(-1, 60_000, 1, 1_000, 0, *session, named)


def fetch(_: socket.socket, topic: str, __: int, ___: int) -> Next:
    frame = encoded(apis.FETCH, FETCH_VERSION, fetch_of(topic, 0, 0, (0, -1)))
    return lambda: frame


def session(
    sock: socket.socket, topic: str, number: int, end: int, *, is_moving: bool = False
) -> Next:
    """Incremental requests of a new session. `is_moving`: from `end` on, one record each."""
    partition = number if is_moving else 0
    request = fetch_of(topic, partition, 0, (0, 0))._replace(max_wait_ms=0)
    opened = asked(sock, apis.FETCH, FETCH_VERSION, request)
    request = fetch_of(topic, partition, NO_OFFSET, (opened.session_id, 1))
    frame = bytearray(encoded(apis.FETCH, FETCH_VERSION, request))
    epoch_at = frame.index(SESSION.pack(opened.session_id, 1)) + 4
    offset_at, epoch = frame.index(OFFSET.pack(NO_OFFSET)), 0

    def following() -> bytes:
        nonlocal epoch
        epoch += 1
        EPOCH.pack_into(frame, epoch_at, epoch)
        OFFSET.pack_into(frame, offset_at, end + epoch - 1 if is_moving else 0)
        return bytes(frame)

    return following


def wait(sock: socket.socket, topic: str, number: int, end: int) -> Next:
    return session(sock, topic, number, end, is_moving=True)


def beat(sock: socket.socket, _: str, number: int, __: int) -> Next:
    group = f"load-{number}"
    find_coordinator(sock, group)
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"m")
    joined = asked(sock, apis.JOIN_GROUP, JOIN_VERSION, join_group.JoinGroupRequest(
        group_id=group, session_timeout_ms=30_000, rebalance_timeout_ms=1_000, member_id="",
        protocol_type="consumer", protocols=(protocol,),
    ))  # fmt: skip
    own = sync_group.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"a")
    asked(sock, apis.SYNC_GROUP, SYNC_VERSION, sync_group.SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id,
        assignments=(own,),
    ))  # fmt: skip
    body = heartbeat.HeartbeatRequest(
        group_id=group, generation_id=joined.generation_id, member_id=joined.member_id
    )
    check(sock, apis.HEARTBEAT, HEARTBEAT_VERSION, body)
    frame = encoded(apis.HEARTBEAT, HEARTBEAT_VERSION, body)
    return lambda: frame


def commit(sock: socket.socket, topic: str, number: int, _: int) -> Next:
    find_coordinator(sock, f"commit-{number}")
    part = offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=7)
    topics = (offset_commit.OffsetCommitRequestTopic(name=topic, partitions=(part,)),)
    body = offset_commit.OffsetCommitRequest(
        group_id=f"commit-{number}", member_id="", topics=topics
    )
    check(sock, apis.OFFSET_COMMIT, COMMIT_VERSION, body)
    frame = encoded(apis.OFFSET_COMMIT, COMMIT_VERSION, body)
    return lambda: frame


KINDS: dict[str, Callable[[socket.socket, str, int, int], Next]] = {
    "fetch": fetch, "session": session, "wait": wait, "heartbeat": beat, "commit": commit,
}  # fmt: skip


class Requests(Loop):
    """One connection, whose requests differ."""

    def __init__(
        self, following: Next, round_trips: list[int], failed: asyncio.Future[str]
    ) -> None:
        super().__init__(b"", round_trips, failed, batch_at=0)
        self.following = following
        self.produce: Callable[[], None] | None = None
        """Sends the record for which the request waits."""
        self.smallest = 0

    def send(self) -> None:
        self.request = self.following()
        super().send()
        if self.produce is not None:
            asyncio.get_running_loop().call_later(WAIT_S, self.produce)

    def data_received(self, data: bytes) -> None:
        whole = self.received + data
        self.received = b""
        if len(whole) < 4 or len(whole) < 4 + LENGTH.unpack_from(whole)[0]:
            self.received = whole
            return
        self.smallest = self.smallest or len(whole)
        # An answer with an error, or without its record, is shorter than the first one.
        if len(whole) < self.smallest - 16:
            self.fail(f"an answer of {len(whole)} bytes, the first one had {self.smallest}")
        self.round_trips.append(time.perf_counter_ns() - self.sent_ns)
        if not self.stopping:
            self.send()


def connected(bootstrap: str) -> socket.socket:
    host, port = bootstrap.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Prepared(NamedTuple):
    """A connection that can start, and one that has produced a record for it."""

    sock: socket.socket
    following: Next
    producer: socket.socket
    record: bytes


def prepared(bootstrap: str, topic: str, kind: str, number: int) -> Prepared:
    producer, sock = connected(bootstrap), connected(bootstrap)
    record = load.frame(topic, 100, 1, partition=number)
    stored = answered(producer, apis.PRODUCE, load.VERSION, record)
    end = stored.topics[0].partitions[0].base_offset + 1
    following = KINDS[kind](sock, topic, number, end)
    for each in (sock, producer):
        each.setblocking(False)
    return Prepared(sock, following, producer, record)


async def run(
    bootstrap: str, topic: str, kind: str, connections: int, seconds: float, pid: int
) -> None:
    broker = Running("", bootstrap, pid)
    loop = asyncio.get_running_loop()
    round_trips: list[int] = []
    failed: asyncio.Future[str] = loop.create_future()
    clients = []
    # All at once: a new group waits for seconds for its members.
    with ThreadPoolExecutor(connections) as pool:
        ready = list(pool.map(partial(prepared, bootstrap, topic, kind), range(connections)))
    for each in ready:
        client = Requests(each.following, round_trips, failed)
        await loop.create_connection(lambda client=client: client, sock=each.sock)
        writer, _ = await loop.create_connection(asyncio.Protocol, sock=each.producer)
        if kind == "wait":
            client.produce = partial(writer.write, each.record)
        clients.append(client)
    if os.environ.get("BENCH_STAGED"):
        os.kill(pid, signal.SIGUSR1)
    started, cpu = time.perf_counter(), broker.cpu_seconds()
    for client in clients:
        client.send()
    await asyncio.wait([failed], timeout=seconds)
    if failed.done():
        raise SystemExit(failed.result())
    elapsed, cpu = time.perf_counter() - started, broker.cpu_seconds() - cpu
    done = sorted(round_trips)
    for client in clients:
        client.stopping, client.produce = True, None
        client.transport.abort()
    result = {
        "requests": len(done),
        "seconds": elapsed,
        "cpu_s": cpu,
        "p50_us": done[len(done) // 2] / 1000,
        "p99_us": done[len(done) * 99 // 100] / 1000,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    uvloop.run(run(*sys.argv[1:4], int(sys.argv[4]), float(sys.argv[5]), int(sys.argv[6])))
