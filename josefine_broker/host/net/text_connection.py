"""One connection of the text listener: bytes to its session, reply lines to the client.

Rules, as for Kafka's clients: a client that does not read its replies is not read either, nor is
one whose command waits while many bytes are unserved; an error of a connection ends this connection
only. A client that closes its sending side (`echo … | nc`) still gets its replies. The commands it
sent before it disappeared are executed as far as they need no reader; then its place is free. Over
TLS a client that closes its side is gone, because asyncio closes both directions: only answers
ready by then are sent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.purgatory.purgatory import Parked
from josefine_broker.host.metrics import ConnectionStats

log = logging.getLogger(__name__)

UNSERVED_BYTES_MAX = 65_536
"""Bytes held back for a session that waits; beyond that its client is not read."""


STEPS_PER_TURN = 64
REPLY_BYTES_PER_TURN = 65_536
"""After this many lines, or such long replies, the event loop serves others."""


class TextSession(Protocol):
    """A session of the text protocol, as its host uses it."""

    waiting: Parked | None
    has_ended: bool

    @property
    def unserved_bytes(self) -> int: ...

    @property
    def is_closed(self) -> bool: ...

    def receive(self, data: bytes) -> None: ...

    def desert(self) -> None: ...

    def take(self) -> bytes: ...

    def step(self) -> bool: ...

    def resume(self) -> bool: ...

    def fail(self) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TextHost:
    """State that all connections of the text listener share."""

    new_session: Callable[[], TextSession]
    stats: ConnectionStats
    write_buffer_bytes: int
    on_parked: Callable[[], None]
    """Called when something waits: its deadline may be the earliest one."""
    forget: Callable[[Parked], None]
    """Called when no client is left for this result."""
    on_fatal: Callable[[BaseException], None]


class TextConnection(asyncio.Protocol):
    """State of one connection. Mutated on the event loop only."""

    def __init__(
        self,
        host: TextHost,
        listener: str,
        on_open: Callable[[TextConnection], bool],
        on_close: Callable[[TextConnection], None],
    ) -> None:
        """`on_open` may refuse the connection by returning False."""
        self._host = host
        self._listener = listener
        self._on_open = on_open
        self._on_close = on_close
        self._session = host.new_session()
        self._busy = False
        self._write_paused = False
        self._reading_paused = False
        self._draining = False
        self._closed = False
        self._lost = False
        """The connection is lost,"""
        self._ended = False
        """and no more commands are left to be served."""
        self.address = "unknown"
        self.received = 0
        self.received_before = 0  # these two belong to the server's idle sweep
        self.idle_since_ms = 0

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        peername = transport.get_extra_info("peername")
        if peername:
            self.address = f"{peername[0]}:{peername[1]}"
        if not self._on_open(self):
            self._closed = self._ended = True
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._host.write_buffer_bytes)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self._session.receive(data)
        self._work_off()

    def eof_received(self) -> bool:
        self._session.has_ended = True
        self._work_off()
        return not (self._closed or self._is_tls)  # whether it stays open for the replies

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = self._lost = True
        self._session.desert()
        self._write_paused = False
        if self._draining:
            self._end()
        else:
            self._work_off()

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self._work_off()

    # Shutdown and idle sweep, driven by the server.

    @property
    def host(self) -> str:
        """The client's machine: its address without the port."""
        return self.address.rpartition(":")[0]

    @property
    def waits(self) -> bool:
        """True while a command that was begun has no reply yet."""
        return self._session.waiting is not None

    def drain(self) -> None:
        """Begin no further command; the one under way is still answered, if to anybody."""
        self._draining = True
        if self._lost:
            self._end()

    def close(self) -> bool:
        """Close after what was answered has been sent; False when it is closing already."""
        if self._closed:
            return False
        self._closed = True
        self._transport.close()
        return True

    def abort(self) -> bool:
        """Close now, whatever was not sent; False when it was closing already."""
        was_open, self._closed = not self._closed, True
        self._transport.abort()
        return was_open

    # Lines and replies.

    def _work_off(self, *, resumed: bool = False) -> None:
        """Serve as far as the bounds allow; then read on, or stop reading."""
        if self._busy or self._ended:
            return  # busy: a command broke an invariant, and the broker stops
        self._busy = True
        session, goes_on, sent, steps = self._session, True, 0, 0
        try:
            while goes_on and steps < STEPS_PER_TURN and sent < REPLY_BYTES_PER_TURN:
                steps += 1
                if resumed:
                    goes_on, resumed = session.resume(), False
                elif self._write_paused or self._draining:
                    goes_on = False
                else:
                    goes_on = session.step()
                sent += self._send(session.take())
        except Fatal as error:
            self.abort()
            self._host.on_fatal(error)
            return
        except Exception:
            log.exception("text command failed", extra={"client": self.address})
            self._host.stats.handler_failures += 1
            session.fail()
            self._send(session.take())
        if goes_on:
            asyncio.get_running_loop().call_soon(self._work_off)
        self._busy = False
        self._look(session)

    def _look(self, session: TextSession) -> None:
        """Act on the state of the session: close, pause or resume reading."""
        if session.is_closed:
            self.close()
            if self._lost:
                self._end()
            return
        waiting = session.waiting
        if waiting is not None:
            waiting.on_done = self._resume
            self._host.on_parked()
        is_held = waiting is not None or self._write_paused or self._draining
        stops = is_held and session.unserved_bytes > UNSERVED_BYTES_MAX
        if stops is not self._reading_paused and not (session.has_ended or self._closed):
            self._reading_paused = stops
            if stops:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def _resume(self, _parked: Parked) -> None:
        """The wait of the session is over (called by `ParkedRequests.run_completed`)."""
        waiting = self._session.waiting
        if waiting is not None and waiting.done:
            self._work_off(resumed=True)

    def _end(self) -> None:
        if self._ended:
            return
        self._ended = True
        waiting = self._session.waiting
        if waiting is not None:
            waiting.on_done = None
            self._host.forget(waiting)
        self._session.close()
        self._on_close(self)

    def _send(self, data: bytes) -> int:
        """The bytes there were, whether anybody gets them or not."""
        if data and not self._closed:
            self._host.stats.bytes_out += len(data)
            self._transport.write(data)
        return len(data)
