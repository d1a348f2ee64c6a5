"""The transport of frames between brokers: one listener, one dialed connection per peer, bounded
queues.

Rules: messages to a peer use the connection that this broker dialed (a `Link`); answers come back
on the same one. A name is resolved at each dial. A refused peer gets the reason, and both sides log
each reason once. Strangers cost little: they send small frames, have little time, and the oldest of
them is closed for a new one. Decides nothing about the cluster: the owner decides which peers are
known (engine/cluster/admission.py).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from random import Random

from josefine_broker.base.addresses import HostPort
from josefine_broker.engine.cluster.address_book import AddressBook
from josefine_broker.engine.cluster.admission import STRANGER_FRAME_BYTES_MAX
from josefine_broker.engine.cluster.frames import (
    FRAME_BYTES_MAX,
    Admit,
    Frame,
    FrameError,
    Hello,
    Kind,
    Session,
    encode_frame,
)
from josefine_broker.host.net.acceptor import Acceptor
from josefine_broker.host.net.server import Bound
from josefine_broker.host.peers.raft_connection import Connection, PeerError, TransportStats
from josefine_broker.host.peers.raft_link import Link
from josefine_broker.host.peers.raft_tls import Guard, RaftTls
from josefine_broker.host.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

INBOUND_MAX = 256
"""Inbound connections: some per broker of a large cluster; above this they are closed."""
STRANGERS_MAX = 64
"""Inbound connections from brokers that are unknown, or not known yet; above this the oldest is
closed. As many as are accepted in one turn of the loop, so that brokers that all connect at once
are served."""
GREETING_SECONDS = 5.0
"""A connection without a greeting is closed after this time."""
STRANGER_SECONDS = 30.0
"""A greeted peer that is still unknown is closed after this time: its questions take seconds."""
REASONS_MAX = 64
"""Refusals that are remembered to be logged once; strangers could invent more without end."""
REFUSED_LINES = 10
"""Log lines per minute about refusals."""

Reply = Callable[[Kind, bytes], None]
Handle = Callable[[Hello, Frame, Reply], None]
"""A frame of this peer, and the function that sends the answer."""


class RaftTransport:
    """`start`, then `send` and `ask`; `stop`. On one event loop."""

    def __init__(
        self,
        *,
        hello: Callable[[int], Hello],
        book: AddressBook,
        rng: Random,
        take: Handle,
        timeout_ms: int,
        queue_bytes_max: int,
        admit: Admit | None = None,
        is_known: Callable[[int], bool] = lambda _peer: True,
        on_greeted: Callable[[Hello, bool], None] = lambda _peer, _was_dialed: None,
        tls: RaftTls | None = None,
    ) -> None:
        """`hello(to)` introduces this broker; `take` gets the frames of peers, and raises
        FrameError for invalid ones; `timeout_ms` bounds a dial, and the time sent bytes stay
        unacknowledged; `admit` may refuse a peer; `is_known` identifies members; `on_greeted` is
        called for each greeting, with whether we dialed; without `tls` the connections are
        plaintext."""
        self.stats = TransportStats()
        self._guard = Guard(tls, self.stats)
        self.book = book
        self._is_known = is_known
        self._on_greeted = on_greeted
        self.on_refused: Callable[[int, str], None] | None = None
        """Called with the reason when a dialed peer refuses this broker; reasons from peers that
        dialed us are ignored."""
        self.on_gone: Callable[[], None] | None = None
        self._hello = hello
        self._admit = admit
        self._rng = rng
        self._take_said = take
        self._timeout_ms = timeout_ms
        self._queue_bytes_max = queue_bytes_max
        self._links: dict[int, Link] = {}
        self._inbound: set[Connection] = set()
        self._acceptor: Acceptor | None = None
        self._strangers: dict[Connection, None] = {}
        """Inbound connections of strangers, the oldest first."""
        self._told: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # Peers retry for ever and strangers send anything: without a limit these events would fill
        # the log.
        seconds = time.monotonic
        self._log_silent = RateLimitedLog(
            log, "raft connection closed: silent", seconds, logging.INFO
        )
        self._log_refused = RateLimitedLog(
            log, "raft peer not accepted", seconds, logging.WARNING, lines=REFUSED_LINES
        )
        self._log_frame = RateLimitedLog(log, "raft frame refused", seconds, logging.WARNING)

    async def start(self, bound: Bound) -> None:
        """Start to accept. Raises OSError."""
        self._acceptor = Acceptor(
            bound.name,
            bound.socket,
            self._accept,
            tls=self._guard.tls,
            on_handshake_failed=self._guard.handshake_failed,
        )
        self._acceptor.start()

    async def stop(self) -> None:
        """Close everything; queued frames are dropped."""
        if self._acceptor is not None:
            self._acceptor.close()
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
            link = self._links[to] = self._new_link(to)
            self._spawn(self._keep(to, link))
        link.send(encode_frame(kind, body))

    def _new_link(self, to: int) -> Link:
        return Link(
            to,
            addresses=lambda: self.book.addresses(to),
            dial=lambda address: self.dial(address, to, self._take),
            on_refused=self._tell_gone,
            stats=self.stats,
            rng=self._rng,
            queue_bytes_max=self._queue_bytes_max,
        )

    async def _keep(self, to: int, link: Link) -> None:
        """Keep a link registered until it ends."""
        try:
            await link.run()
        finally:
            self._links.pop(to, None)

    def _tell_gone(self) -> None:
        if self.on_gone is not None:
            self.on_gone()

    def gone(self) -> frozenset[int]:
        """Peers without a process: their address refuses connections, and no connection of theirs
        is open. (A hung peer, or one on a broken network, is not included.)"""
        refusing = {key for key, link in self._links.items() if link.is_refused}
        if not refusing:
            return frozenset()
        return frozenset(refusing - {each.peer_id for each in self._inbound if each.is_open})

    def address_of(self, peer_id: int) -> str:
        """The address at which a connected peer can be dialed, by its own account; empty: none."""
        for each in self._inbound:
            if each.is_open and each.peer_id == peer_id and each.session.peer is not None:
                return each.session.peer.address
        return ""

    def trouble_with(self, to: int) -> str:
        """Why this peer cannot be reached, address first; empty: reachable, or not tried."""
        link = self._links.get(to)
        return "" if link is None else link.trouble

    def is_connected(self, to: int) -> bool:
        link = self._links.get(to)
        return link is not None and link.is_connected

    async def ask(
        self, address: HostPort, kind: Kind, body: bytes, timeout_s: float, to: int = 0
    ) -> Frame:
        """Ask one question over a separate connection. Raises PeerError."""
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
        """An open connection. Raises PeerError; a refusal is logged on both sides."""
        session = Session(self._hello(to), dials=True, frame_bytes_max=self._frame_bytes_max)
        guard = self._guard
        connection = Connection(
            session, self.stats, self._timeout_ms, on_frame, refuse=guard.why_not
        )
        try:
            async with asyncio.timeout(self._timeout_ms / 1_000):
                await guard.connect(connection, address)
                await connection.opened.wait()
        except TimeoutError:
            connection.abort()
            raise PeerError(f"{address} did not answer within {self._timeout_ms} ms") from None
        except OSError as error:
            guard.dial_failed(address, error)
            failure = PeerError(f"{address}: {guard.reason_of(error)}")
            failure.is_refused = isinstance(error, ConnectionRefusedError)
            raise failure from None
        except ValueError as error:  # a host name that cannot be resolved at all
            raise PeerError(f"{address}: {error}") from None
        if not connection.is_open:
            connection.abort()
            if connection.is_shut:
                guard.refused(str(address), connection.failure)
            is_refused = connection.failure.startswith("refused: ")
            if is_refused:
                reason = f"{address} {connection.failure}"
                self._tell_refused(reason)
                if self.on_refused is not None:
                    self.on_refused(to, reason)
            # A client listener answers like this: it takes a greeting for a broken request.
            is_told = is_refused or session.peer or connection.is_shut
            hint = "" if is_told else guard.hint
            raise PeerError(f"{address}: {connection.failure}{hint}")
        assert session.peer is not None
        self._on_greeted(session.peer, True)
        return connection

    # -- inbound connections

    def _accept(self) -> Connection:
        session = Session(
            self._hello(0), dials=False, admit=self._admit, frame_bytes_max=self._frame_bytes_max
        )
        return Connection(
            session,
            self.stats,
            self._timeout_ms,
            self._take,
            on_made=lambda connection: self._spawn(self._watch(connection)),
            refuse=self._guard.why_not,
        )

    def _frame_bytes_max(self, peer: Hello) -> int:
        return FRAME_BYTES_MAX if self._is_known(peer.node_id) else STRANGER_FRAME_BYTES_MAX

    async def _watch(self, connection: Connection) -> None:
        """Keep an inbound connection registered until it ends."""
        self._inbound.add(connection)
        self._strangers[connection] = None
        try:
            if len(self._strangers) > STRANGERS_MAX:
                next(iter(self._strangers)).abort()
            if len(self._inbound) > INBOUND_MAX:
                connection.close("too many connections")
            async with asyncio.timeout(GREETING_SECONDS):
                await connection.opened.wait()
            if connection.is_shut:
                self._guard.refused(connection.address, connection.failure)
            elif connection.is_open:
                self._greeted(connection)
            elif connection.session.peer is None and connection.failure:
                self._tell_refused(connection.failure)
            await self._until_closed(connection)
        except TimeoutError:
            self.stats.silent += 1
            self._log_silent.report(address=connection.address, greeted=connection.is_open)
        finally:
            self._inbound.discard(connection)
            self._strangers.pop(connection, None)
            connection.abort()

    async def _until_closed(self, connection: Connection) -> None:
        """Raises TimeoutError for one that is still a stranger after its time."""
        if connection in self._strangers:
            try:
                async with asyncio.timeout(STRANGER_SECONDS):
                    await connection.closed.wait()
            except TimeoutError:
                if not self._is_known(connection.peer_id):
                    raise
                self._strangers.pop(connection, None)
        await connection.closed.wait()

    def _greeted(self, connection: Connection) -> None:
        """A peer that greets us is up: dial it back at once, at the address it names."""
        peer = connection.session.peer
        assert peer is not None
        self._on_greeted(peer, False)
        if not self._is_known(peer.node_id):
            return
        self._strangers.pop(connection, None)
        link = self._links.get(peer.node_id)
        if link is not None:
            link.poke()

    def _take(self, connection: Connection, frame: Frame) -> None:
        peer = connection.session.peer
        assert peer is not None

        def reply(kind: Kind, body: bytes) -> None:
            if connection.is_open and not connection.is_paused:
                connection.write(encode_frame(kind, body))

        try:
            self._take_said(peer, frame, reply)
        except FrameError as error:
            self.stats.frames_refused += 1
            self._log_frame.report(peer=peer.node_id, reason=error)
            raise

    def _tell_refused(self, reason: str) -> None:
        self.stats.refused += 1
        if reason not in self._told:
            if len(self._told) >= REASONS_MAX:
                self._told.clear()
            self._told.add(reason)
            self._log_refused.report(reason=reason)

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
