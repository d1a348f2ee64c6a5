"""Kafka frames by hand, for what no client library would send."""

from __future__ import annotations

import socket
import struct

FETCH = 1
METADATA = 3
API_VERSIONS = 18


def connect(bootstrap: str, timeout_s: float = 60.0) -> socket.socket:
    host, _, port = bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=timeout_s)


def request(api_key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    """A framed request with a v1 header (not flexible) and no client id."""
    header = struct.pack(">hhih", api_key, version, correlation_id, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


def api_versions_request(correlation_id: int) -> bytes:
    return request(API_VERSIONS, 0, correlation_id)


def metadata_request(correlation_id: int, *topics: str) -> bytes:
    """Metadata v1: all topics when none is named."""
    if not topics:
        return request(METADATA, 1, correlation_id, struct.pack(">i", -1))
    names = b"".join(struct.pack(">h", len(name)) + name.encode() for name in topics)
    return request(METADATA, 1, correlation_id, struct.pack(">i", len(topics)) + names)


def fetch_body(topic: str, *, offset: int = 0, wait_ms: int = 500, bytes_max: int) -> bytes:
    """Fetch v4 of partition 0."""
    return (
        struct.pack(">iiiib", -1, wait_ms, 1, bytes_max, 0)
        + struct.pack(">ih", 1, len(topic))
        + topic.encode()
        + struct.pack(">iiqi", 1, 0, offset, bytes_max)
    )


def read_exactly(connection: socket.socket, size: int) -> bytes:
    """`size` bytes; ConnectionError when the other end closes before."""
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise ConnectionError(f"closed after {len(data)} of {size} bytes")
        data += part
    return bytes(data)


def read_response(connection: socket.socket) -> tuple[int, bytes]:
    """Correlation id and what follows it."""
    (size,) = struct.unpack(">i", read_exactly(connection, 4))
    frame = read_exactly(connection, size)
    return struct.unpack_from(">i", frame)[0], frame[4:]


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end closes without sending anything more."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True
