"""What a simulated broker asks another one over the Kafka protocol, which `host/peers/forwarder.py`
does with sockets. A question is a connection of its own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_broker.api.shared.forwarding import FORWARDED_CLIENT_ID
from josefine_broker.wire.apis import APIS
from josefine_broker.wire.codec import decode_response, encode_request
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["Forwarder"]


class _Question:
    """Implements `network.Caller`. Answered once."""

    def __init__(self, api: tuple[int, int], on_answer: Callable[[Any | None], None]) -> None:
        self._api = api
        self._on_answer: Callable[[Any | None], None] | None = on_answer
        self.connection: Connection | None = None

    def answered(self, connection: Connection, frame: bytes) -> None:
        self.settle(decode_response(*self._api, memoryview(bytearray(frame))[4:])[1])

    def broken(self, connection: Connection) -> None:
        self.settle(None)

    def settle(self, answer: Any | None) -> None:
        on_answer, self._on_answer = self._on_answer, None
        if on_answer is not None:
            on_answer(answer)


class Forwarder:
    """Implements `engine.ports.ForwardPort`. One per process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._open: dict[Connection, None] = {}

    def ask(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any | None], None],
    ) -> None:
        process = self._process
        api = api_key, APIS[api_key].max_version

        def heard(answer: Any | None) -> None:
            self._open.pop(connection, None)
            connection.close()
            if not process.is_ended:
                process.touch()
                # Not as an event of Raft: it may end a catch-up, and so change a role.
                process.event(lambda: on_answer(answer))

        question = _Question(api, heard)
        connection = process.dial(question, broker_id)
        self._open[connection] = None
        connection.send(b"".join(encode_request(*api, 1, FORWARDED_CLIENT_ID, request)))
        late = partial(question.settle, None)
        process.after_ms(process.clock.delay_ms(deadline_ms), late)

    def end(self) -> None:
        """The process is gone; what it had sent may still arrive."""
        for connection in self._open:
            connection.close()
        self._open.clear()
