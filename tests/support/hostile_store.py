"""A proxy in front of an object store that fails as stores and networks do.

Each request is one connection. A plan names the fault of a request, by its method and path: from a
seed, or once for the first request that fits. Conditional PUTs pass one at a time, because moto's
server looks for the object and writes it in two steps.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from urllib.parse import urlsplit

PIECE = 512
PAUSE_S = 0.005


class Fault(Enum):
    """What happens to one request."""

    SLOW_DOWN = "the store refuses it with 503 SlowDown, and does nothing"
    CUT_REQUEST = "the connection ends before the store has it"
    LOST_ANSWER = "the store carries it out, and the answer is lost"
    DOUBLED = "the store gets it twice, and the second answer is returned"
    CUT_ANSWER = "the connection ends in the middle of the answer"
    SLOW_ANSWER = "the answer comes in small pieces"


Plan = Callable[[str, str], Fault | None]
"""The fault of a request by its method and its path with the query."""


def by_seed(seed: int, share: float, faults: Sequence[Fault] = tuple(Fault)) -> Plan:
    """Faults on a share of all requests; only PUTs are doubled."""
    rng = Random(seed)

    def plan(method: str, path: str) -> Fault | None:
        found = rng.choice(faults) if rng.random() < share else None
        return None if found is Fault.DOUBLED and method != "PUT" else found

    return plan


def once(fault: Fault, method: str, part: str) -> Plan:
    """A fault of the first request with that method whose path contains `part`."""
    left = [fault]

    def plan(asked: str, path: str) -> Fault | None:
        return left.pop() if left and asked == method and part in path else None

    return plan


def always(fault: Fault, method: str = "", part: str = "") -> Plan:
    """A fault of each request that fits."""
    return lambda asked, path: fault if method in ("", asked) and part in path else None


def none(method: str, path: str) -> Fault | None:
    return None


@dataclass(frozen=True, slots=True)
class _Message:
    """A request or an answer: its first line and headers, and its body."""

    head: bytes
    body: bytes

    @property
    def line(self) -> list[str]:
        return self.head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")


SLOW_DOWN = (
    b"<?xml version='1.0' encoding='UTF-8'?><Error><Code>SlowDown</Code>"
    b"<Message>Please reduce your request rate.</Message></Error>"
)


@dataclass
class HostileStore:
    """Listens from `__enter__` on. Mutable: the plan, and the faults that occurred."""

    upstream: str
    plan: Plan = none
    endpoint: str = ""
    seen: list[tuple[Fault, str, str]] = field(default_factory=list)

    def __enter__(self) -> HostileStore:
        self._loop = asyncio.new_event_loop()
        self._one_put = asyncio.Lock()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        started = asyncio.run_coroutine_threadsafe(self._listen(), self._loop)
        self._server = started.result(10)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.endpoint = f"http://{host}:{port}"
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _listen(self) -> asyncio.Server:
        return await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=2**20)

    async def _close(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _request(reader, writer)
            if request is not None:
                await self._answer(request, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, request: _Message, writer: asyncio.StreamWriter) -> None:
        method, path = request.line[:2]
        fault = self.plan(method, path)
        if fault is not None:
            self.seen.append((fault, method, path))
        if fault is Fault.CUT_REQUEST:
            return
        if fault is Fault.SLOW_DOWN:
            body = b"" if method == "HEAD" else SLOW_DOWN
            writer.write(
                b"HTTP/1.1 503 Slow Down\r\nContent-Type: application/xml\r\n"
                b"Connection: close\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            await writer.drain()
            return
        answer = await self._carried_out(request)
        if fault is Fault.DOUBLED:
            answer = await self._carried_out(request)
        if fault is Fault.LOST_ANSWER:
            return
        if fault is Fault.CUT_ANSWER:
            answer = answer[: len(answer) * 3 // 4]
        pieces = [answer]
        if fault is Fault.SLOW_ANSWER:
            pieces = [answer[at : at + PIECE] for at in range(0, len(answer), PIECE)]
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            if len(pieces) > 1:
                await asyncio.sleep(PAUSE_S)

    async def _carried_out(self, request: _Message) -> bytes:
        if request.line[0] != "PUT":
            return await self._passed(request)
        async with self._one_put:
            return await self._passed(request)

    async def _passed(self, request: _Message) -> bytes:
        """The store's whole answer."""
        at = urlsplit(self.upstream)
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        try:
            writer.write(request.head + request.body)
            await writer.drain()
            return await reader.read()
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Message | None:
    """A whole request, changed so that its connection ends with the answer."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None  # the client closed a connection that it had kept
    first, *lines = head[:-4].split(b"\r\n")
    headers = [(name.strip().lower(), line) for line in lines for name in [line.split(b":")[0]]]
    given = {name: line.split(b":", 1)[1].strip() for name, line in headers}
    if b"expect" in given:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        await writer.drain()
    if given.get(b"transfer-encoding", b"").lower() == b"chunked":
        body = await _chunked(reader)
    else:
        body = await reader.readexactly(int(given.get(b"content-length", b"0")))
    kept = [line for name, line in headers if name not in (b"expect", b"connection")]
    return _Message(b"\r\n".join([first, *kept, b"Connection: close", b"", b""]), body)


async def _chunked(reader: asyncio.StreamReader) -> bytes:
    """The chunks as they came, with their sizes."""
    found = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        found += line + await reader.readexactly(size + 2)
        if size == 0:
            return found
