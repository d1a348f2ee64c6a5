"""The listeners and the set of open connections: bind, accept, idle sweep, drain.

`engine/limits/connection_limits.py` decides who is admitted at the limit, and who is closed for it.
Binding precedes serving (`bind_listeners`), so that a port is known, and a taken one reported,
before any data is touched; a bound socket that does not listen yet refuses its clients.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from josefine_broker.base.security import ANONYMOUS
from josefine_broker.base.tls_files import reason_of
from josefine_broker.engine.limits.connection_limits import Room
from josefine_broker.engine.limits.request_memory import RequestMemory
from josefine_broker.host.net.acceptor import Acceptor
from josefine_broker.host.net.connection import Connection
from josefine_broker.host.net.connection_host import Host, MemoryHolder
from josefine_broker.host.net.sasl_gate import Authentication
from josefine_broker.host.net.text_connection import TextConnection, TextHost
from josefine_broker.host.net.tls import Tls
from josefine_broker.host.rate_limited_log import RateLimitedLog

log = logging.getLogger(__name__)

DRAIN_POLL_SECONDS = 0.005


Guest: TypeAlias = Connection | TextConnection
"""The connections that count: all of them share the limits."""


class BindError(Exception):
    """An address cannot be bound; the message is one sentence for the user."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A listener with its bound socket, not yet listening."""

    name: str
    host: str
    port: int
    socket: socket.socket

    @property
    def resolved_host(self) -> str:
        """The address to which the name resolved when it was bound."""
        return str(self.socket.getsockname()[0])


def bind(name: str, host: str, port: int) -> Bound:
    """Bind a TCP socket; the result has the real port. Raises BindError."""
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

    def __init__(
        self,
        host: Host,
        *,
        connections_max: int,
        per_address_max: int | None = None,
        idle_timeout_ms: int,
    ) -> None:
        self._host = host
        self._idle_timeout_ms = idle_timeout_ms
        self._listeners: list[Acceptor] = []
        self._room = Room[Guest](total_max=connections_max, per_address_max=per_address_max)
        self._log_refused = RateLimitedLog(
            log, "connection refused", time.monotonic, logging.WARNING
        )
        self._log_way = RateLimitedLog(
            log, "idle connection closed for a newcomer", time.monotonic, logging.INFO
        )
        self._log_idle = RateLimitedLog(log, "idle connection closed", time.monotonic, logging.INFO)
        self._log_slow = RateLimitedLog(
            log, "connection closed that held up others", time.monotonic, logging.WARNING
        )
        self._log_tls = RateLimitedLog(log, "TLS handshake failed", time.monotonic, logging.WARNING)

    @property
    def connection_count(self) -> int:
        return len(self._room)

    @property
    def clients(self) -> list[Connection]:
        """The connections of Kafka's protocol."""
        return [each for each in self._room.occupants() if isinstance(each, Connection)]

    @property
    def bytes_in(self) -> int:
        """Bytes of closed and open client connections."""
        return self._host.stats.bytes_in + sum(c.received for c in self._room.occupants())

    @property
    def requests_queued(self) -> int:
        """Requests that were read but not started yet."""
        return sum(each.queued for each in self.clients)

    @property
    def memory(self) -> RequestMemory[MemoryHolder]:
        """Memory of large requests being received."""
        return self._host.memory

    @property
    def is_listening(self) -> bool:
        return bool(self._listeners) and all(each.is_open for each in self._listeners)

    async def start(
        self,
        bound: Iterable[Bound],
        tls: Mapping[str, Tls] | None = None,
        authentication: Mapping[str, Authentication] | None = None,
        nameless: Mapping[str, str] | None = None,
    ) -> None:
        """Start to accept, with TLS on the listeners named in `tls`, and SASL on those in
        `authentication`; `nameless` names the principal of clients without one. Raises BindError
        when another process listens on the same port.
        """
        for each in bound:
            known_by = (authentication or {}).get(each.name)
            called = (nameless or {}).get(each.name, ANONYMOUS)
            make = partial(
                Connection, self._host, each.name, self._opened, self._closed, known_by, called
            )
            self._accept(each, make, (tls or {}).get(each.name))

    async def start_text(self, bound: Bound, host: TextHost, tls: Tls | None = None) -> None:
        """The same for the listener of the text protocol."""
        make = partial(TextConnection, host, bound.name, self._opened, self._closed)
        self._accept(bound, make, tls)

    def _accept(
        self, bound: Bound, make: Callable[[], asyncio.BaseProtocol], tls: Tls | None = None
    ) -> None:
        acceptor = Acceptor(
            bound.name,
            bound.socket,
            make,
            tls=tls,
            on_handshake_failed=partial(self.handshake_failed, bound.name),
        )
        send_buffer_bytes = self._host.limits.send_buffer_bytes
        if send_buffer_bytes is not None:  # each accepted connection inherits it
            bound.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer_bytes)
        try:
            acceptor.start()
        except OSError as error:
            raise _bind_error(bound.name, bound.host, bound.port, error) from None
        self._listeners.append(acceptor)

    def handshake_failed(self, listener: str, client: str, error: OSError) -> None:
        """Count a failed handshake and log it once a minute; the admin listener's too."""
        self._host.stats.closed.tls += 1
        self._log_tls.report(client=client, listener=listener, reason=reason_of(error))

    @property
    def accept_pauses(self) -> int:
        """Times that no descriptor was left for a new connection."""
        return sum(each.pauses for each in self._listeners)

    async def stop(self, timeout_s: float) -> int:
        """Stop accepting, answer the requests in flight, close; returns the number of requests left
        unanswered at the deadline."""
        for listener in self._listeners:
            listener.close()
        for connection in self._room.occupants():
            connection.drain()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while loop.time() < deadline and any(c.waits for c in self._room.occupants()):
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        unanswered = sum(c.waits for c in self._room.occupants())
        for connection in self._room.occupants():
            connection.close()
        while loop.time() < deadline and len(self._room):
            await asyncio.sleep(DRAIN_POLL_SECONDS)
        for connection in self._room.occupants():  # these do not read their last answers
            connection.abort()
        return unanswered

    def close_idle(self, now_ms: int) -> None:
        """Close connections that have sent nothing for the idle timeout and wait for nothing, and
        those of slow clients that hold memory others wait for.

        Aborted, not closed: a client that does not read its answers would never finish closing.
        """
        for each in self._host.memory.overdue(now_ms):
            if each.stalls and each.abort():
                self._host.stats.closed.slow += 1
                self._log_slow.report(client=each.address)
        for occupant in self._room.occupants():
            if isinstance(occupant, Connection):
                occupant.shrink()
        for connection in self._room.idle_for(self._idle_timeout_ms, now_ms):
            if connection.abort():
                self._host.stats.closed.idle += 1
                self._log_idle.report(client=connection.address)

    def _opened(self, connection: Guest) -> bool:
        stats, now_ms = self._host.stats, self._host.monotonic_ms()
        verdict = self._room.make_room(connection.host, now_ms)
        if verdict.refusal:
            stats.refused_full += not verdict.is_address_full
            stats.refused_address += verdict.is_address_full
            self._log_refused.report(client=connection.address, reason=verdict.refusal)
            return False
        if verdict.gives_way is not None:
            stats.gave_way += 1
            self._log_way.report(client=verdict.gives_way.address, newcomer=connection.address)
            verdict.gives_way.abort()
        stats.opened += 1
        self._room.enter(connection, now_ms)
        return True

    def _closed(self, connection: Guest) -> None:
        self._host.stats.bytes_in += connection.received
        self._room.leave(connection)
