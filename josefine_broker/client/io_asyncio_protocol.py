"""One TCP connection of the asyncio shell: bytes of `connection.Connection` in and out.

Answers come in request order, so the oldest future in flight gets the next frame. When the
connection ends, every future in flight gets a KafkaError(network_exception) with the address.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.connection import Connection, ConnectionState
from josefine_broker.client.io_blocking_socket import (
    LOGIN_REFUSED,
    NO_BROKER,
    RESPONSE_BYTES_MAX,
    SPEAKS_TLS,
)
from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.client.retry import Unheard
from josefine_broker.client.sasl import Login
from josefine_broker.wire.frames import TLS_HINT, FrameBuffer


class FrameListener(Protocol):
    """Gets the answer to a request as soon as it is here. A future's callbacks would come a turn of
    the event loop later."""

    def answered(self, version: int, frame: memoryview) -> None:
        """The frame of the answer, in this version. May raise CorruptData or KafkaError, which ends
        the connection."""
        ...

    def lost(self, error: KafkaError) -> None:
        """The connection has ended without an answer."""
        ...


Encode = Callable[[int, int, str], list[Any]]
"""Makes the buffers of a request of: version, correlation id, client id."""


class ProtocolConnection(asyncio.BufferedProtocol):
    """Used by one event loop; created by `open`."""

    def __init__(self, address: Address, client_id: str, login: Login | None = None) -> None:
        self.address = address
        self._core = Connection(client_id, login)
        self._frames = FrameBuffer(RESPONSE_BYTES_MAX)
        self._answers: deque[asyncio.Future[Any] | FrameListener] = deque()
        self._transport: asyncio.Transport | None = None
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def open(
        cls, address: Address, client_id: str, secured: Secured = UNSECURED
    ) -> "ProtocolConnection":
        """Connect, complete a TLS handshake if configured, and agree on versions. Raises KafkaError
        or OSError; cancellable."""
        loop, login = asyncio.get_running_loop(), secured.login()
        _, self = await loop.create_connection(
            lambda: cls(address, client_id, login),
            address.host,
            address.port,
            ssl=secured.tls,
            server_hostname=None if secured.tls is None else address.host,
        )
        try:
            await self._ready
        except BaseException:
            self.close()
            raise
        return self

    @property
    def is_usable(self) -> bool:
        return self._core.state is ConnectionState.READY

    def send(
        self, api_key: int, request: Any, *, wants_response: bool = True
    ) -> asyncio.Future[Any] | None:
        """Write one request; returns the future of its answer. Raises
        KafkaError(unsupported_version)."""
        if not self.is_usable or self._transport is None:
            raise self._lost("closed")
        self._transport.writelines(self._core.send(api_key, request, wants_response=wants_response))
        if not wants_response:
            return None
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        return answer

    def ask(self, api_key: int, encode: Encode, listener: FrameListener) -> None:
        """Write one request that `encode` makes; `listener` gets its answer. Raises
        KafkaError(unsupported_version)."""
        if not self.is_usable or self._transport is None:
            raise self._lost("closed")
        buffers = encode(*self._core.begin(api_key))
        self._answers.append(listener)
        if len(buffers) == 1:
            self._transport.write(buffers[0])
        else:
            self._transport.writelines(buffers)

    def close(self) -> None:
        self._end(self._lost("closed here"))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            asyncio.Transport, transport
        )  # uvloop's transports are not asyncio's
        self._transport.writelines(self._core.hello())

    @property
    def get_buffer(self) -> Callable[[int], memoryview]:
        return self._frames.get_buffer  # uvloop asks for it once: one call less for each read

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for frame in self._frames.buffer_updated(nbytes):
                self._hear(frame)
        except (CorruptData, KafkaError) as error:
            if isinstance(error, KafkaError) and error.code in LOGIN_REFUSED:
                self._end(error)
                return
            self._end(self._lost(f"a broken answer: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._core.is_unheard and self._core.in_flight:
            self._end(Unheard(self.address))
            return
        self._end(self._lost(str(exc) if exc else "closed by the broker"))

    def _hear(self, frame: memoryview) -> None:
        state = self._core.state
        if state is ConnectionState.READY and self._answers:
            answer = self._answers[0]
            if not isinstance(answer, asyncio.Future):
                version = self._core.receive_frame(frame)
                self._answers.popleft()
                is_heard = False
                try:
                    answer.answered(version, frame)
                    is_heard = True
                finally:
                    # Without an answer it is notified by the end of the connection, which follows.
                    if not is_heard:
                        self._answers.appendleft(answer)
                return
            response = self._core.receive(frame)
            self._answers.popleft()
            if not answer.done():
                answer.set_result(response)
        elif state in (ConnectionState.NEGOTIATING, ConnectionState.AUTHENTICATING):
            if self._core.hear_hello(frame):
                if not self._ready.done():
                    self._ready.set_result(None)
            elif self._transport is not None:
                self._transport.writelines(self._core.hello())
        elif state is ConnectionState.READY:
            raise CorruptData("the broker sent a response without a request")

    def _lost(self, reason: str) -> KafkaError:
        if not self._ready.done():
            return KafkaError(
                ErrorCode.network_exception, SPEAKS_TLS if TLS_HINT in reason else NO_BROKER
            )
        return KafkaError(
            ErrorCode.network_exception, f"lost the connection to {self.address} ({reason})"
        )

    def _end(self, error: KafkaError) -> None:
        """Close once; every pending answer gets `error`."""
        listeners: list[FrameListener] = []
        self._core.close()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # retrieved: `open` may have been cancelled meanwhile
        while self._answers:
            answer = self._answers.popleft()
            if not isinstance(answer, asyncio.Future):
                listeners.append(answer)
            elif not answer.done():
                answer.set_exception(error)
                answer.exception()
        if self._transport is not None:
            self._transport.abort()
            self._transport = None
        for each in listeners:
            each.lost(error)
