"""A follower's plain fetch: the handler of `api/fetch.py`, without the codec around it.

Rules: `wire/replica_frames.py` reads the request and writes the answer, with the codec's bytes;
what is not plain is left to the codec. The handler decides, as for every other request.
"""

from collections.abc import Callable
from typing import Any

from josefine_broker.base.errors import CorruptData
from josefine_broker.engine.context import Context
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.records.crc import Buffer
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import RequestHeader, encode_response, parse_request_header
from josefine_broker.wire.replica_frames import decode_replica_request, encode_replica_response

__all__ = ["fetch_for_follower"]

FETCH_KEY = b"\0\x01"
Handle = Callable[[RequestHeader, Any], Any]
"""The handler with its context, or its refusal: the response, or the token that waits for it."""


def fetch_for_follower(
    ctx: Context, frame: memoryview, handle: Handle
) -> tuple[RequestHeader, list[Buffer] | Parked] | None:
    """The header, and the whole response or the request that waits for it, which is completed with
    an `Encoded`. None: nothing was done."""
    # A quota adds to the answer, and needs the client's name.
    if frame[:2] != FETCH_KEY or ctx.image.quotas:
        return None
    try:
        header = parse_request_header(frame)
    except CorruptData:  # the route ends the connection, without a line in the log for each frame
        return None
    request = decode_replica_request(header, frame)
    if request is None:
        return None
    answer = handle(header, request)
    if isinstance(answer, Parked):
        answer.make_of(lambda response: Encoded(_encoded(header, response)))
        return header, answer
    return header, _encoded(header, answer)


def _encoded(header: RequestHeader, response: Any) -> list[Buffer]:
    version, correlation_id = header.api_version, header.correlation_id
    buffers = encode_replica_response(version, correlation_id, response)
    if buffers is not None:
        return buffers
    return encode_response(FETCH, version, correlation_id, response)
