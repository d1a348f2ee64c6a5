"""Accepts connections on one listening socket, and pauses while the process has no descriptors.

Without descriptors uvloop accepts and closes silently, and asyncio logs each time and sleeps. Here
new connections wait in the backlog until a descriptor is free again, and one line is logged.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress

from josefine_broker.host.net.tls import SHUTDOWN_SECONDS, Tls

log = logging.getLogger(__name__)

ACCEPT_BACKLOG = 1_024
"""Connections that wait for accept: a restart must survive all its clients coming at once."""
ACCEPTS_PER_TURN = 64
"""Connections accepted per turn; then the event loop serves those that are connected."""
RETRY_SECONDS = 0.1
NOTHING_LEFT = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class Acceptor:
    """`start`, `close`. On one event loop; it owns the socket from `start` on."""

    def __init__(
        self,
        name: str,
        listening: socket.socket,
        make: Callable[[], asyncio.BaseProtocol],
        *,
        open_max: int | None = None,
        tls: Tls | None = None,
        on_handshake_failed: Callable[[str, OSError], None] | None = None,
    ) -> None:
        """`make` creates the protocol of each connection. Above `open_max` the oldest connection is
        closed, during handshakes too. With `tls` the protocol starts after the handshake; a failed
        handshake is reported with the client's address."""
        self.pauses = 0
        """Times that no descriptor was left."""
        self._name = name
        self._socket = listening
        self._make = make
        self._retry: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_open = False
        self._tls = tls
        self._on_handshake_failed = on_handshake_failed
        self._handshakes: dict[socket.socket, None] = {}
        """Running handshakes, the oldest first."""
        self._open_max = open_max
        self._open: dict[asyncio.BaseTransport, None] = {}
        """Open connections, the oldest first; kept only with a limit."""

    @property
    def is_open(self) -> bool:
        return self._is_open

    def start(self) -> None:
        """Start to accept. Raises OSError when another process listens on the same port."""
        self._socket.listen(ACCEPT_BACKLOG)
        self._socket.setblocking(False)
        self._is_open = True
        asyncio.get_running_loop().add_reader(self._socket, self._accept_some)

    def close(self) -> None:
        """Stop accepting; accepted connections continue."""
        if not self._is_open:
            return
        self._is_open = False
        asyncio.get_running_loop().remove_reader(self._socket)
        if self._retry is not None:
            self._retry.cancel()
        self._socket.close()

    def _accept_some(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                connection, _ = self._socket.accept()
            except (BlockingIOError, InterruptedError):
                self._go_on()
                return
            except OSError as error:
                if error.errno in NOTHING_LEFT:
                    self._pause(error)
                    return
                continue  # the client is gone already (accept(2): treat such errors as "try again")
            connection.setblocking(False)
            task = asyncio.get_running_loop().create_task(self._connect(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._go_on()

    async def _connect(self, connection: socket.socket) -> None:
        if self._tls is not None:
            await self._shake_hands(connection, self._tls)
            return
        try:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_accepted_socket(self._make, connection)
        except OSError:
            connection.close()
            return
        if self._open_max is not None:
            self._keep(transport, self._open_max)

    async def _shake_hands(self, connection: socket.socket, tls: Tls) -> None:
        """A handshake; no other connection waits for this peer."""
        peer = _peer_of(connection)
        self._handshakes[connection] = None
        handshakes_max = tls.settings.handshakes_max
        if len(self._handshakes) > min(handshakes_max, self._open_max or handshakes_max):
            oldest = next(iter(self._handshakes))
            del self._handshakes[oldest]
            _hang_up(oldest)  # its transport sees the end of the stream and cleans up
        try:
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                self._make,
                connection,
                ssl=tls.contexts.serving,
                ssl_handshake_timeout=tls.settings.handshake_timeout_ms / 1_000,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
        except OSError as error:
            connection.close()
            if self._on_handshake_failed is not None:
                self._on_handshake_failed(peer, error)
            return
        finally:
            self._handshakes.pop(connection, None)
        if self._open_max is not None:
            self._keep(transport, self._open_max)

    def _keep(self, transport: asyncio.Transport, open_max: int) -> None:
        self._open[transport] = None
        if len(self._open) > open_max:
            for each in [each for each in self._open if each.is_closing()]:
                del self._open[each]
        if len(self._open) > open_max:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.close()

    def _pause(self, error: OSError) -> None:
        loop = asyncio.get_running_loop()
        if self._retry is None:
            self.pauses += 1
            loop.remove_reader(self._socket)
            log.warning(
                "no connection accepted for now", extra={"listener": self._name, "reason": error}
            )
        self._retry = loop.call_later(RETRY_SECONDS, self._accept_some)

    def _go_on(self) -> None:
        """A descriptor is free, or no connection waits for one any more."""
        if self._retry is None:
            return
        self._retry = None
        asyncio.get_running_loop().add_reader(self._socket, self._accept_some)
        log.info("connections accepted again", extra={"listener": self._name})


def _peer_of(connection: socket.socket) -> str:
    try:
        host, port, *_ = connection.getpeername()
    except OSError:  # gone already
        return "unknown"
    return f"{host}:{port}"


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
