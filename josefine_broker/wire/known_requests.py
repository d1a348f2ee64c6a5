"""Requests that a client repeats: the codec reads each once, then it is found by its bytes.

Rules: the correlation id, which differs in each, is not part of such a request. What is known of
one follows from its bytes alone, so it is what the codec would read again. Memory is bounded: a
user keeps `KNOWN_MAX` requests of a kind, and longer ones than `FRAME_BYTES_MAX` are not kept.
"""

from typing import Any

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.wire.codec import (
    RequestHeader,
    decode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.primitives import Buffer

KNOWN_MAX = 8_192
FRAME_BYTES_MAX = 256
_NO_CORRELATION = bytes(4)


def key_of(frame: memoryview) -> bytes:
    """The bytes of a request without its correlation id. Empty: it is too long to be kept."""
    return b"".join((frame[:4], frame[8:])) if len(frame) <= FRAME_BYTES_MAX else b""


def read_once(key: bytes) -> tuple[RequestHeader, Any] | None:
    """The header, with a correlation id of 0, and the body. None: it is not kept, or not valid,
    and then its route has the error."""
    frame = memoryview(b"".join((key[:4], _NO_CORRELATION, key[4:])))
    try:
        header = parse_request_header(frame)
        return header, decode_request(header, frame)
    except (CorruptData, KafkaError):
        return None


def header_of(known: RequestHeader, correlation: Buffer) -> RequestHeader:
    """The header of a known request, with its correlation id."""
    return known._replace(correlation_id=int.from_bytes(correlation, "big", signed=True))


class KnownAnswer:
    """An answer that is encoded once, for any correlation id."""

    __slots__ = ("_begin", "_end")

    def __init__(self, api_key: int, api_version: int, answer: Any) -> None:
        whole = b"".join(encode_response(api_key, api_version, 0, answer))
        self._begin, self._end = whole[:4], whole[8:]

    def to(self, correlation: Buffer) -> list[Buffer]:
        """The whole response to the request with this correlation id."""
        return [b"".join((self._begin, correlation, self._end))]
