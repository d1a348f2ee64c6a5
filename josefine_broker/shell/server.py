"""The listeners and the set of open connections: binding, accepting, idle sweep, draining.

Binding comes before serving (`bind_listeners`), so that a port is known, and a taken one reported,
before any data is touched; a bound socket that does not listen yet refuses its clients.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Iterable
from dataclasses import dataclass

from josefine_broker.shell.connection import Connection, Host

log = logging.getLogger(__name__)

ACCEPT_BACKLOG = 1_024
"""Connections that wait for accept: a restart must survive all its clients coming at once."""

DRAIN_POLL_SECONDS = 0.005


class BindError(Exception):
    """An address cannot be listened on; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener with its socket, bound and not yet listening."""

    name: str
    host: str
    port: int
    socket: socket.socket

    @property
    def resolved_host(self) -> str:
        """The address that the name meant when it was bound."""
        return str(self.socket.getsockname()[0])


def bind(name: str, host: str, port: int) -> Bound:
    """Bind a TCP socket; the port of the result is the real one. Raises BindError."""
    bound = None
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind(address)
    except OSError as error:
        if bound is not None:
            bound.close()
        raise _bind_error(name, host, port, error) from None
    return Bound(name, host, bound.getsockname()[1], bound)


def _bind_error(name: str, host: str, port: int, error: OSError) -> BindError:
    reason = error.strerror or str(error)
    if error.errno == errno.EADDRINUSE:
        reason = "the port is already in use"
    return BindError(f"cannot listen on {host}:{port} ({name}): {reason}")


class Server:
    """All listeners of a broker and their connections. Mutated on the event loop only."""

    def __init__(self, host: Host, *, connections_max: int, idle_timeout_ms: int) -> None:
        self._host = host
        self._connections_max = connections_max
        self._idle_timeout_ms = idle_timeout_ms
        self._listeners: list[asyncio.Server] = []
        self._connections: set[Connection] = set()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    @property
    def is_listening(self) -> bool:
        return bool(self._listeners) and all(s.is_serving() for s in self._listeners)

    async def start(self, bound: Iterable[Bound]) -> None:
        """Begin to accept. Raises BindError when another process listens on the same port."""
        loop = asyncio.get_running_loop()
        for listener in bound:
            try:
                server = await loop.create_server(
                    lambda name=listener.name: Connection(  # type: ignore[misc]
                        self._host, name, self._opened, self._closed
                    ),
                    sock=listener.socket,
                    backlog=ACCEPT_BACKLOG,
                )
            except OSError as error:
                raise _bind_error(listener.name, listener.host, listener.port, error) from None
            self._listeners.append(server)

    async def stop(self, timeout_s: float) -> int:
        """Stop accepting, answer what is in flight, close; the number of requests left unanswered
        at the deadline is returned."""
        for listener in self._listeners:
            listener.close()
        for connection in list(self._connections):
            connection.drain()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while loop.time() < deadline and any(c.waits for c in self._connections):
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        unanswered = sum(c.waits for c in self._connections)
        for connection in list(self._connections):
            connection.close()
        while loop.time() < deadline and self._connections:
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        for connection in list(self._connections):  # clients that do not read their last answers
            connection.abort()
        return unanswered

    def close_idle(self, now_ms: int) -> None:
        """Close connections that have sent nothing for the idle timeout and wait for nothing.

        Aborted, not closed: one that does not read its answers would never finish closing.
        """
        for connection in list(self._connections):
            if connection.received != connection.received_before or connection.waits:
                connection.received_before = connection.received
                connection.idle_since_ms = now_ms
            elif now_ms - connection.idle_since_ms < self._idle_timeout_ms:
                continue
            elif connection.abort():
                self._host.stats.closed_idle += 1
                log.info("idle connection closed", extra={"client": connection.address})

    def _opened(self, connection: Connection) -> bool:
        if len(self._connections) >= self._connections_max:
            self._host.stats.refused_full += 1
            log.warning(
                "connection refused",
                extra={"client": connection.address, "connections": len(self._connections)},
            )
            return False
        self._host.stats.opened += 1
        connection.idle_since_ms = self._host.monotonic_ms()
        self._connections.add(connection)
        return True

    def _closed(self, connection: Connection) -> None:
        self._host.stats.bytes_in += connection.received
        self._connections.discard(connection)
