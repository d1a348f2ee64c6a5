"""One client connection: bytes in, frames out to the dispatcher, answers back in request order.

Rules. Answers leave in the order of their requests (Kafka's promise to pipelining clients); later
requests are processed while an earlier one waits. At most `in_flight_max` requests wait, and a
client that does not read its answers is not read either: both stop the reading, and TCP does the
rest. An error of a connection ends only this one; a few a minute are logged, with their count.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from josefine_broker.base.errors import CorruptData, Fatal
from josefine_broker.base.security import ANONYMOUS
from josefine_broker.host.net.connection_host import DRAIN_LOOK_S, SEND_BUFFERS_MAX, Host
from josefine_broker.host.net.dispatch import (
    Buffer,
    Buffers,
    DisconnectError,
    LastBuffers,
    Peer,
    Waiting,
)
from josefine_broker.host.net.late_answers import Later, Slot, forget_all, unanswered
from josefine_broker.host.net.sasl_gate import FRAME_BYTES_MAX, Authentication, Gate
from josefine_broker.host.net.throttling import Throttled
from josefine_broker.host.net.tls import let_go, shown_name, write_tls
from josefine_broker.wire.frames import FrameBuffer

log = logging.getLogger(__name__)

STAGED: Buffers = (b"",)
"""The place of a staged request's answer. Such places are the last ones of the pending answers."""


class Connection(asyncio.BufferedProtocol):
    """State of one connection. Mutated on the event loop only."""

    __slots__ = (
        "_authentication", "_backlog", "_busy", "_closed", "_draining", "_frames", "_gate",
        "_has_received", "_holds_memory", "_host", "_is_tls", "_muted", "_on_close", "_on_open",
        "_out", "_pending", "_reading_paused", "_repeats", "_timer", "_transport",
        "_waits_for_memory", "_write_paused", "idle_since_ms", "peer", "received",
        "received_before",
    )  # fmt: skip

    def __init__(
        self,
        host: Host,
        listener: str,
        on_open: Callable[[Connection], bool],
        on_close: Callable[[Connection], None],
        authentication: Authentication | None = None,
        nameless: str = ANONYMOUS,
    ) -> None:
        """`on_open` may refuse the connection by returning False. With `authentication` nothing
        else is served first. `nameless` is the principal of a client without a certificate."""
        self._authentication = authentication
        self.peer = Peer(listener=listener, address="unknown", principal=nameless)
        self._gate: Gate | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._muted: asyncio.TimerHandle | None = None  # fires when the throttle time ends
        self._host = host
        self._on_open = on_open
        self._on_close = on_close
        self._frames = FrameBuffer(host.limits.frame_bytes_max, host.chunks)
        self._backlog: deque[memoryview] = deque()  # frames read, not yet started
        self._pending: deque[Slot] = deque()  # in request order; the first one waits
        self._out: list[Buffer] = []
        self._busy = False
        self._repeats = False  # its requests may be like the ones before them
        self._write_paused = False
        self._reading_paused = False
        self._draining = False
        self._closed = False
        self._holds_memory = False  # memory of a large request until it starts, or waits for it
        self._waits_for_memory = False
        self._has_received = False  # that large request is complete
        self.received = 0
        self.received_before = 0  # these two belong to the server's idle sweep
        self.idle_since_ms = 0

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peername = transport.get_extra_info("peername")
        address = f"{peername[0]}:{peername[1]}" if peername else "unknown"
        principal = shown_name(transport) or self.peer.principal
        now_ms, on = self._host.monotonic_ms(), self.peer.listener
        self.peer = Peer(listener=on, address=address, principal=principal, connected_ms=now_ms)
        if not self._on_open(self):
            self._closed = True
            self._transport.abort()
            return
        if self._authentication is not None:
            self._begin_authentication(self._authentication)
        self._is_tls = transport.get_extra_info("sslcontext") is not None
        self._transport.set_write_buffer_limits(high=self._host.limits.write_buffer_bytes)

    @property
    def get_buffer(self) -> Callable[[int], memoryview]:
        return self._frames.get_buffer  # uvloop asks for it once: one call less for each read

    def buffer_updated(self, nbytes: int) -> None:
        self.received += nbytes
        turn, pending = self._host.turn, self._pending
        try:
            frames = self._frames.buffer_updated(nbytes)
        except CorruptData as error:
            self._host.stats.closed.malformed += 1
            # With those that the staged ones kept from being staged.
            while turn is not None and pending and pending[-1] is STAGED and not self._closed:
                turn.run()
            self._close_because(f"malformed frame: {error}")
            return
        if frames:
            if (self._repeats or (turn and turn.last is self)) and self._is_served_alone(frames):
                return
            self._backlog.extend(frames)
            self._has_received = self._holds_memory
            self.continue_work()
        elif not self._holds_memory and self._frames.large_bytes:
            self.continue_work()

    def eof_received(self) -> bool:
        return False  # Kafka has no half-closed connections: no client is left to answer

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        for timer in (self._timer, self._muted):
            if timer is not None:
                timer.cancel()
        if (turn := self._host.turn) is not None:
            turn.leave(self)
        forget_all(self._pending, self._host.forget)
        for each in (self._pending, self._backlog, self._out):
            each.clear()
        if self._holds_memory:
            self._host.release(self)
        let_go(self._transport)
        self._on_close(self)

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        self.continue_work()

    # Shutdown, driven by the server.

    @property
    def address(self) -> str:
        return self.peer.address

    @property
    def waiting(self) -> list[Waiting]:
        """Requests that were started and have no answer yet."""
        return unanswered(self._pending)

    @property
    def host(self) -> str:
        """The client's machine."""
        return self.peer.host

    @property
    def waits(self) -> bool:
        """True while a started request has no answer yet, or while the client is throttled."""
        return bool(self._pending) or self._muted is not None or self._waits_for_memory

    @property
    def stalls(self) -> bool:
        """Whether the client is slow, in sending its request or in reading answers."""
        return not self._has_received or self._write_paused

    @property
    def queued(self) -> int:
        """Requests that were read but not started yet."""
        return len(self._backlog)

    def drain(self) -> None:
        """Start no further request; started ones are still answered, long waits at once."""
        self._draining = True
        if self._muted is not None:
            self._muted.cancel()
            self._muted = None
        for slot in tuple(self._pending):
            if isinstance(slot, Waiting) and slot.parked.is_cut_short and not slot.parked.done:
                self._host.forget(slot.parked)
                slot.parked.expire(self._host.monotonic_ms())
        self.continue_work()

    def close(self) -> bool:
        """Close after the answers made so far are sent; False when it is closing already."""
        if self._closed:
            return False
        self._closed = True
        self._transport.close()
        return True

    def abort(self) -> bool:
        """Close now and drop unsent data; False when it was closing already."""
        was_open, self._closed = not self._closed, True
        self._transport.abort()
        return was_open

    # Requests and answers.

    def continue_work(self) -> None:
        """Serve the backlog as far as the bounds allow; then send, and continue or stop reading."""
        if self._busy:
            return  # a request ended this session, which drains: the outer call continues
        self._busy = True
        backlog, in_flight_max = self._backlog, self._host.limits.in_flight_max
        while (
            backlog
            and len(self._pending) < in_flight_max
            and not (self._write_paused or self._closed or self._draining or self._muted)
        ):
            self._serve(backlog.popleft())
            if len(self._out) >= SEND_BUFFERS_MAX:
                self._send()
        self._busy = False
        if self._closed:
            return
        if self._out:
            self._send()
        if not backlog:
            self._settle_memory()
        must_pause = bool(backlog or self._draining or self._waits_for_memory or self._muted)
        if must_pause is not self._reading_paused:
            self._reading_paused = must_pause
            (self._transport.pause_reading if must_pause else self._transport.resume_reading)()

    # Memory of large requests, which all connections share.

    def _settle_memory(self) -> None:
        """With no request waiting to start: release memory, ask for that of the next one."""
        if self._holds_memory and self._has_received:
            self._holds_memory = self._has_received = self._waits_for_memory = False
            self._host.release(self)
        if self._holds_memory:
            return
        if large_bytes := self._frames.large_bytes:
            self._holds_memory = True
            now_ms = self._host.monotonic_ms()
            self._waits_for_memory = not self._host.memory.ask(self, large_bytes, now_ms)
            if self._waits_for_memory:
                self._frames.shrink()

    def shrink(self) -> None:
        """Keep no memory of large requests that are done."""
        if not self._holds_memory:
            self._frames.shrink()

    def has_memory(self) -> None:
        """Memory for its request is available now."""
        self._waits_for_memory = False
        self.continue_work()

    def _serve(self, frame: memoryview) -> None:
        """Start a request: stage it if it is plain, serve it otherwise."""
        turn, pending = self._host.turn, self._pending
        if turn is not None and self._gate is None:
            if turn.stage(frame, self):
                pending.append(STAGED)
                if turn.is_full:
                    turn.run()
                return
            if pending and pending[-1] is STAGED:
                turn.run()  # this request must not overtake them
        self._serve_now(frame)

    def _is_served_alone(self, frames: list[memoryview]) -> bool:
        """Serve the one request of a client, past backlog and turn, if it is like the last one."""
        if len(frames) > 1 or self._pending or self._gate is not None or self._has_work:
            return False
        frame, turn = frames[0], self._host.turn
        if turn is None or turn.last is not self:
            waiting = self._host.dispatcher.serve_again(frame, self.peer)
            if waiting is not None:
                self._wait_for(waiting)
            return waiting is not None
        answer = turn.serve_alone(frame, self)
        if type(answer) is bytes:
            self._host.stats.bytes_out += len(answer)
            self._transport.write(answer)
        elif answer is not None:
            self.answer_staged(frame, answer)
        return answer is not None

    def answer_staged(self, frame: memoryview, answer: bytes | Later | None) -> bool:
        """See `produce_turn.Staging`."""
        pending = self._pending
        if self._closed:
            if isinstance(answer, Later):
                answer.leave()
            return False
        while pending and pending[-1] is STAGED:
            pending.pop()  # all of them are answered now, one after the other
        if answer is None:
            # Busy: if it is done at once, the backlog must not overtake the rest of the turn.
            was_busy, self._busy = self._busy, True
            self._serve_now(frame)
            self._busy = was_busy
        elif isinstance(answer, Later):
            pending.append(answer)
            self._host.on_parked(answer.group.wait.token.deadline_ms)
        elif pending:
            pending.append((answer,))
        elif self._out or self._is_tls:
            self._out.append(answer)
        else:
            self._host.stats.bytes_out += len(answer)
            self._transport.write(answer)
        return bool(self._out or self._backlog or self._reading_paused)

    def _serve_now(self, frame: memoryview) -> None:
        try:
            gate = self._gate
            if gate is None or gate.lets_through(frame):
                answer = self._host.dispatcher.serve(frame, self.peer)
            else:
                answer = self._serve_stranger(frame, gate)
        except DisconnectError as error:
            self._close_because(str(error))
            return
        except Fatal as error:
            self.abort()
            self._host.on_fatal(error)
            return
        except Exception:  # the codec failed, not a handler: no answer is possible
            self._fail("request not translatable")
            return
        if isinstance(answer, Waiting):
            self._wait_for(answer)
        elif answer is not None:
            (self._pending.append if self._pending else self._put)(answer)

    # Authentication, where the listener wants it.

    def _begin_authentication(self, authentication: Authentication) -> None:
        self._gate = Gate(self.peer, self._host.dispatcher, authentication, self._host.stats)
        self._frames.allow(FRAME_BYTES_MAX)
        self._timer = asyncio.get_running_loop().call_later(
            authentication.timeout_ms / 1_000, self._refuse_stranger, LastBuffers()
        )

    def _serve_stranger(self, frame: memoryview, gate: Gate) -> Buffers | Waiting | None:
        now_ms = self._host.monotonic_ms()
        if wait_ms := gate.wait_ms(frame, now_ms):
            self._backlog.appendleft(frame)
            self._mute(wait_ms)
            return None
        answer = gate.serve(frame, now_ms)
        assert self._timer is not None
        assert self._authentication is not None
        if isinstance(answer, LastBuffers):
            if gate.is_passed:  # its session is over: answer after the started requests
                self.drain()
                return answer
            # A guesser waits for each answer, and no more input is read meanwhile.
            self._draining = True
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(
                self._authentication.failure_delay_ms / 1_000, self._refuse_stranger, answer
            )
            return None
        if gate.is_passed:
            self._timer.cancel()
            self.peer = gate.peer
            if gate.lasts_ms is None:
                self._gate = None
            else:
                end = self._end_with_token if gate.ends_with_token else gate.end
                self._timer = asyncio.get_running_loop().call_later(gate.lasts_ms / 1_000, end)
            self._frames.allow(self._host.limits.frame_bytes_max)
        return answer

    def _end_with_token(self) -> None:
        """The token has expired: answer started requests, then close; the client reconnects."""
        self.drain()
        if self._pending:
            self._timer = asyncio.get_running_loop().call_later(DRAIN_LOOK_S, self._end_with_token)
        else:
            self._close_because("its token has expired")

    def _refuse_stranger(self, answer: LastBuffers) -> None:
        if self._closed or self._gate is None:
            return
        self._gate.refused(answer)
        (self._pending.append if self._pending else self._put)(answer)

    def _put(self, buffers: Buffers) -> None:
        """Send an answer whose turn has come."""
        self._out.extend(buffers)
        if isinstance(buffers, LastBuffers):
            self._close_because(buffers.reason)
        elif isinstance(buffers, Throttled):
            self._mute(buffers.throttle_ms)

    def _mute(self, ms: int) -> None:
        """Read and start nothing more for at least this long (KIP-219)."""
        loop = asyncio.get_running_loop()
        until = loop.time() + ms / 1_000
        if self._draining or (self._muted is not None and self._muted.when() >= until):
            return
        if self._muted is not None:
            self._muted.cancel()
        self._muted = loop.call_at(until, self._unmute)

    def _unmute(self) -> None:
        self._muted = None
        self.continue_work()

    def _wait_for(self, waiting: Waiting) -> None:
        self._pending.append(waiting)
        if waiting.parked.done:
            self._answer(waiting)
            return
        waiting.parked.on_done = lambda _parked: self._answer(waiting)
        if waiting.parked.is_urgent:
            self._repeats, finish = True, self._host.dispatcher.finish_now
            waiting.parked.send_now = partial(finish, waiting, self.send_now)
        self._host.on_parked(waiting.parked.deadline_ms)

    @property
    def _has_work(self) -> bool:
        """Whether there is more to do than to send one answer."""
        return bool(
            self._backlog or self._out or self._busy or self._closed or self._draining
            or self._muted or self._write_paused or self._reading_paused or self._holds_memory
            or self._is_tls
        )  # fmt: skip

    def send_now(self, place: Waiting | Later, answer: Buffer) -> bool:
        """See `late_answers.Releasing`."""
        pending = self._pending
        if len(pending) != 1 or pending[0] is not place or self._has_work:
            return False
        pending.clear()
        self._host.stats.bytes_out += len(answer)
        self._transport.write(answer)
        return True

    def _answer(self, waiting: Waiting) -> None:
        """A waiting request is done. Called in a separate turn (`ParkedRequests.run_completed`)."""
        if self._closed:
            return
        try:
            waiting.buffers = self._host.dispatcher.finish(waiting)
        except Exception:
            self._fail("answer not encodable")
            return
        self.release()

    def release(self) -> None:
        """Send the answers that are next in order, and serve the requests that waited for room."""
        pending = self._pending
        while pending and not self._closed:
            slot = pending[0]
            buffers = slot.buffers if isinstance(slot, Waiting | Later) else slot
            if buffers is None or buffers is STAGED:
                break
            pending.popleft()
            self._put(buffers)
        self.continue_work()

    def _fail(self, message: str) -> None:
        """An error of ours: close this connection, with the traceback in the log."""
        log.exception(message, extra={"client": self.peer.address, "listener": self.peer.listener})
        self.abort()

    def _send(self) -> None:
        out = self._out
        if not out or self._closed:
            return
        self._out = []
        size = sum(map(len, out))
        self._host.stats.bytes_out += size
        if self._is_tls:
            write_tls(self._transport, out, size)
        else:
            self._transport.writelines(out)

    def _close_because(self, reason: str) -> None:
        """Answers made so far are still sent; no more input is read."""
        if self._closed:
            return
        self._send()
        if reason:
            where = {"client": self.peer.address, "listener": self.peer.listener}
            self._host.log_closed.report(**where, reason=reason)
        self.close()
