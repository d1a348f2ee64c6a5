"""A broker's side of its connections: frames in, handlers called, answers out in order.

What `net/connection.py` and `net/dispatch.py` do with sockets. Plain produce requests are served by
`net/produce_turn.py` itself: all that arrive at the same time, from all connections, are one turn.
A handler that fails is not caught here: it ends the run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_broker.api.plain_fetch import WaitingPlain, fetch_plain
from josefine_broker.api.plain_heartbeats import beat_classic, beat_consumer, beat_share
from josefine_broker.api.plain_offset_commit import commit_plain
from josefine_broker.api.plain_replica_fetch import CaughtUp, fetch_for_follower
from josefine_broker.api.plain_share_fetch import fetch_shares_plain
from josefine_broker.api.produce import refuse_late, refuse_parts
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.purgatory.purgatory import Encoded, Hangup, Parked
from josefine_broker.engine.replicas.plain_batches import (
    Stored,
    append_alone,
    append_groups,
    is_open,
)
from josefine_broker.engine.replicas.plain_parts import Placed, append_parts
from josefine_broker.host.metrics import Metrics
from josefine_broker.host.net.dispatch import LastBuffers, Peer
from josefine_broker.host.net.late_answers import LateAnswers, Later
from josefine_broker.host.net.produce_turn import Appends, ProduceTurn
from josefine_broker.records import plain_fetch
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest, compiled
from josefine_broker.wire.apis import (
    CONSUMER_GROUP_HEARTBEAT,
    FETCH,
    HEARTBEAT,
    OFFSET_COMMIT,
    SHARE_GROUP_HEARTBEAT,
)
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
PLAIN_OF_GROUPS: dict[int, tuple[str, Callable[..., Any]]] = {
    HEARTBEAT: ("plain heartbeat", beat_classic),
    CONSUMER_GROUP_HEARTBEAT: ("plain heartbeat of a consumer group", beat_consumer),
    SHARE_GROUP_HEARTBEAT: ("plain heartbeat of a share group", beat_share),
    OFFSET_COMMIT: ("plain offset commit", commit_plain),
}
IN_FLIGHT_MAX = 8
"""Requests of a connection that are worked on; what comes behind them waits in its backlog."""


class _Slot:
    """One request that was begun: its answer leaves when those before it have left."""

    __slots__ = ("answer", "header", "parked")

    def __init__(self, header: RequestHeader, answer: Any) -> None:
        self.header = header
        self.parked = answer if isinstance(answer, Parked) else None
        self.answer = None if self.parked is not None else answer

    def frame(self) -> bytes:
        """The answer of an urgent request that is done."""
        assert self.parked is not None
        assert isinstance(self.parked.response, Encoded)
        return b"".join(self.parked.response.buffers)

    def take(self) -> Any:
        """The answer as a frame, None while it waits. Empty: no answer is owed."""
        if self.parked is not None and self.parked.done:
            self.answer, self.parked = self.parked.response, None
        answer = self.answer
        if self.parked is not None or isinstance(answer, bytes | Hangup):
            return answer
        if answer is None:
            return b""
        if isinstance(answer, Encoded):
            return b"".join(answer.buffers)
        api_key, version, correlation_id, _, _ = self.header
        return b"".join(encode_response(api_key, version, correlation_id, answer))


STAGED = None
"""The place of a request that the turn has."""


class _Client:
    """What one connection waits for, and what it has sent that is not begun."""

    peer = PEER

    def __init__(self, server: Server, connection: Connection) -> None:
        self._server = server
        self.connection = connection
        self.pending: deque[_Slot | Later | bytes | None] = deque()
        self.backlog: deque[bytes] = deque()
        self.is_gone = False
        self.is_busy = False
        """What completes while a request is begun must not begin the next one."""

    def send_at_once(self, answer: bytes) -> None:
        """See `produce_turn.Staging`."""
        self.pending.append(answer)

    def answer_staged(self, frame: memoryview, answer: bytes | Later | None) -> bool:
        """See `produce_turn.Staging`."""
        if self.is_gone:
            if isinstance(answer, Later):
                answer.leave()
            return False
        while self.pending and self.pending[-1] is STAGED:
            self.pending.pop()
        if answer is None:
            self._server.serve_now(self, frame)
        else:
            self.pending.append(answer)
        return True

    def continue_work(self) -> None:
        self._server.work_off(self)

    def release(self) -> None:
        self._server.work_off(self)

    def send_now(self, place: Any, answer: Any) -> bool:
        """See `late_answers.Releasing`. Not where turns take no time: see `_serve`."""
        is_only = len(self.pending) == 1 and self.pending[0] is place
        world = self._server.world
        if not is_only or self.backlog or self.is_busy or self.is_gone or not world.turn_ms:
            return False
        self.pending.clear()
        self.connection.reply(bytes(answer))
        world.met["answered from within the event"] += 1
        return True

    def abort(self) -> bool:
        raise AssertionError("the turn drops its connections")


class _Turn(ProduceTurn):
    """A turn whose failure ends the run."""

    __slots__ = ()

    def _drop(self, connections: list[Any]) -> None:
        raise  # what ended the turn


class Server:
    """One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.world = process.world
        self._clients: dict[Connection, _Client] = {}
        self._is_serving = False
        self._turn = None if compiled is None else self._turn_of(compiled)

    def _turn_of(self, plain: PlainProduce) -> ProduceTurn:
        """As `compose/routes.py` makes it."""
        ctx = self._process.ctx
        metrics = Metrics()
        refuse = partial(self._refuse_late, "plain request refused after its append", refuse_late)
        refuse_each = partial(
            self._refuse_late, "plain request for several partitions refused", refuse_parts
        )
        late = LateAnswers(plain, refuse, refuse_each, ctx.parked.cancel, metrics.api("Produce"))
        return _Turn(
            plain,
            Appends(
                alone=partial(self._append_alone, plain),
                groups=partial(self._append, plain),
                parts=partial(self._append_parts, plain),
            ),
            partial(is_open, ctx),
            late,
            metrics.connections,
            _raise,
            lambda run: self._process.after_ms(self._process.world.turn_ms, run),
        )

    def _append(
        self, plain: PlainProduce, groups: Mapping[Key, list[PlainRequest]]
    ) -> Mapping[Key, Stored | None]:
        found = append_groups(self._process.ctx, plain, groups)
        for stored in found.values():
            self._note_stored(stored)
        return found

    def _append_alone(
        self, plain: PlainProduce, request: PlainRequest, send: Callable[[bytes], None]
    ) -> Stored | None:
        stored = append_alone(self._process.ctx, plain, request, send)
        self._note_stored(stored)
        return stored

    def _note_stored(self, stored: Stored | None) -> None:
        met = self._process.world.met
        if stored is not None:
            met["plain request"] += len(stored.answers)
            met["plain requests of one turn"] += len(stored.answers) > 1
            met["plain request waited for replicas"] += bool(stored.waits)

    def _append_parts(
        self, plain: PlainProduce, groups: list[list[PlainRequest]], linked: list[list[int]]
    ) -> list[Placed | None]:
        found = append_parts(self._process.ctx, plain, groups, linked)
        met = self._process.world.met
        for numbers in linked:
            is_plain = found[numbers[0]] is not None
            met["plain request for several partitions"] += is_plain
            met["plain request for several partitions left out"] += not is_plain
            waits = sum(bool(each.waits) for n in numbers if (each := found[n]) is not None)
            met["plain request for several partitions waited"] += waits > 0
            met["plain request waited for several partitions"] += waits > 1
        met["plain requests for the same partitions"] += len(linked) > 1 and (
            len({n for numbers in linked for n in numbers}) < sum(map(len, linked))
        )
        return found

    def _refuse_late(self, what: str, refuse: Callable[..., Any], *args: Any) -> Any:
        self._process.world.met[what] += 1
        return refuse(self._process.ctx, *args)

    def accept(self, connection: Connection) -> bool:
        if connection in self._clients:
            return True
        if connection.is_accepted or not self._process.is_serving:
            return False
        connection.is_accepted = True
        self._clients[connection] = _Client(self, connection)
        return True

    def received(self, connection: Connection, frame: bytes) -> None:
        client = self._clients[connection]
        client.backlog.append(frame)
        self.work_off(client)

    def work_off(self, client: _Client) -> None:
        """Answer what can be, and begin what there is room for."""
        while not client.is_gone and not client.is_busy:
            self._flush(client)
            if client.is_gone or not client.backlog or len(client.pending) >= IN_FLIGHT_MAX:
                return
            client.is_busy = True
            self._serve(client, client.backlog.popleft())
            client.is_busy = False

    def _serve(self, client: _Client, frame: bytes) -> None:
        view = memoryview(bytearray(frame))[4:]
        turn = self._turn
        if turn is not None:
            # Where turns take no time the lives are those that the mutants' seeds were found in.
            is_alone = turn.last is client and not client.pending and not client.backlog
            if is_alone and self._process.world.turn_ms:
                answer = turn.serve_alone(view, client)
                self._process.world.met["plain request served at once"] += answer is not None
                if answer:  # otherwise it is sent already
                    client.pending.append(answer)
                if answer is not None:
                    return
            if turn.stage(view, client):
                client.pending.append(STAGED)
                if turn.is_full:
                    turn.run()
                return
            if client.pending and client.pending[-1] is STAGED:
                turn.run()  # this request must not overtake them
        self.serve_now(client, view)

    def serve_now(self, client: _Client, view: memoryview) -> None:
        """Serve a request that is not plain, or that the turn left out."""
        header = parse_request_header(view)
        ctx, met = self._process.ctx, self._process.world.met
        plain = plain_fetch.compiled
        answer: Any = None
        if plain is not None and header.api_key == FETCH:
            answer = fetch_plain(ctx, plain, view, PEER)
            met["plain fetch of a consumer"] += answer is not None
            met["plain fetch of a consumer waited"] += isinstance(answer, WaitingPlain)
        if answer is None:
            answer = fetch_shares_plain(ctx, view, PEER)
            met["plain share fetch"] += answer is not None
        if answer is None and header.api_key in PLAIN_OF_GROUPS:
            name, serve = PLAIN_OF_GROUPS[header.api_key]
            answer = serve(ctx, view, PEER)
            met[name] += answer is not None
            if isinstance(answer, tuple):
                answer = answer[1]
        if answer is None:
            found = fetch_for_follower(ctx, view, PEER, self._handle)
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
            slot.parked.on_done = lambda parked: self._answered(client, parked)
            if slot.parked.is_urgent:
                slot.parked.send_now = lambda parked: self._send_now(client, slot, parked)

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

    def _send_now(self, client: _Client, slot: _Slot, parked: Parked) -> bool:
        is_sent = client.send_now(slot, slot.frame())
        if is_sent:
            self._count_answer(parked)
        return is_sent

    def _count_answer(self, parked: Parked) -> None:
        self.world.met["follower answered with what was just appended"] += bool(
            isinstance(parked, CaughtUp) and parked.is_answered_from_append
        )

    def _answered(self, client: _Client, parked: Parked) -> None:
        met = self._process.world.met
        self._count_answer(parked)
        met["request served from the backlog after an answer"] += bool(client.backlog)
        self.work_off(client)

    def _flush(self, client: _Client) -> None:
        pending, connection = client.pending, client.connection
        while pending:
            slot = pending[0]
            answer: Any = slot
            if isinstance(slot, _Slot):
                answer = slot.take()
            elif isinstance(slot, Later):
                answer = slot.buffers
            if answer is None:  # staged, or it waits
                return
            pending.popleft()
            is_last = isinstance(answer, Hangup | LastBuffers)
            if isinstance(answer, Hangup):
                assert isinstance(slot, _Slot), "only a turn's own answers end its connections"
                answer = b"" if answer.answer is None else _Slot(slot.header, answer.answer).take()
            elif not isinstance(answer, bytes):
                answer = b"".join(answer)
            if answer:
                connection.reply(answer)
            if is_last:
                self._process.world.met["client hung up on"] += 1
                self.hung_up(connection)
                connection.finish()
                return

    def hung_up(self, connection: Connection) -> None:
        client = self._clients.pop(connection, None)
        if client is None:
            return
        client.is_gone = True
        if self._turn is not None:
            self._turn.leave(client)
        for slot in client.pending:
            if isinstance(slot, Later):
                slot.leave()
            elif isinstance(slot, _Slot) and slot.parked is not None:
                slot.parked.on_done = slot.parked.send_now = None
                self._process.ctx.parked.cancel(slot.parked)

    def drain(self) -> None:
        """Long waits are answered at once; for a clean stop. Nothing more is begun."""
        now_ms = self._process.clock.monotonic_ms()
        for client in self._clients.values():
            client.backlog.clear()
        if self._turn is not None:
            self._turn.run()
        for client in tuple(self._clients.values()):
            for slot in tuple(client.pending):
                parked = slot.parked if isinstance(slot, _Slot) else None
                if parked is not None and parked.is_cut_short and not parked.done:
                    self._process.ctx.parked.forget(parked)
                    parked.expire(now_ms)
        self._process.ctx.parked.run_completed()

    def end(self, *, power: bool) -> None:
        """The process is gone: with power, the machine says so to whoever is connected."""
        for connection, client in self._clients.items():
            client.is_gone = True
            if power:
                connection.vanish()
            else:
                connection.refuse()
        self._clients.clear()


def _raise(error: BaseException) -> None:
    raise error
