"""Carries frames between brokers: one listener, one dialed connection per peer, bounded queues.

Rules: what this broker has to say to a peer goes over the connection that it dialed itself; answers
come back on the same one. A peer that does not read, or is gone, costs a bounded queue from which
the oldest frames are dropped: Raft and heartbeats repeat what matters. A name is resolved at each
dial. Whoever is refused learns why, and both sides log it once. Decides nothing about the cluster.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import cast

from josefine_broker.config_values import HostPort, parse_host_port
from josefine_broker.shell.address_book import AddressBook
from josefine_broker.shell.raft_frames import (
    Admit,
    Frame,
    FrameError,
    Hello,
    Kind,
    Phase,
    Session,
    encode_frame,
)
from josefine_broker.shell.server import Bound

log = logging.getLogger(__name__)

INBOUND_MAX = 256
"""Connections that others dialed: some per broker of a large cluster; past that they are closed."""
GREETING_SECONDS = 5.0
"""Whoever dials and does not introduce itself is closed."""
BACKOFF_SECONDS = (0.05, 1.0)
"""First and longest wait between two dials of a peer; half of it is chance."""
QUEUE_FRAMES_MAX = 4_096
IDLE_SECONDS = 60.0
"""A link that carried nothing for this long is given up: its peer left."""
WRITE_BUFFER_BYTES = 256 * 1024
"""What asyncio holds for a socket; more waits in our own queue, whose oldest frames can go."""


@dataclass(slots=True)
class TransportStats:
    """What `/metrics` shows of the raft listener."""

    connected: int = 0
    dials_failed: int = 0
    refused: int = 0
    frames_dropped: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class PeerError(Exception):
    """A question to a peer had no answer; the message is one sentence."""

    is_refused = False
    """The address answered that nobody listens there."""


Reply = Callable[[Kind, bytes], None]
Handle = Callable[[Hello, Frame, Reply], None]
"""A frame of this peer, and where to put the answer."""


class Connection(asyncio.Protocol):
    """A socket and its Session."""

    def __init__(
        self,
        session: Session,
        stats: TransportStats,
        user_timeout_ms: int,
        on_frame: Callable[[Connection, Frame], None],
    ) -> None:
        self.session = session
        self.opened = asyncio.Event()
        """Set when the greeting is over, and when it failed."""
        self.closed = asyncio.Event()
        self.is_paused = False
        self.on_resume: Callable[[], None] | None = None
        self.failure = ""
        self._stats = stats
        self._user_timeout_ms = user_timeout_ms
        self._on_frame = on_frame
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self.session.phase is Phase.OPEN and not self.closed.is_set()

    @property
    def peer_id(self) -> int:
        """Who it is; 0 before the greeting."""
        return 0 if self.session.peer is None else self.session.peer.node_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none of asyncio's
        transport = self._transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        _set_options(transport.get_extra_info("socket"), self._user_timeout_ms)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._stats.bytes_in += len(data)
        was_open = self.session.phase is Phase.OPEN
        try:
            frames = self.session.feed(data)
            self._flush()
            if not was_open and self.is_open:
                self.opened.set()
            for frame in frames:
                self._on_frame(self, frame)
        except FrameError as error:
            self._flush()
            self.close(str(error))

    def write(self, data: bytes) -> None:
        assert self._transport is not None
        self._stats.bytes_out += len(data)
        self._transport.write(data)

    def close(self, reason: str = "") -> None:
        self.failure = self.failure or reason
        if self._transport is not None:
            self._transport.close()
        self.opened.set()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        self.is_paused = True

    def resume_writing(self) -> None:
        self.is_paused = False
        if self.on_resume is not None:
            self.on_resume()

    def connection_lost(self, exc: Exception | None) -> None:
        self.failure = self.failure or (str(exc) if exc else "closed by the other side")
        self.session.phase = Phase.OVER
        self.opened.set()
        self.closed.set()

    def _flush(self) -> None:
        data = self.session.take_outgoing()
        if data:
            self.write(data)


def _set_options(sock: socket.socket | None, user_timeout_ms: int) -> None:
    """No waiting for full packets; and a peer that vanished is noticed in our time, not TCP's:
    otherwise a healed network is used again only after minutes of retransmission back-off."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)


class RaftTransport:
    """`start`, then `send` and `ask`; `stop`. On one event loop."""

    def __init__(
        self,
        *,
        hello: Callable[[int], Hello],
        book: AddressBook,
        rng: Random,
        handlers: dict[Kind, Handle],
        timeout_ms: int,
        queue_bytes_max: int,
        admit: Admit | None = None,
    ) -> None:
        """`hello(to)` introduces this broker; `handlers` take what peers send; `timeout_ms` is
        how long a dial may take, or sent bytes stay unacknowledged; `admit` may refuse a peer."""
        self.stats = TransportStats()
        self.book = book
        self.on_refused: Callable[[int, str], None] | None = None
        self.on_gone: Callable[[], None] | None = None
        self._hello = hello
        self._admit = admit
        self._rng = rng
        self._handlers = handlers
        self._timeout_ms = timeout_ms
        self._queue_bytes_max = queue_bytes_max
        self._links: dict[int, _Link] = {}
        self._inbound: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, bound: Bound) -> None:
        """Begin to accept. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, sock=bound.socket)

    async def stop(self) -> None:
        """Close everything; what is queued is dropped."""
        if self._server is not None:
            self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for connection in list(self._inbound):
            connection.abort()
        self._links.clear()

    def send(self, to: int, kind: Kind, body: bytes) -> None:
        """Queue a frame for a peer; it may be lost."""
        link = self._links.get(to)
        if link is None:
            link = self._links[to] = _Link(self, to)
            self._spawn(link.run())
        link.send(encode_frame(kind, body))

    def gone(self) -> frozenset[int]:
        """Peers that have no process: their address refuses connections, and none of theirs is
        open. (A peer that stands still, or behind a broken network, is not among them.)"""
        refusing = {key for key, link in self._links.items() if link.is_refused}
        if not refusing:
            return frozenset()
        return frozenset(refusing - {each.peer_id for each in self._inbound if each.is_open})

    def address_of(self, peer_id: int) -> str:
        """Where a peer that is connected to us says it can be dialed; empty: none is."""
        for each in self._inbound:
            if each.is_open and each.peer_id == peer_id and each.session.peer is not None:
                return each.session.peer.address
        return ""

    def is_connected(self, to: int) -> bool:
        link = self._links.get(to)
        return link is not None and link.is_connected

    async def ask(
        self, address: HostPort, kind: Kind, body: bytes, timeout_s: float, to: int = 0
    ) -> Frame:
        """One question over a connection of its own. Raises PeerError."""
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()

        def take(_connection: Connection, frame: Frame) -> None:
            if not answer.done():
                answer.set_result(frame)

        connection = None
        try:
            async with asyncio.timeout(timeout_s):
                connection = await self.dial(address, to, take)
                connection.write(encode_frame(kind, body))
                closed = asyncio.ensure_future(connection.closed.wait())
                try:
                    await asyncio.wait((answer, closed), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    closed.cancel()
        except TimeoutError:
            raise PeerError(f"no answer from {address} within {timeout_s:g} s") from None
        finally:
            if connection is not None:
                connection.abort()
        if not answer.done():
            raise PeerError(f"{address}: {connection.failure}")
        return answer.result()

    async def dial(
        self, address: HostPort, to: int, on_frame: Callable[[Connection, Frame], None]
    ) -> Connection:
        """An open connection. Raises PeerError, whose words both sides have logged if refused."""
        loop = asyncio.get_running_loop()
        session = Session(self._hello(to), dials=True)
        connection = Connection(session, self.stats, self._timeout_ms, on_frame)
        try:
            async with asyncio.timeout(self._timeout_ms / 1_000):
                await loop.create_connection(lambda: connection, address.host, address.port)
                await connection.opened.wait()
        except TimeoutError:
            connection.abort()
            raise PeerError(f"{address} did not answer within {self._timeout_ms} ms") from None
        except OSError as error:
            failure = PeerError(f"{address}: {error.strerror or error}")
            failure.is_refused = isinstance(error, ConnectionRefusedError)
            raise failure from None
        if not connection.is_open:
            connection.abort()
            if connection.failure.startswith("refused: "):
                self._tell_refused(to, f"{address} {connection.failure}")
            raise PeerError(f"{address}: {connection.failure}")
        assert session.peer is not None
        return connection

    # -- what others dialed

    def _accept(self) -> Connection:
        session = Session(self._hello(0), dials=False, admit=self._admit)
        connection = Connection(session, self.stats, self._timeout_ms, self._take)
        self._spawn(self._watch(connection))
        return connection

    async def _watch(self, connection: Connection) -> None:
        """Keep an inbound connection in the books until it ends."""
        self._inbound.add(connection)
        try:
            if len(self._inbound) > INBOUND_MAX:
                connection.close("too many connections")
            async with asyncio.timeout(GREETING_SECONDS):
                await connection.opened.wait()
            if connection.is_open:
                self._greeted(connection)
            elif connection.session.peer is None and connection.failure:
                self._tell_refused(0, connection.failure)
            await connection.closed.wait()
        except TimeoutError:
            log.info("raft connection closed", extra={"reason": "no greeting"})
        finally:
            self._inbound.discard(connection)
            connection.abort()

    def _greeted(self, connection: Connection) -> None:
        """Who greets us is there: dial it back at once, at the address that it names."""
        peer = connection.session.peer
        assert peer is not None
        if peer.address:
            self.book.learn(peer.node_id, parse_host_port(peer.address))
        link = self._links.get(peer.node_id)
        if link is not None:
            link.poke()

    def _take(self, connection: Connection, frame: Frame) -> None:
        handle = self._handlers.get(frame.kind)
        peer = connection.session.peer
        assert peer is not None
        if handle is None:
            raise FrameError(f"broker {peer.node_id} sent an unexpected {frame.kind.name} frame")

        def reply(kind: Kind, body: bytes) -> None:
            if connection.is_open and not connection.is_paused:
                connection.write(encode_frame(kind, body))

        handle(peer, frame, reply)

    def _tell_refused(self, peer: int, reason: str) -> None:
        self.stats.refused += 1
        if reason not in self._told and len(self._told) < INBOUND_MAX:
            self._told.add(reason)
            log.warning("raft peer not accepted", extra={"reason": reason})
        if self.on_refused is not None:
            self.on_refused(peer, reason)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- for the links

    async def pause(self, attempt: int, poked: asyncio.Event) -> None:
        """Wait before the next dial; a peer that shows itself ends it early."""
        first, longest = BACKOFF_SECONDS
        wait_s = min(longest, first * 2.0 ** min(attempt, 10)) * (0.5 + self._rng.random() / 2)
        try:
            async with asyncio.timeout(wait_s):
                await poked.wait()
        except TimeoutError:
            pass
        poked.clear()

    def tell_gone(self) -> None:
        if self.on_gone is not None:
            self.on_gone()

    def forget(self, node_id: int) -> None:
        self._links.pop(node_id, None)

    @property
    def queue_bytes_max(self) -> int:
        return self._queue_bytes_max

    def take_answer(self, connection: Connection, frame: Frame) -> None:
        self._take(connection, frame)


class _Link:
    """What this broker has to say to one peer."""

    def __init__(self, transport: RaftTransport, node_id: int) -> None:
        self._transport = transport
        self._node_id = node_id
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._connection: Connection | None = None
        self._poked = asyncio.Event()
        self._used = True
        self.is_refused = False
        """At the last attempt nobody listened at any of the peer's addresses."""

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_open

    def send(self, data: bytes) -> None:
        self._used = True
        connection = self._connection
        if connection is not None and connection.is_open and not connection.is_paused:
            connection.write(data)
            return
        self._queue.append(data)
        self._queued_bytes += len(data)
        while self._queued_bytes > self._transport.queue_bytes_max or (
            len(self._queue) > QUEUE_FRAMES_MAX
        ):
            self._queued_bytes -= len(self._queue.popleft())
            self._transport.stats.frames_dropped += 1

    def poke(self) -> None:
        self._poked.set()

    async def run(self) -> None:
        """Dial, carry, dial again, until nothing has been sent for IDLE_SECONDS."""
        attempt = 0
        try:
            while True:
                if await self._dial():
                    attempt = 0
                    if not await self._carry():
                        return
                else:
                    attempt += 1
                await self._transport.pause(attempt, self._poked)
        finally:
            self._transport.forget(self._node_id)

    async def _dial(self) -> bool:
        transport = self._transport
        refusals = []
        for address in transport.book.addresses(self._node_id):
            try:
                connection = await transport.dial(address, self._node_id, transport.take_answer)
            except PeerError as error:
                transport.stats.dials_failed += 1
                log.debug("raft dial failed", extra={"peer": self._node_id, "reason": error})
                refusals.append(error.is_refused)
                continue
            self.is_refused = False
            connection.on_resume = self._flush
            self._connection = connection
            return True
        self.is_refused = bool(refusals) and all(refusals)
        if self.is_refused:
            transport.tell_gone()
        return False

    async def _carry(self) -> bool:
        """Until the connection ends; False when it is not needed any more."""
        assert self._connection is not None
        connection = self._connection
        self._transport.stats.connected += 1
        log.info("raft peer connected", extra={"peer": self._node_id})
        try:
            self._flush()
            while not connection.closed.is_set():
                self._used = False
                try:
                    async with asyncio.timeout(IDLE_SECONDS):
                        await connection.closed.wait()
                except TimeoutError:
                    if not self._used:
                        return False
        finally:
            self._transport.stats.connected -= 1
            self._connection = None
            connection.abort()
        log.info(
            "raft peer lost",
            extra={"peer": self._node_id, "reason": connection.failure or "closed"},
        )
        return True

    def _flush(self) -> None:
        connection = self._connection
        while self._queue and connection is not None:
            if connection.is_paused or not connection.is_open:
                return
            data = self._queue.popleft()
            self._queued_bytes -= len(data)
            connection.write(data)
