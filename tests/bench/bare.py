"""The barest asyncio broker that answers a librdkafka producer and consumer: the yardstick.

One topic with one partition, one file, no CRC, no idempotence, no limits, no errors: what is left
is what Python, uvloop and the kernel cost. Josefine is measured as a share of it.

    python -m tests.bench.bare DIRECTORY TOPIC        prints `listening on 127.0.0.1:PORT`
"""

import asyncio
import os
import sys
from bisect import bisect_right
from collections.abc import Callable
from struct import Struct, pack

import uvloop

TOPIC = sys.argv[2].encode() if len(sys.argv) > 2 else b"bench"
BUFFER_BYTES = 4 * 1024 * 1024
HEADER, INT32, INT64 = Struct(">hhih"), Struct(">i"), Struct(">q")
STAMP = Struct(">qii")
PRODUCED = Struct(">iihqqq")
# key, lowest, highest version: all before "flexible"; Produce from 0 only for librdkafka's check.
APIS = [(0, 0, 8), (1, 4, 11), (2, 1, 1), (3, 0, 4), (10, 0, 0), (18, 0, 0), (22, 0, 1)]


def text(raw: bytes) -> bytes:
    return pack(">h", len(raw)) + raw


class Log:
    """Batches in one file, and where each begins."""

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        self.bases: list[int] = []
        self.positions: list[int] = []
        self.end_offset = 0
        self.size = 0
        self.waiting: list[tuple[asyncio.TimerHandle, Callable[[], None]]] = []

    def append(self, batch: memoryview) -> int:
        base = self.end_offset
        STAMP.pack_into(batch, 0, base, len(batch) - 12, 0)
        os.pwrite(self.fd, batch, self.size)
        self.bases.append(base)
        self.positions.append(self.size)
        self.size += len(batch)
        self.end_offset = base + INT32.unpack_from(batch, 23)[0] + 1
        return base

    def read(self, offset: int, bytes_max: int) -> bytes:
        if offset >= self.end_offset:
            return b""
        at = bisect_right(self.bases, offset) - 1
        return os.pread(self.fd, max(bytes_max, 1), self.positions[at])


class Connection(asyncio.BufferedProtocol):
    """Frames are served where they were received; the buffer is used again and again."""

    def __init__(self, log: Log, port: int) -> None:
        self.log, self.port = log, port
        self.view = memoryview(bytearray(BUFFER_BYTES))
        self.end = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.view[self.end :]

    def buffer_updated(self, received: int) -> None:
        view, start = self.view, 0
        end = self.end + received
        out: list[bytes] = []
        while end - start >= 4:
            length = INT32.unpack_from(view, start)[0]
            if end - start < 4 + length:
                break
            self.serve(view[start + 4 : start + 4 + length], out)
            start += 4 + length
        if start:
            view[: end - start] = view[start:end]
        self.end = end - start
        if out:
            self.transport.writelines(out)

    def serve(self, frame: memoryview, out: list[bytes]) -> None:
        key, version, correlation_id, size = HEADER.unpack_from(frame)
        pos = 10 + max(size, 0)
        if key == 1:
            self.fetch(frame, pos, correlation_id, out)
            return
        if key == 0:
            body = self.produce(frame, pos)
            if body is None:
                return
        elif key == 3:
            body = self.metadata(version)
        elif key == 18:
            rows = b"".join(pack(">hhh", *row) for row in APIS)
            body = pack(">hi", 35 if version else 0, len(APIS)) + rows
        elif key == 2:
            wanted = INT64.unpack_from(frame, len(frame) - 8)[0]
            offset = 0 if wanted == -2 else self.log.end_offset
            body = pack(">i", 1) + text(TOPIC) + pack(">iihqq", 1, 0, 0, -1, offset)
        elif key == 10:
            body = pack(">hi", 0, 1) + text(b"127.0.0.1") + pack(">i", self.port)
        else:
            body = pack(">ihqh", 0, 0, 1000, 0)
        out.append(pack(">ii", len(body) + 4, correlation_id) + body)

    def metadata(self, version: int) -> bytes:
        broker = pack(">ii", 1, 1) + text(b"127.0.0.1") + pack(">ih", self.port, -1)
        topic = pack(">ih", 1, 0) + text(TOPIC) + pack(">bihiiiiii", 0, 1, 0, 0, 1, 1, 1, 1, 1)
        throttle = pack(">i", 0) if version >= 3 else b""
        return throttle + broker + pack(">hi", -1, 1) + topic

    def produce(self, frame: memoryview, pos: int) -> bytes | None:
        """One partition per request, as our one-partition topic makes every client send."""
        pos += 2 + max(int.from_bytes(frame[pos : pos + 2], "big", signed=True), 0)
        acks = int.from_bytes(frame[pos : pos + 2], "big", signed=True)
        pos += 10
        pos += 2 + int.from_bytes(frame[pos : pos + 2], "big") + 4
        index, size = INT32.unpack_from(frame, pos)[0], INT32.unpack_from(frame, pos + 4)[0]
        base = self.log.append(frame[pos + 8 : pos + 8 + size])
        self.wake()
        if acks == 0:
            return None
        head = pack(">i", 1) + text(TOPIC)
        return head + PRODUCED.pack(1, index, 0, base, -1, 0) + pack(">ihi", 0, -1, 0)

    def wake(self) -> None:
        """Let every fetch that waits at the end of the log look again, now."""
        waiting, self.log.waiting = self.log.waiting, []
        for timer, answer in waiting:
            if not timer.cancelled():
                timer.cancel()
                answer()

    def fetch(self, frame: memoryview, pos: int, correlation_id: int, out: list[bytes]) -> None:
        max_wait_ms, _, max_bytes = Struct(">iii").unpack_from(frame, pos + 4)
        topics = INT32.unpack_from(frame, pos + 25)[0]
        if not topics:
            self.later(max_wait_ms, correlation_id, -1, 0)
            return
        pos += 29
        pos += 2 + int.from_bytes(frame[pos : pos + 2], "big") + 4
        _, _, offset, _, part_bytes = Struct(">iiqqi").unpack_from(frame, pos)
        bytes_max = min(max_bytes, part_bytes)
        if offset >= self.log.end_offset and max_wait_ms:
            self.later(max_wait_ms, correlation_id, offset, bytes_max)
            return
        out += self.fetched(correlation_id, offset, bytes_max)

    def later(self, wait_ms: int, correlation_id: int, offset: int, bytes_max: int) -> None:
        def answer() -> None:
            if not self.transport.is_closing():
                self.transport.writelines(self.fetched(correlation_id, offset, bytes_max))

        timer = asyncio.get_running_loop().call_later(wait_ms / 1000, answer)
        if offset >= 0:
            self.log.waiting.append((timer, answer))

    def fetched(self, correlation_id: int, offset: int, bytes_max: int) -> list[bytes]:
        records = self.log.read(offset, bytes_max) if offset >= 0 else b""
        end = self.log.end_offset
        part = pack(">iihqqqiii", 1, 0, 0, end, end, 0, -1, -1, len(records))
        body = pack(">ihii", 0, 0, 0, 1) + text(TOPIC) + part
        return [pack(">ii", 4 + len(body) + len(records), correlation_id) + body, records]


async def main(directory: str) -> None:
    log = Log(os.path.join(directory, "bare.log"))
    loop = asyncio.get_running_loop()
    port = 0
    server = await loop.create_server(lambda: Connection(log, port), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"listening on 127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
