"""One-record produce requests as fast as a broker answers them: raw frames, no client library.

Each connection has one request in flight and sends the next when the answer is whole, so requests
per second on one connection are round trips. Run as its own process:

    python -m tests.bench.load BOOTSTRAP TOPIC CONNECTIONS SECONDS [SIZE [ACKS [idempotent]]]

With `idempotent` each connection is a producer of its own, whose batches have sequence numbers.

Prints one JSON object: requests, seconds, and the median and 99th percentile of the round trip.
"""

import asyncio
import json
import sys
import time
from struct import Struct

import uvloop

from josefine_broker.records.batch import stamp_crc
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.wire import apis, codec
from josefine_broker.wire.produce import ProducePartition, ProduceRequest, ProduceTopic

VERSION = 8
LENGTH = Struct(">i")
ERROR_CODE_FROM_END = 4 + 2 + 4 + 8 + 8 + 8 + 2
"""throttle, message, record errors, log start, append time, base offset, then the code itself."""


SEQUENCE = Struct(">i")
SEQUENCE_AT = 53
"""Of a batch's first sequence number."""


def record_of(size: int) -> Record:
    return Record(key=None, value=b"x" * size, headers=(), timestamp_ms=int(time.time() * 1000))


def frame(topic: str, size: int, acks: int, producer_id: int = -1, *, partition: int = 0) -> bytes:
    """A whole Produce request of one record of `size` bytes."""
    first = -1 if producer_id < 0 else 0
    built = build_batch(
        [record_of(size)],
        producer_id=producer_id,
        producer_epoch=first,
        base_sequence=first,
    )
    batch = memoryview(built)
    part = ProducePartition(partition, batch)
    request = ProduceRequest(None, acks, 30_000, (ProduceTopic(topic, None, (part,)),))
    return b"".join(codec.encode_request(apis.PRODUCE, VERSION, 1, "load", request))


class Loop(asyncio.Protocol):
    """One connection."""

    def __init__(
        self, request: bytes, round_trips: list[int], failed: "asyncio.Future[str]", batch_at: int
    ) -> None:
        """`batch_at`: where the batch is whose sequence number grows; 0: it has none."""
        self.request, self.round_trips, self.failed = bytearray(request), round_trips, failed
        self.batch_at, self.sequence = batch_at, 0
        self.received = b""
        self.sent_ns = 0
        self.stopping = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def send(self) -> None:
        if self.batch_at:
            batch = memoryview(self.request)[self.batch_at :]
            SEQUENCE.pack_into(batch, SEQUENCE_AT, self.sequence)
            stamp_crc(batch)
            self.sequence += 1
        self.sent_ns = time.perf_counter_ns()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.received:
            data = self.received + data
        if len(data) < 4 or len(data) < 4 + LENGTH.unpack_from(data)[0]:
            self.received = data
            return
        self.received = b""
        code = data[-ERROR_CODE_FROM_END:][:2]
        if code != b"\x00\x00":
            self.fail(f"the broker answered error {int.from_bytes(code, 'big')}")
        self.round_trips.append(time.perf_counter_ns() - self.sent_ns)
        if not self.stopping:
            self.send()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.stopping:
            self.fail("the broker closed the connection")

    def fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)


async def run(
    bootstrap: str,
    topic: str,
    connections: int,
    seconds: float,
    size: int,
    acks: int,
    is_idempotent: bool,
) -> None:
    host, port = bootstrap.rsplit(":", 1)
    loop = asyncio.get_running_loop()
    round_trips: list[int] = []
    failed: asyncio.Future[str] = loop.create_future()
    # The batch is the end of the request: up to version 8 there are no tagged fields.
    batch_at = len(frame(topic, size, acks)) - len(build_batch([record_of(size)]))
    first_producer = time.time_ns() // 1000  # another run's producers have sent their numbers
    clients = []
    for n in range(connections):
        request = frame(topic, size, acks, first_producer + n if is_idempotent else -1)
        made = Loop(request, round_trips, failed, batch_at if is_idempotent else 0)
        await loop.create_connection(lambda made=made: made, host, int(port))  # type: ignore[misc]
        clients.append(made)
    started = time.perf_counter()
    for client in clients:
        client.send()
    await asyncio.wait([failed], timeout=seconds)
    if failed.done():
        raise SystemExit(failed.result())
    elapsed = time.perf_counter() - started
    done = sorted(round_trips)
    for client in clients:
        client.stopping = True
        client.transport.abort()
    result = {
        "requests": len(done),
        "seconds": elapsed,
        "p50_us": done[len(done) // 2] / 1000,
        "p99_us": done[len(done) * 99 // 100] / 1000,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    uvloop.run(
        run(
            sys.argv[1],
            sys.argv[2],
            int(sys.argv[3]),
            float(sys.argv[4]),
            int(sys.argv[5]) if len(sys.argv) > 5 else 100,
            int(sys.argv[6]) if len(sys.argv) > 6 else 1,
            "idempotent" in sys.argv[7:],
        )
    )
