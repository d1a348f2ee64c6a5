"""A simulated broker's raft listener, and its connections to those of others.

What peers/raft_transport.py does with sockets: who dials is greeted with the real `Session`s, and
let in or not; what is said then may be lost, doubled or late. Frames of a process go to the process
that it greeted: another one on the same machine has to be greeted anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from josefine_broker.engine import events as e
from josefine_broker.engine.cluster.frames import Frame, FrameError, Hello, Session
from josefine_broker.engine.cluster.joining import Ask
from josefine_broker.engine.cluster.messages import Said, decode_said, encode_said
from raft import Message

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["PeerPort"]

WIRE_EVERY = 16
"""Every so many words go through their encoding; it has its own proof."""


@dataclass(frozen=True, slots=True)
class _ReplyTo:
    """Where an answer goes: who dialed, and what it was (None: no question)."""

    dialer: Process
    ask: int | None


class PeerPort:
    """Implements `engine.broker.Reach`. One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._dialed: dict[int, tuple[Process, Hello]] = {}
        """By broker id: whom we greeted, and how it introduced itself."""
        self._inbound: dict[Process, Hello] = {}
        self._gone: set[int] = set()
        self._said = 0

    # -- as Reach

    def is_connected(self, broker_id: int) -> bool:
        found = self._dialed.get(broker_id)
        return found is not None and not found[0].is_ended

    def trouble_with(self, broker_id: int) -> str:
        return "" if self.is_connected(broker_id) else "nobody"

    def gone(self) -> frozenset[int]:
        return frozenset(self._gone)

    # -- out

    def hear_gone(self, broker_id: int) -> None:
        """Its address refuses connections."""
        self._gone.add(broker_id)
        self._process.engine.broker.step(e.PeersGone(frozenset({broker_id})))

    def send(self, send: e.Send) -> None:
        """To the newest address at which somebody is, dialed again where it is another process."""
        world, own = self._process.world, self._process.machine
        if isinstance(send.said, Message):
            world.strangers.overhear(send.said)
        for address in self._process.engine.broker.peers.book.addresses(send.to):
            machine = world.machine_at(address)
            if machine is not None and machine.process is not None:
                said = self._over_the_wire(send.said)
                arrive = partial(_arrive, dialer=self._process, to=send.to, said=said, ask=None)
                deliver = partial(world.to_broker, machine.id, arrive)
                world.network.datagram(own.id, machine.id, deliver)
                return

    def reply(self, reply: e.Reply) -> None:
        """On the connection that its question came by."""
        reply_to = reply.reply_to
        assert isinstance(reply_to, _ReplyTo)
        said = self._over_the_wire(reply.said)
        dialer = reply_to.dialer
        handle = partial(_replied, peer=self._process, said=said, ask=reply_to.ask)
        deliver = partial(_to_process, dialer, handle)
        own_id = self._process.machine.id
        self._process.world.network.datagram(own_id, dialer.machine.id, deliver)

    def ask(self, ask: Ask) -> None:
        """One question over a connection of its own."""
        world, process = self._process.world, self._process
        fail = partial(self._unanswered, ask.number, f"no answer from {ask.address}")
        process.after_ms(ask.timeout_ms, fail)
        machine = world.machine_at(ask.address)
        if machine is None or machine.process is None:
            process.after_ms(1, partial(self._unanswered, ask.number, f"{ask.address}: refused"))
            return
        arrive = partial(
            _arrive, dialer=process, to=ask.to, said=self._over_the_wire(ask.said), ask=ask.number
        )
        deliver = partial(world.to_broker, machine.id, arrive)
        world.network.datagram(process.machine.id, machine.id, deliver)

    def _unanswered(self, number: int, reason: str) -> None:
        self._process.touch()
        self._process.engine.broker.step(e.Unanswered(number, reason))

    def _over_the_wire(self, said: Said) -> Said:
        self._said += 1
        return decode_said(Frame(*encode_said(said))) if self._said % WIRE_EVERY == 0 else said

    # -- in

    def hear(self, dialer: Process, to: int, said: Said, ask: int | None) -> None:
        """A word of `dialer`, who greets first where it did not yet; a question is a connection
        of its own."""
        broker = self._process.engine.broker
        peer = self._inbound.get(dialer) if ask is None else None
        try:
            if peer is None:
                if dialer.is_ended:
                    return
                peer = self._greeted_by(dialer, to)
                if ask is None:
                    self._inbound[dialer] = peer
            broker.step(e.Heard(peer, said, _ReplyTo(dialer, ask)))
        except FrameError:
            self._process.world.met["peer's frame refused"] += 1
            self._inbound.pop(dialer, None)

    def _greeted_by(self, dialer: Process, to: int) -> Hello:
        """Raises FrameError for a greeting that failed; the dialer is told why."""
        ours, theirs = self._process.engine.broker, dialer.engine.broker
        dials = Session(theirs.hello(to), dials=True)
        takes = Session(ours.hello(0), dials=False, admit=self._why_not)
        try:
            takes.feed(dials.take_outgoing())
        finally:
            self._answer_greeting(dialer, dials, takes.take_outgoing())
        assert takes.peer is not None
        ours.step(e.Greeted(takes.peer, False))
        self._gone.discard(takes.peer.node_id)
        return takes.peer

    def _why_not(self, peer: Hello) -> str | None:
        elsewhere = ""
        for dialer, hello in list(self._inbound.items()):
            if dialer.is_ended:
                del self._inbound[dialer]
            elif hello.node_id == peer.node_id:
                elsewhere = hello.address
        return self._process.engine.broker.why_not_admitted(peer, elsewhere)

    def _answer_greeting(self, dialer: Process, dials: Session, answer: bytes) -> None:
        """A connection loses no part of itself: the answer comes, or the dialer has ended."""
        world, process = self._process.world, self._process
        try:
            dials.feed(answer)
        except FrameError as error:
            world.met["greeting refused"] += 1
            handle = partial(_turned_away, reason=str(error))
        else:
            assert dials.peer is not None
            handle = partial(_met, peer=process, hello=dials.peer)
        delay_ms = world.network.latency_ms()
        world.scheduler.at(delay_ms, partial(_to_process, dialer, handle))

    # -- back at the dialer

    def met(self, peer: Process, hello: Hello) -> None:
        """Whom we dialed introduced itself."""
        if peer.is_ended:  # the connection ended with it, and another may be there
            return
        self._dialed[hello.node_id] = peer, hello
        self._gone.discard(hello.node_id)
        self._process.engine.broker.step(e.Greeted(hello, True))

    def replied(self, peer: Process, said: Said, ask: int | None) -> None:
        broker = self._process.engine.broker
        known = self._dialed.get(peer.machine.id)
        if ask is not None:
            broker.step(e.Answered(ask, said))
        elif known is not None and known[0] is peer:
            try:
                broker.step(e.Heard(known[1], said))
            except FrameError:  # its connection is closed: it was removed, or is not known yet
                self._process.world.met["peer's frame refused"] += 1
                del self._dialed[peer.machine.id]
                peer.engine.peers.hung_up_on(self._process)

    def hung_up_on(self, dialer: Process) -> None:
        """It closed its connection: what it says next comes by another one, with a greeting."""
        self._inbound.pop(dialer, None)


def _arrive(process: Process, *, dialer: Process, to: int, said: Said, ask: int | None) -> None:
    process.engine.peers.hear(dialer, to, said, ask)


def _met(process: Process, *, peer: Process, hello: Hello) -> None:
    process.engine.peers.met(peer, hello)


def _turned_away(process: Process, *, reason: str) -> None:
    process.engine.broker.step(e.TurnedAway(reason))


def _replied(process: Process, *, peer: Process, said: Said, ask: int | None) -> None:
    process.engine.peers.replied(peer, said, ask)


def _to_process(process: Process, handle: Callable[[Process], None]) -> None:
    """To this very process, or to nobody."""
    if not process.is_ended:
        process.world.to_broker(process.machine.id, handle)
