"""The codec of whole frames: headers, then the body by hand-written code or by plan.

A frame here starts after the four bytes of its length; encoded output includes them. Errors: bytes
that do not match their header → CorruptData; a key or version outside `apis.py` →
KafkaError(unsupported_version).
"""

from struct import Struct
from typing import Any, NamedTuple, TypeAlias

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.wire import (
    apis,
    fetch_request,
    fetch_response,
    produce_request,
    produce_response,
)
from josefine_broker.wire import primitives as p
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.versions import request_plan, response_plan

CONTROL_BODY_BYTES_MAX = 8 * 1024 * 1024
"""Requests other than Produce: a million one-byte elements become a gigabyte of objects."""

_HEADER = Struct(">hhih")
_LENGTH_AND_CORRELATION = Struct(">ii")
_new = tuple.__new__

_SUPPORTED = frozenset(
    (spec.key, version)
    for spec in apis.APIS.values()
    for version in range(spec.min_version, spec.max_version + 1)
)
_FLEXIBLE = frozenset(pair for pair in _SUPPORTED if apis.is_flexible(*pair))
# Response header v1, but never for ApiVersions: its reader does not know the version yet.
_TAGGED_RESPONSE = frozenset(pair for pair in _FLEXIBLE if pair[0] != apis.API_VERSIONS)
# Room for length and correlation id, and the empty tagged section of response header v1.
_RESPONSE_HEADERS = {pair: bytes(9 if pair in _TAGGED_RESPONSE else 8) for pair in _SUPPORTED}

Entity: TypeAlias = Any
"""A shape of `wire.entities`, `wire.produce` or `wire.fetch`."""


class RequestHeader(NamedTuple):
    """A request header (v1 or v2); `body_offset` is where the body starts in the frame."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: Buffer) -> RequestHeader:
    """The header of any request, supported or not, so that each can be answered.

    The tagged fields of an unsupported version are not read: it is unknown whether there are any.
    """
    try:
        api_key, api_version, correlation_id, size = _HEADER.unpack_from(frame)
        pos = 10
        client_id = None
        if size >= 0:
            pos += size
            if pos > len(frame):
                raise CorruptData("request header is cut short")
            client_id = str(frame[10:pos], "utf-8")
        elif size != -1:
            raise CorruptData("negative length of the client id")
        if (api_key, api_version) in _FLEXIBLE:
            pos = pos + 1 if frame[pos] == 0 else p.skip_tags(frame, pos)
    except p.MALFORMED as error:
        raise CorruptData("request header is cut short") from error
    return _new(RequestHeader, (api_key, api_version, correlation_id, client_id, pos))


def decode_request(header: RequestHeader, frame: memoryview) -> Entity:
    """The request's body in our one shape; records of a Produce are slices of `frame`.

    Bytes after the body are ignored, as in Kafka's parser: librdkafka 2.16 leaves three after a
    Metadata request for all topics.
    """
    api_key, version = header.api_key, header.api_version
    if (api_key, version) not in _SUPPORTED:
        raise _unsupported(api_key, version)
    pos = header.body_offset
    entity: Entity
    try:
        if api_key == apis.PRODUCE:
            entity, _ = produce_request.decode_request(frame, pos, version)
        elif len(frame) - pos > CONTROL_BODY_BYTES_MAX:
            raise CorruptData(f"request of key {api_key} with a body of {len(frame) - pos} bytes")
        elif api_key == apis.FETCH:
            entity, _ = fetch_request.decode_request(frame, pos, version)
        else:
            entity, _ = request_plan(api_key, version).read(frame, pos)
    except p.MALFORMED as error:
        raise CorruptData(f"request of key {api_key} v{version} is cut short") from error
    return entity


def encode_response(
    api_key: int, api_version: int, correlation_id: int, entity: Entity
) -> list[Buffer]:
    """The whole frame as buffers in order; those of fetched records are the caller's own."""
    header = _RESPONSE_HEADERS.get((api_key, api_version))
    if header is None:
        raise _unsupported(api_key, api_version)
    out = bytearray(header)
    if api_key == apis.PRODUCE:
        buffers = produce_response.encode_response(out, entity, api_version)
    elif api_key == apis.FETCH:
        buffers = fetch_response.encode_response(out, entity, api_version)
    else:
        response_plan(api_key, api_version).write(out, entity)
        buffers = [out]
    size = len(out) if len(buffers) == 1 else sum(map(len, buffers))
    _LENGTH_AND_CORRELATION.pack_into(out, 0, size - 4, correlation_id)
    return buffers


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, entity: Entity
) -> list[Buffer]:
    """The whole frame as buffers in order; those of produced records are the caller's own."""
    if (api_key, api_version) not in _SUPPORTED:
        raise _unsupported(api_key, api_version)
    out = bytearray(4)
    out += _HEADER.pack(api_key, api_version, correlation_id, -1)
    if client_id is not None:
        del out[-2:]
        p.write_string(out, client_id)
    if (api_key, api_version) in _FLEXIBLE:
        out.append(0)
    if api_key == apis.PRODUCE:
        buffers = produce_request.encode_request(out, entity, api_version)
    elif api_key == apis.FETCH:
        buffers = fetch_request.encode_request(out, entity, api_version)
    else:
        request_plan(api_key, api_version).write(out, entity)
        buffers = [out]
    p.INT32.pack_into(out, 0, sum(map(len, buffers)) - 4)
    return buffers


def decode_response(api_key: int, api_version: int, frame: memoryview) -> tuple[int, Entity]:
    """(correlation id, body in our one shape); records of a Fetch are slices of `frame`."""
    if (api_key, api_version) not in _SUPPORTED:
        raise _unsupported(api_key, api_version)
    entity: Entity
    try:
        correlation_id, pos = p.read_int32(frame, 0)
        if (api_key, api_version) in _TAGGED_RESPONSE:
            pos = p.skip_tags(frame, pos)
        if api_key == apis.PRODUCE:
            entity, pos = produce_response.decode_response(frame, pos, api_version)
        elif api_key == apis.FETCH:
            entity, pos = fetch_response.decode_response(frame, pos, api_version)
        else:
            entity, pos = response_plan(api_key, api_version).read(frame, pos)
    except p.MALFORMED as error:
        raise CorruptData(f"response of key {api_key} v{api_version} is cut short") from error
    if pos != len(frame):
        raise CorruptData(
            f"response of key {api_key} v{api_version}: {len(frame) - pos} bytes too many"
        )
    return correlation_id, entity


def _unsupported(api_key: int, api_version: int) -> KafkaError:
    return KafkaError(
        ErrorCode.unsupported_version, f"key {api_key} version {api_version} is not known"
    )
