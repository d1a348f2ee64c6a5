"""Forwards a client's request to another broker, over the listener that brokers use.

Rules: a connection has one request at a time, so that none waits for another's answer; a few idle
connections are kept. Any failure is reported as None. The client id asks the other broker not to
forward the request again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ports import Clock
from josefine_broker.client.cluster import Address
from josefine_broker.client.io_asyncio_protocol import ProtocolConnection
from josefine_broker.client.io_tls import UNSECURED, Secured

IDLE_MAX = 4
"""Idle connections kept to one broker."""


class Forwarder:
    """Implements `engine.ports.ForwardPort`. `stop` ends all requests in flight."""

    def __init__(
        self,
        address_of: Callable[[int], Address | None],
        client_id: str,
        clock: Clock,
        secured: Callable[[], Secured] = lambda: UNSECURED,
    ) -> None:
        """`address_of`: where brokers dial a broker, if known; `secured`: how."""
        self._secured = secured
        self._address_of = address_of
        self._client_id = client_id
        self._clock = clock
        self._tasks: set[asyncio.Task[None]] = set()
        self._idle: dict[Address, list[ProtocolConnection]] = {}

    def ask(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any | None], None],
    ) -> None:
        """`on_answer` is called later, on the event loop, with None when there is no answer."""

        async def asked() -> None:
            on_answer(await self._ask(broker_id, api_key, request, deadline_ms))

        task = asyncio.get_running_loop().create_task(asked(), name="forward")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, broker_id: int, api_key: int, request: Any, deadline_ms: int) -> Any:
        address = self._address_of(broker_id)
        if address is None:
            return None
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        try:
            async with asyncio.timeout(left_ms / 1_000):
                connection = self._take_idle(address)
                if connection is None:
                    connection = await ProtocolConnection.open(
                        address, self._client_id, self._secured()
                    )
                is_answered = False
                try:
                    answer = connection.send(api_key, request)
                    assert answer is not None
                    found = await answer
                    is_answered = True
                    return found
                finally:
                    self._give_back(address, connection, is_answered)
        except (OSError, KafkaError):  # a TimeoutError is an OSError
            return None

    def _take_idle(self, address: Address) -> ProtocolConnection | None:
        idle = self._idle.get(address, [])
        while idle:
            connection = idle.pop()
            if connection.is_usable:
                return connection
        return None

    def _give_back(
        self, address: Address, connection: ProtocolConnection, is_answered: bool
    ) -> None:
        idle = self._idle.setdefault(address, [])
        if is_answered and connection.is_usable and len(idle) < IDLE_MAX:
            idle.append(connection)
        else:
            connection.close()

    async def stop(self) -> None:
        """No pending request is answered any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in [each for idle in self._idle.values() for each in idle]:
            connection.close()
        self._idle.clear()
