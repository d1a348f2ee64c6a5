"""A broker's side of its connections: frames in, handlers called, answers out in order.

What `net/connection.py` and `net/dispatch.py` do with sockets. A handler that fails is not
caught here: it ends the run.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.parked import Hangup, Parked
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["LISTENER", "Server"]

LISTENER = "PLAINTEXT"


class _Slot:
    """One request that was begun: its answer leaves when those before it have left."""

    __slots__ = ("answer", "header", "parked")

    def __init__(self, header: RequestHeader, answer: Any) -> None:
        self.header = header
        self.parked = answer if isinstance(answer, Parked) else None
        self.answer = None if self.parked is not None else answer

    def take(self) -> Any:
        """The answer, None while it waits."""
        if self.parked is not None and self.parked.done:
            self.answer, self.parked = self.parked.response, None
        return self.answer


class Server:
    """One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._pending: dict[Connection, deque[_Slot]] = {}

    def accept(self, connection: Connection) -> bool:
        if connection in self._pending:
            return True
        if connection.is_accepted or not self._process.is_serving:
            return False
        connection.is_accepted = True
        self._pending[connection] = deque()
        return True

    def received(self, connection: Connection, frame: bytes) -> None:
        view = memoryview(bytearray(frame))[4:]
        header = parse_request_header(view)
        request = decode_request(header, view)
        api = SERVED[header.api_key]
        info = RequestInfo(header, "User:ANONYMOUS", "127.0.0.1:5", LISTENER)
        try:
            answer = api.handle(self._process.ctx, info, request)
        except KafkaError as error:
            answer = api.refuse(request, error)
        if answer is None:
            return
        slot = _Slot(header, answer)
        pending = self._pending[connection]
        pending.append(slot)
        if slot.parked is not None:
            slot.parked.on_done = lambda _: self._flush(connection)
        self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        pending = self._pending.get(connection)
        while pending:
            answer = pending[0].take()
            if answer is None:
                return
            _, version, correlation_id, _, _ = pending[0].header
            api_key = pending.popleft().header.api_key
            is_last = isinstance(answer, Hangup)
            if is_last:
                answer = answer.answer
            if answer is not None:
                buffers = encode_response(api_key, version, correlation_id, answer)
                connection.reply(b"".join(buffers))
            if is_last:
                self._process.world.met["client hung up on"] += 1
                self.hung_up(connection)
                connection.finish()
                return

    def hung_up(self, connection: Connection) -> None:
        for slot in self._pending.pop(connection, ()):
            if slot.parked is not None:
                slot.parked.on_done = None
                self._process.ctx.parked.cancel(slot.parked)

    def drain(self) -> None:
        """Long waits are answered at once; for a clean stop."""
        now_ms = self._process.clock.monotonic_ms()
        for pending in self._pending.values():
            for slot in tuple(pending):
                parked = slot.parked
                if parked is not None and parked.is_cut_short and not parked.done:
                    self._process.ctx.parked.forget(parked)
                    parked.expire(now_ms)

    def end(self, *, power: bool) -> None:
        """The process is gone: with power, the machine says so to whoever is connected."""
        for connection in self._pending:
            if power:
                connection.vanish()
            else:
                connection.refuse()
        self._pending.clear()
