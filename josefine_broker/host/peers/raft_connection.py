"""One socket between two brokers: bytes to frames through a `Session`, and how it ended.

Rules: frames are delivered only after the greeting; an invalid frame ends the connection with its
reason. A silent peer is noticed by our timeout, not TCP's. There is no queue: the writer checks
`is_paused` first.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from josefine_broker.base.addresses import HostPort
from josefine_broker.base.tls_files import reason_of
from josefine_broker.engine.cluster.frames import Frame, FrameError, Phase, Session

WRITE_BUFFER_BYTES = 256 * 1024
"""What asyncio buffers per socket; more waits in a link's queue, whose oldest frames can go."""


@dataclass(slots=True)
class TransportStats:
    """Metrics of the raft listener."""

    connected: int = 0
    dials_failed: int = 0
    refused: int = 0
    frames_dropped: int = 0
    frames_refused: int = 0
    handshakes_failed: int = 0
    silent: int = 0
    bytes_in: int = 0
    bytes_out: int = 0


class PeerError(Exception):
    """A question to a peer had no answer; the message is one sentence."""

    is_refused = False
    """The address refused the connection."""


class Connection(asyncio.Protocol):
    """A socket and its Session."""

    def __init__(
        self,
        session: Session,
        stats: TransportStats,
        user_timeout_ms: int,
        on_frame: Callable[[Connection, Frame], None],
        on_made: Callable[[Connection], None] = lambda _: None,
        refuse: Callable[[asyncio.Transport], str] = lambda _: "",
    ) -> None:
        """`on_made` is called when it is connected, after the TLS handshake if there is one;
        `refuse` returns a reason to read nothing of it, or an empty string."""
        self.session = session
        self.opened = asyncio.Event()
        """Set when the greeting is over or has failed."""
        self.closed = asyncio.Event()
        self.is_paused = False
        self.on_resume: Callable[[], None] | None = None
        self.failure = ""
        self.is_shut = False
        """Refused before its first frame: nothing of it is read."""
        self._stats = stats
        self._user_timeout_ms = user_timeout_ms
        self._on_frame = on_frame
        self._on_made = on_made
        self._refuse = refuse
        self._transport: asyncio.Transport | None = None
        self.address = ""
        """The other end's address, for the log."""

    @property
    def is_open(self) -> bool:
        return self.session.phase is Phase.OPEN and not self.closed.is_set()

    @property
    def peer_id(self) -> int:
        """The peer's broker id; 0 before the greeting."""
        return 0 if self.session.peer is None else self.session.peer.node_id

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transports are not asyncio's
        transport = self._transport
        transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        peername = transport.get_extra_info("peername")
        self.address = str(HostPort(*peername[:2])) if peername else ""
        _set_options(transport.get_extra_info("socket"), self._user_timeout_ms)
        reason = self._refuse(transport)
        if reason:
            self.is_shut = True
            self.close(reason)
        else:
            self._flush()
        self._on_made(self)

    def data_received(self, data: bytes) -> None:
        self._stats.bytes_in += len(data)
        if self.is_shut:
            return
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
        if isinstance(exc, ssl.SSLError):  # TLS 1.3: the peer's verdict arrives after our handshake
            self.is_shut = self.is_shut or self.session.peer is None
        self.failure = self.failure or (_said(exc) if exc else "closed by the other side")
        self.session.closed()
        self.opened.set()
        self.closed.set()

    def _flush(self) -> None:
        data = self.session.take_outgoing()
        if data:
            self.write(data)


def _said(error: Exception) -> str:
    return reason_of(error) if isinstance(error, ssl.SSLError) else str(error)


def _set_options(sock: socket.socket | None, user_timeout_ms: int) -> None:
    """Send without Nagle's delay, and notice a vanished peer by our timeout, not TCP's: otherwise a
    healed network is used again only after minutes of retransmission back-off."""
    if sock is None or sock.family not in (socket.AF_INET, socket.AF_INET6):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, user_timeout_ms)
