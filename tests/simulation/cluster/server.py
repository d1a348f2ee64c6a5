"""A broker's side of its connections: frames in, handlers called, answers out in order.

What `net/connection.py` and `net/dispatch.py` do with sockets, and `net/produce_turn.py`, whose
turns have one request here. A handler that fails is not caught here: it ends the run.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_broker.api.plain_replica_fetch import CaughtUp, fetch_for_follower
from josefine_broker.api.produce import refuse_late
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.purgatory.purgatory import Encoded, Hangup, Parked
from josefine_broker.engine.replicas.committing import Together
from josefine_broker.engine.replicas.plain_batches import append_groups, is_open
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.records.plain_produce import PlainRequest, compiled
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["IN_FLIGHT_MAX", "LISTENER", "Server"]

LISTENER = "PLAINTEXT"
PEER = Peer(listener=LISTENER, address="127.0.0.1:5", principal="User:ANONYMOUS")
IN_FLIGHT_MAX = 8
"""Requests of a connection that are worked on; what comes behind them waits in its backlog."""


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


@dataclass(slots=True)
class _Client:
    """What one connection waits for, and what it has sent that is not begun."""

    pending: deque[_Slot] = field(default_factory=deque)
    backlog: deque[bytes] = field(default_factory=deque)


class Server:
    """One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._clients: dict[Connection, _Client] = {}
        self._is_serving = False

    def accept(self, connection: Connection) -> bool:
        if connection in self._clients:
            return True
        if connection.is_accepted or not self._process.is_serving:
            return False
        connection.is_accepted = True
        self._clients[connection] = _Client()
        return True

    def received(self, connection: Connection, frame: bytes) -> None:
        self._clients[connection].backlog.append(frame)
        self._work_off(connection)

    def _work_off(self, connection: Connection) -> None:
        """Answer what can be, and begin what there is room for."""
        client = self._clients.get(connection)
        while client is not None:
            self._flush(connection, client)
            if not client.backlog or len(client.pending) >= IN_FLIGHT_MAX:
                return
            self._serve(connection, client, client.backlog.popleft())
            client = self._clients.get(connection)

    def _serve(self, connection: Connection, client: _Client, frame: bytes) -> None:
        view = memoryview(bytearray(frame))[4:]
        header = parse_request_header(view)
        answer = self._serve_plain(view)
        if answer is None:
            found = fetch_for_follower(self._process.ctx, view, PEER, self._handle)
            met = self._process.world.met
            met["plain fetch of a follower"] += found is not None
            met["fetch of a follower that has everything"] += bool(
                found and isinstance(found[1], CaughtUp)
            )
            answer = None if found is None else found[1]
        if isinstance(answer, list):
            answer = b"".join(answer)
        if answer is None:
            answer = self._handle(header, decode_request(header, view))
        if answer is None:
            return
        slot = _Slot(header, answer)
        client.pending.append(slot)
        if slot.parked is not None:
            slot.parked.on_done = lambda parked: self._answered(connection, parked)

    def _serve_plain(self, frame: memoryview) -> Any:
        """The whole answer to a plain produce request, or the token that waits for it; None: the
        table's handler serves it."""
        ctx = self._process.ctx
        request = None if compiled is None else compiled.parse(frame)
        if compiled is None or request is None or not is_open(ctx):
            return None
        (stored,) = append_groups(ctx, compiled, {request[0]: [request]}).values()
        if stored is None:
            return None
        (answer,) = stored.answers
        self._process.world.met["plain request"] += 1
        if not stored.waits:
            return answer
        self._process.world.met["plain request waited for replicas"] += 1
        (wait,) = stored.waits
        wait.token.make_of(partial(self._late, request, answer, wait.ends[0]))
        return wait.token

    def _late(self, request: PlainRequest, answer: bytes, end_offset: int, outcome: Any) -> Any:
        if not isinstance(outcome, Together):
            return outcome
        if outcome.error is None or end_offset <= outcome.committed_end:
            return answer
        self._process.world.met["plain request refused after its append"] += 1
        return refuse_late(self._process.ctx, request, outcome.error, LISTENER)

    def _handle(self, header: RequestHeader, request: Any) -> Any:
        """The answer of the table's handler."""
        api = SERVED[header.api_key]
        info = RequestInfo(header, PEER.principal, PEER.address, PEER.listener)
        assert not self._is_serving, "a request is served from within another one"
        self._is_serving = True
        try:
            answer = api.handle(self._process.ctx, info, request)
        except KafkaError as error:
            answer = api.refuse(request, error)
        self._is_serving = False
        return answer

    def _answered(self, connection: Connection, parked: Parked) -> None:
        client = self._clients.get(connection)
        met = self._process.world.met
        met["follower answered with what was just appended"] += bool(
            isinstance(parked, CaughtUp) and parked.is_answered_from_append
        )
        met["request served from the backlog after an answer"] += bool(client and client.backlog)
        self._work_off(connection)

    def _flush(self, connection: Connection, client: _Client) -> None:
        pending = client.pending
        while pending:
            answer = pending[0].take()
            if answer is None:
                return
            _, version, correlation_id, _, _ = pending[0].header
            api_key = pending.popleft().header.api_key
            is_last = isinstance(answer, Hangup)
            if is_last:
                answer = answer.answer
            if isinstance(answer, Encoded):
                answer = b"".join(answer.buffers)
            if isinstance(answer, bytes):
                connection.reply(answer)
            elif answer is not None:
                buffers = encode_response(api_key, version, correlation_id, answer)
                connection.reply(b"".join(buffers))
            if is_last:
                self._process.world.met["client hung up on"] += 1
                self.hung_up(connection)
                connection.finish()
                return

    def hung_up(self, connection: Connection) -> None:
        client = self._clients.pop(connection, None)
        for slot in () if client is None else client.pending:
            if slot.parked is not None:
                slot.parked.on_done = None
                self._process.ctx.parked.cancel(slot.parked)

    def drain(self) -> None:
        """Long waits are answered at once; for a clean stop. Nothing more is begun."""
        now_ms = self._process.clock.monotonic_ms()
        for client in self._clients.values():
            client.backlog.clear()
            for slot in tuple(client.pending):
                parked = slot.parked
                if parked is not None and parked.is_cut_short and not parked.done:
                    self._process.ctx.parked.forget(parked)
                    parked.expire(now_ms)
        self._process.ctx.parked.run_completed()

    def end(self, *, power: bool) -> None:
        """The process is gone: with power, the machine says so to whoever is connected."""
        for connection in self._clients:
            if power:
                connection.vanish()
            else:
                connection.refuse()
        self._clients.clear()
