"""One of the two brokers: raw connections to it, and what was learned from its answers."""

from __future__ import annotations

import select
import socket
import struct
from dataclasses import dataclass, field
from time import monotonic

from josefine_broker.wire.apis import API_VERSIONS, PRODUCE
from tests.integration.raw import connect
from tests.oracle.author import Step
from tests.oracle.shapes import (
    MalformedError,
    Tree,
    decode,
    encode,
    frame,
    request_shape,
    response_body,
    response_shape,
)
from tests.oracle.symbols import Learned

CLIENT = "oracle"
CLOSED: Tree = {"connection": "closed"}


@dataclass(slots=True)
class Connection:
    """A socket with at most one request that waits for its answer."""

    socket: socket.socket
    data: bytearray = field(default_factory=bytearray)
    waiting: Step | None = None
    correlation: int = 0
    answer: Tree | None = None

    def read(self) -> None:
        """What has arrived, without waiting."""
        if self.waiting is None or self.answer is not None:
            return
        while select.select([self.socket], [], [], 0)[0]:
            try:
                part = self.socket.recv(1 << 20)
            except OSError:
                part = b""
            if not part:
                self.answer = CLOSED
                return
            self.data += part
            if len(self.data) >= 4:
                (size,) = struct.unpack_from(">i", self.data)
                if len(self.data) >= 4 + size:
                    (correlation,) = struct.unpack_from(">i", self.data, 4)
                    body = bytes(self.data[8 : 4 + size])
                    del self.data[: 4 + size]
                    self.answer = _decoded(self.waiting, body)
                    if correlation != self.correlation:
                        self.answer = {"correlation id": "of another request"}
                    return


def owes_no_answer(step: Step) -> bool:
    """A produce request with acks=0: the answer that is read is that of a request after it."""
    return step.key == PRODUCE and step.tree["acks"] == 0


def _decoded(step: Step, data: bytes) -> Tree:
    """A body that cannot be read is an answer too, and differs from every other."""
    if owes_no_answer(step):
        return {"answer": "none is owed"}
    version = step.version
    try:
        body = response_body(step.key, version, data)
        return decode(response_shape(step.key, version), body)
    except MalformedError as error:
        return {"malformed": str(error), "bytes": data.hex()}


class Side:
    """Ours or theirs, in one episode."""

    def __init__(self, name: str, bootstrap: str) -> None:
        self.name = name
        self.bootstrap = bootstrap
        self.learned = Learned()
        self.connections: dict[int, Connection] = {}
        self._correlation = 0

    def send(self, step: Step, number: int) -> Connection:
        """Ask on connection `number`, which is made when it is not there."""
        if number not in self.connections:
            self.connections[number] = Connection(connect(self.bootstrap))
        connection = self.connections[number]
        assert connection.waiting is None, "one request at a time"
        self._correlation += 1
        tree = self.learned.resolve(step.tree)
        body = encode(request_shape(step.key, step.version), tree)
        data = frame(step.key, step.version, self._correlation, CLIENT, body)
        if owes_no_answer(step):
            self._correlation += 1
            data += frame(API_VERSIONS, 0, self._correlation, CLIENT, b"")
        connection.waiting, connection.answer = step, None
        connection.correlation = self._correlation
        try:
            connection.socket.sendall(data)
        except OSError:
            connection.answer = CLOSED
        return connection

    def ask(self, step: Step, number: int = 9, timeout_s: float = 20.0) -> Tree:
        """Send and wait: what no comparison looks at."""
        connection = self.send(step, number)
        deadline = monotonic() + timeout_s
        while connection.answer is None:
            assert monotonic() < deadline, f"{self.name} does not answer {step.name}"
            select.select([connection.socket], [], [], 0.05)
            connection.read()
        return self.done(number)

    def done(self, number: int) -> Tree:
        """The answer that has come; the connection is free again, or gone."""
        connection = self.connections[number]
        answer = connection.answer
        assert answer is not None
        connection.waiting = connection.answer = None
        if answer is CLOSED:
            connection.socket.close()
            del self.connections[number]
        return answer

    def give_up(self, number: int, answer: Tree) -> Tree:
        """Leave a connection on which no answer comes; returns `answer` instead."""
        self.connections.pop(number).socket.close()
        return answer

    def close(self) -> None:
        """All connections."""
        for connection in self.connections.values():
            connection.socket.close()
        self.connections.clear()
