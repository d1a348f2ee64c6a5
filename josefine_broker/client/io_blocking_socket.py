"""One TCP connection of the blocking shell: bytes of `connection.Connection` in and out.

Every failure is a KafkaError with the address in it: network_exception when the peer or the network
failed, request_timed_out at the deadline. The owner closes it after any of them.
"""

import errno
import os
import socket
import ssl
import time
from collections.abc import Sequence
from typing import Any

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.security import TLS_RECORD
from josefine_broker.base.tls_files import reason_of
from josefine_broker.client.buffers import BufferPool
from josefine_broker.client.cluster import Address
from josefine_broker.client.connection import Connection
from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.client.retry import Unheard

RESPONSE_BYTES_MAX = 320 * 1024 * 1024
"""A larger length prefix is no Kafka answer (TLS' first bytes read as 335 MB, HTTP's 1.2 GB)."""

NO_BROKER = "what answers there is no Kafka broker, or one that wants TLS (security.protocol)"
HUNG_UP = "hung up on, perhaps a listener without TLS"
SPEAKS_TLS = "what answers there speaks TLS: set security.protocol"

SEND_JOIN_BYTES_MAX = 64 * 1024
"""Smaller requests are joined by a copy: one system call costs more than the copy."""

LOGIN_REFUSED = frozenset(
    {
        ErrorCode.sasl_authentication_failed,
        ErrorCode.unsupported_sasl_mechanism,
        ErrorCode.illegal_sasl_state,
    }
)


class SocketConnection:
    """Used by one thread at a time, except for `close`."""

    __slots__ = ("_buffers", "_core", "_socket", "address")

    def __init__(self, address: Address, sock: socket.socket, core: Connection) -> None:
        self.address = address
        self._socket = sock
        self._core = core
        self._buffers = BufferPool()

    @classmethod
    def open(
        cls,
        address: Address,
        client_id: str,
        deadline_ms: int,
        secured: Secured = UNSECURED,
    ) -> "SocketConnection":
        """Connect, complete a TLS handshake if configured, agree on versions, log in. Raises
        KafkaError or OSError."""
        timeout_s = _left_s(deadline_ms)
        sock = socket.create_connection((address.host, address.port), timeout_s)
        self = cls(address, sock, Connection(client_id, secured.login()))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if secured.tls is not None:
                sock.settimeout(_left_s(deadline_ms))
                self._socket = secured.tls.wrap_socket(sock, server_hostname=address.host)
            while True:
                self._write(self._core.hello(), deadline_ms)
                if self._core.hear_hello(self._read_frame(deadline_ms)):
                    return self
        except (CorruptData, EOFError) as error:
            # Before the first valid answer a broken one means a wrong port, not a broken broker.
            self.close()
            raise KafkaError(
                ErrorCode.network_exception,
                SPEAKS_TLS if str(error) == SPEAKS_TLS else NO_BROKER,
            ) from error
        except BaseException:
            self.close()
            raise

    def send(
        self, api_key: int, request: Any, deadline_ms: int, *, wants_response: bool = True
    ) -> None:
        buffers = self._core.send(api_key, request, wants_response=wants_response)
        try:
            self._write(buffers, deadline_ms)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, deadline_ms: int) -> Any:
        """The answer to the oldest request in flight."""
        try:
            return self._core.receive(self._read_frame(deadline_ms))
        except (OSError, EOFError) as error:
            raise self._lost(error) from error
        except CorruptData as error:
            raise KafkaError(
                ErrorCode.network_exception, f"{self.address} sent a broken answer: {error}"
            ) from error

    def close(self) -> None:
        """From any thread: ends a receive in progress."""
        try:
            # Not the TLS socket's own shutdown: it would remove the state that a receive uses.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)
        except OSError as error:
            if error.errno not in (errno.ENOTCONN, errno.EBADF):
                raise
        self._socket.close()

    def _lost(self, error: OSError | EOFError) -> KafkaError:
        unheard = self._core.is_unheard and isinstance(error, EOFError | ConnectionResetError)
        self._core.close()
        if unheard:
            return Unheard(self.address)
        if isinstance(error, TimeoutError):
            return KafkaError(ErrorCode.request_timed_out, f"{self.address} did not answer in time")
        return KafkaError(
            ErrorCode.network_exception, f"lost the connection to {self.address} ({failure(error)})"
        )

    def _write(self, buffers: Sequence[Any], deadline_ms: int) -> None:
        self._socket.settimeout(_left_s(deadline_ms))
        if sum(len(buffer) for buffer in buffers) <= SEND_JOIN_BYTES_MAX:
            self._socket.sendall(b"".join(buffers))
            return
        for buffer in buffers:
            self._socket.sendall(buffer)

    def _read_frame(self, deadline_ms: int) -> memoryview:
        prefix = memoryview(bytearray(4))
        self._read_into(prefix, deadline_ms)
        size = int.from_bytes(prefix, "big", signed=True)
        if not 4 <= size <= RESPONSE_BYTES_MAX:
            raise CorruptData(
                SPEAKS_TLS if TLS_RECORD.match(prefix) else f"a frame of {size} bytes"
            )
        frame = self._buffers.take(size)
        self._read_into(frame, deadline_ms)
        return frame

    def _read_into(self, view: memoryview, deadline_ms: int) -> None:
        read, size = 0, len(view)
        while read < size:
            self._socket.settimeout(_left_s(deadline_ms))
            try:
                received = self._socket.recv_into(view[read:])
            except ValueError as error:  # a TLS socket that another thread closed meanwhile
                raise EOFError("closed here") from error
            if received == 0:
                raise EOFError("closed by the broker")
            read += received


def failure(error: BaseException) -> str:
    """The reason of a failed connection in a few plain words."""
    if isinstance(error, KafkaError):
        return error.message or error.code.name.replace("_", " ")
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionResetError | ConnectionAbortedError) and not error.errno:
        return HUNG_UP
    if isinstance(error, ssl.SSLError):
        return reason_of(error)
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return str(error).lower() or type(error).__name__


def _left_s(deadline_ms: int) -> float:
    """Seconds until the deadline. Raises TimeoutError after it."""
    left_ms = deadline_ms - time.monotonic_ns() // 1_000_000
    if left_ms <= 0:
        raise TimeoutError
    return left_ms / 1000
