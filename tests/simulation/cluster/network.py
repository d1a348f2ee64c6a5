"""The simulated network: datagrams for Raft and heartbeats, connections for the Kafka protocol.

A datagram may be lost, doubled or late, for that is what Raft has to bear. A connection keeps what
TCP keeps: frames arrive whole, in order and once, or the connection is gone. Frames that meet a
partition are held up until it is over or until somebody gives the connection up.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Protocol

from tests.simulation.cluster.faults import CALM, Faults
from tests.simulation.cluster.scheduler import Scheduler
from tests.simulation.cuts import Cuts

__all__ = ["Caller", "Connection", "Network", "Port"]

RETRANSMIT_MS = 150
HELD_UP_MAX = 20
"""So often a frame is sent again before the connection is given up for dead."""


class Port(Protocol):
    """A broker's machine, as a connection sees it."""

    id: int

    @property
    def paused_until_ms(self) -> int: ...

    def accept(self, connection: Connection) -> bool:
        """Whether a process is there that takes (or has) this connection."""
        ...

    def received(self, connection: Connection, frame: bytes) -> None: ...

    def hung_up(self, connection: Connection) -> None: ...

    @property
    def is_powered(self) -> bool:
        """A machine without power does not even refuse."""
        ...


class Caller(Protocol):
    """Who opened a connection."""

    def answered(self, connection: Connection, frame: bytes) -> None: ...

    def broken(self, connection: Connection) -> None: ...


class Network(Cuts):
    """Mutable: besides the cuts, every connection that is open."""

    def __init__(self, scheduler: Scheduler, rng: Random, met: Counter[str]) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.met = met
        self.faults: Faults = CALM
        self.connections: dict[Connection, None] = {}
        self.slow_links: dict[tuple[int, int], int] = {}
        """(From, to) → what travels there takes up to so many milliseconds more."""
        self._rng = rng
        self._slow_rng = Random(0)

    def datagram(self, source: int, target: int, deliver: Callable[[], None]) -> None:
        """Something that may be lost, doubled and late."""
        if not self.has_cuts and self.faults is CALM:
            self.scheduler.at(self.latency_ms(), deliver)
            return
        chance, faults, met = self._rng.random, self.faults, self.met
        if self.is_blocked(source, target):
            met["message lost in a partition"] += 1
            return
        if chance() < faults.raft_drop:
            met["raft message dropped"] += 1
            return
        delays = [self.latency_ms() + self._slowness_ms(source, target)]
        if chance() < faults.raft_duplicate:
            met["raft message duplicated"] += 1
            delays.append(self.latency_ms() + int(chance() * 30))
        for delay_ms in delays:
            if chance() < faults.raft_delay:
                met["raft message delayed"] += 1
                delay_ms += int(chance() * 500)
            self.scheduler.at(delay_ms, deliver)

    def latency_ms(self) -> int:
        return 1 + int(self._rng.random() * 4)

    def _slowness_ms(self, source: int, target: int) -> int:
        slow_ms = self.slow_links.get((source, target))
        if slow_ms is None:
            return 0
        self.met["message on a slow link"] += 1
        return slow_ms // 2 + int(self._slow_rng.random() * slow_ms / 2)

    def frame_delay_ms(self, source: int, target: int) -> int:
        delay_ms = self.latency_ms() + self._slowness_ms(source, target)
        if self._rng.random() < self.faults.connection_slow:
            self.met["slow connection"] += 1
            delay_ms += int(self._rng.random() * 600)
        return delay_ms

    def break_one(self) -> None:
        """A middlebox loses its mind: both ends learn of it."""
        connections = list(self.connections)
        if connections:
            self.met["connection broken"] += 1
            self._rng.choice(connections).reset()


class _Stream:
    """One direction of a connection."""

    __slots__ = (
        "_connection", "_frames", "_handler", "_held_up", "_paused_until", "is_answers", "source",
        "target",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        source: int,
        target: int,
        handler: Callable[[bytes], None],
        paused_until: Callable[[], int],
    ) -> None:
        self.source = source
        self.target = target
        self.is_answers = source == connection.port.id
        self._connection = connection
        self._handler = handler
        self._paused_until = paused_until
        self._frames: deque[bytes] = deque()
        self._held_up = 0

    @property
    def is_empty(self) -> bool:
        return not self._frames

    def push(self, frame: bytes) -> None:
        self._frames.append(frame)
        if len(self._frames) == 1:
            network = self._connection.network
            network.scheduler.at(network.frame_delay_ms(self.source, self.target), self._arrive)

    def _arrive(self) -> None:
        connection = self._connection
        if connection.is_closed or (connection.is_hung_up and self.is_answers):
            return
        network = connection.network
        scheduler = network.scheduler
        if network.is_blocked(self.source, self.target):
            network.met["frame held up in a partition"] += 1
            self._held_up += 1
            if self._held_up > HELD_UP_MAX:
                connection.reset()
            else:
                scheduler.at(RETRANSMIT_MS, self._arrive)
            return
        pause_ms = self._paused_until() - scheduler.now_ms
        if pause_ms > 0:
            scheduler.at(pause_ms, self._arrive)
            return
        self._held_up = 0
        self._handler(self._frames.popleft())
        if self._frames:
            scheduler.at(network.frame_delay_ms(self.source, self.target), self._arrive)
        elif connection.is_hung_up:
            connection.end()
        elif connection.is_finished and self.is_answers:
            connection.refuse()


class Connection:
    """From a caller to a broker. Frames sent before it is accepted open it."""

    def __init__(
        self,
        network: Network,
        caller: Caller,
        node: int,
        port: Port,
        paused_until: Callable[[], int] = lambda: 0,
    ) -> None:
        """`node` is where the caller sits; `paused_until` when it next takes an answer."""
        self.network = network
        self.caller = caller
        self.node = node
        self.port = port
        self.is_closed = False
        self.is_hung_up = False
        """The caller is gone; what it had sent still arrives."""
        self.is_finished = False
        """The broker closes it behind its answers."""
        self.is_accepted = False
        self._requests = _Stream(self, node, port.id, self._request, lambda: port.paused_until_ms)
        self._answers = _Stream(self, port.id, node, self._answer, paused_until)
        network.connections[self] = None

    def send(self, frame: bytes) -> None:
        """A request."""
        if not self.is_closed and not self.is_hung_up:
            self._requests.push(frame)

    def reply(self, frame: bytes) -> None:
        """An answer."""
        if not self.is_closed and not self.is_hung_up:
            self._answers.push(frame)

    def close(self) -> None:
        """The caller gives it up, or its process is gone: the broker hears of it behind all that
        was sent before."""
        if not self.is_closed and not self.is_hung_up:
            self.is_hung_up = True
            if self._requests.is_empty:
                self.end()

    def end(self) -> None:
        """Nothing is left of it but that the broker hears so."""
        if self._end():
            hang_up = partial(self.port.hung_up, self)
            self.network.scheduler.at(self.network.latency_ms(), hang_up)

    def finish(self) -> None:
        """The broker closes it; the caller learns of it behind the answers sent before."""
        self.is_finished = True
        if self._answers.is_empty:
            self.refuse()

    def refuse(self) -> None:
        """The broker's process is gone or does not know it; the caller learns of it."""
        if (
            self._end()
            and not self.is_hung_up
            and not self.network.is_blocked(self.port.id, self.node)
        ):
            broken = partial(self.caller.broken, self)
            self.network.scheduler.at(self.network.latency_ms(), broken)

    def reset(self) -> None:
        """It is gone in the middle; both ends learn of it."""
        if self._end():
            scheduler = self.network.scheduler
            scheduler.at(self.network.latency_ms(), partial(self.port.hung_up, self))
            if not self.is_hung_up:
                scheduler.at(self.network.latency_ms(), partial(self.caller.broken, self))

    def vanish(self) -> None:
        """The broker's machine lost its power: nobody tells the caller."""
        self._end()

    def _end(self) -> bool:
        was_open, self.is_closed = not self.is_closed, True
        self.network.connections.pop(self, None)
        return was_open

    def _request(self, frame: bytes) -> None:
        if self.port.accept(self):
            self.port.received(self, frame)
        elif self.port.is_powered:
            self.refuse()
        else:  # nobody hears, and what is sent behind this frame does not arrive without it
            self.vanish()

    def _answer(self, frame: bytes) -> None:
        self.caller.answered(self, frame)
