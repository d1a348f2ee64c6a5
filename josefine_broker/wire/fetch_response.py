"""Fetch responses: `fetch.FetchResponse` to buffers and back.

Records go out as the very buffers that the log gave, and come in as slices of the frame.
"""

from struct import Struct

from josefine_broker.wire import primitives as p
from josefine_broker.wire.apis import APIS, FETCH
from josefine_broker.wire.fetch import (
    ID_SINCE,
    AbortedTransaction,
    FetchPartitionResponse,
    FetchResponse,
    FetchTopicResponse,
)
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.shared import (
    read_node_endpoints,
    read_topics,
    slice_of,
    write_node_endpoints,
)

FLEXIBLE_SINCE = APIS[FETCH].flexible_since
ENDPOINTS_SINCE = 16

_INT32 = p.INT32
_EPOCH_AND_OFFSET = Struct(">iq")
_TWO_INT32 = Struct(">ii")
_TWO_INT64 = Struct(">qq")
_TOP = Struct(">ihi")
# index, error code, high watermark, last stable offset; then the log start offset.
_RESULT_V4 = Struct(">ihqq")
_RESULT = Struct(">ihqqq")


def encode_response(out: bytearray, response: FetchResponse, version: int) -> list[Buffer]:
    """Append the body to `out`; returns the buffers of the whole, `out` first, records uncopied."""
    if version >= FLEXIBLE_SINCE:
        return _encode_response_flexible(out, response, version)
    return _encode_response_legacy(out, response, version)


def _encode_response_flexible(
    out: bytearray, response: FetchResponse, version: int
) -> list[Buffer]:
    by_id = version >= ID_SINCE
    buffers: list[Buffer] = [out]
    out += _TOP.pack(*response[:3])
    p.write_compact_count(out, len(response.topics))
    for topic in response.topics:
        if by_id:
            p.write_uuid(out, topic.topic_id)
        else:
            p.write_compact_string(out, topic.name)
        p.write_compact_count(out, len(topic.partitions))
        for part in topic.partitions:
            out += _RESULT.pack(*part[:5])
            aborted = part.aborted_transactions
            p.write_compact_count(out, -1 if aborted is None else len(aborted))
            for transaction in aborted or ():
                out += _TWO_INT64.pack(*transaction)
                out.append(0)
            out += _INT32.pack(part.preferred_read_replica)
            records = part.records
            p.write_compact_count(out, -1 if records is None else sum(map(len, records)))
            # The records' buffers go out as they are, without a copy; what follows them starts a
            # new buffer.
            if records:
                buffers += records
                out = bytearray()
                buffers.append(out)
            _write_result_tags(out, part)
        out.append(0)
    if version >= ENDPOINTS_SINCE and response.node_endpoints:
        write_node_endpoints(out, response.node_endpoints)
    else:
        out.append(0)
    return buffers


def _write_result_tags(out: bytearray, part: FetchPartitionResponse) -> None:
    """Diverging epoch (tag 0) and current leader (tag 1); both structs close with no tags."""
    out.append((part.diverging is not None) + (part.leader is not None))
    if part.diverging is not None:
        out += b"\x00\x0d" + _EPOCH_AND_OFFSET.pack(*part.diverging) + b"\x00"
    if part.leader is not None:
        out += b"\x01\x09" + _TWO_INT32.pack(*part.leader) + b"\x00"


def _encode_response_legacy(out: bytearray, response: FetchResponse, version: int) -> list[Buffer]:
    with_log_start, with_replica = version >= 5, version >= 11
    result = _RESULT if with_log_start else _RESULT_V4
    fields = 5 if with_log_start else 4
    buffers: list[Buffer] = [out]
    if version >= 7:
        out += _TOP.pack(*response[:3])
    else:
        out += _INT32.pack(response.throttle_ms)
    p.write_count(out, len(response.topics))
    for topic in response.topics:
        p.write_string(out, topic.name)
        p.write_count(out, len(topic.partitions))
        for part in topic.partitions:
            out += result.pack(*part[:fields])
            aborted = part.aborted_transactions
            p.write_count(out, -1 if aborted is None else len(aborted))
            for transaction in aborted or ():
                out += _TWO_INT64.pack(*transaction)
            if with_replica:
                out += _INT32.pack(part.preferred_read_replica)
            records = part.records
            p.write_count(out, -1 if records is None else sum(map(len, records)))
            if records:
                buffers += records
                out = bytearray()
                buffers.append(out)
    return buffers


def decode_response(buf: Buffer, pos: int, version: int) -> tuple[FetchResponse, int]:
    """(response, position after it); records are slices of `buf`, which must be a memoryview."""
    if version >= FLEXIBLE_SINCE:
        return _decode_response_flexible(buf, pos, version)
    return _decode_response_legacy(buf, pos, version)


def _decode_response_flexible(buf: Buffer, pos: int, version: int) -> tuple[FetchResponse, int]:
    by_id = version >= ID_SINCE
    top = _TOP.unpack_from(buf, pos)
    topics, pos = read_topics(
        buf, pos + _TOP.size, by_id, _decode_result_flexible, FetchTopicResponse
    )
    endpoints, pos = read_node_endpoints(buf, pos)
    return FetchResponse._make((*top, topics, endpoints)), pos


def _decode_result_flexible(buf: Buffer, pos: int) -> tuple[FetchPartitionResponse, int]:
    numbers = _RESULT.unpack_from(buf, pos)
    count, pos = p.read_nullable_compact_count(buf, pos + _RESULT.size)
    aborted = None
    if count is not None:
        transactions = []
        for _ in range(count):
            transactions.append(AbortedTransaction(*_TWO_INT64.unpack_from(buf, pos)))
            pos = p.skip_tags(buf, pos + 16)
        aborted = tuple(transactions)
    preferred = _INT32.unpack_from(buf, pos)[0]
    size, pos = p.read_varint(buf, pos + 4)
    records, pos = slice_of(buf, pos, size - 1)
    diverging = leader = None
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            diverging = _EPOCH_AND_OFFSET.unpack_from(buf, pos)
        elif tag == 1:
            leader = _TWO_INT32.unpack_from(buf, pos)
        pos += size
    rest = (aborted, preferred, _as_buffers(records), diverging, leader)
    return FetchPartitionResponse._make(numbers + rest), pos


def _as_buffers(records: memoryview | None) -> tuple[memoryview, ...] | None:
    if records is None:
        return None
    return (records,) if len(records) else ()


def _decode_response_legacy(buf: Buffer, pos: int, version: int) -> tuple[FetchResponse, int]:
    with_replica = version >= 11
    result = _RESULT if version >= 5 else _RESULT_V4
    no_log_start = () if version >= 5 else (-1,)
    top: tuple[int, ...] = (0, 0, 0)
    if version >= 7:
        top = _TOP.unpack_from(buf, pos)
        pos += _TOP.size
    else:
        top = (_INT32.unpack_from(buf, pos)[0], 0, 0)
        pos += 4
    topic_count, pos = p.read_count(buf, pos)
    topics = []
    for _ in range(topic_count):
        name, pos = p.read_string(buf, pos)
        count, pos = p.read_count(buf, pos)
        partitions = []
        for _ in range(count):
            numbers = result.unpack_from(buf, pos) + no_log_start
            aborted, pos = _read_aborted_legacy(buf, pos + result.size)
            preferred = -1
            if with_replica:
                preferred, pos = p.read_int32(buf, pos)
            size = _INT32.unpack_from(buf, pos)[0]
            records, pos = slice_of(buf, pos + 4, size)
            rest = (aborted, preferred, _as_buffers(records), None, None)
            partitions.append(FetchPartitionResponse._make(numbers + rest))
        topics.append(FetchTopicResponse(name, None, tuple(partitions)))
    return FetchResponse._make((*top, tuple(topics), ())), pos


def _read_aborted_legacy(
    buf: Buffer, pos: int
) -> tuple[tuple[AbortedTransaction, ...] | None, int]:
    count, pos = p.read_nullable_count(buf, pos)
    if count is None:
        return None, pos
    transactions = []
    for _ in range(count):
        transactions.append(AbortedTransaction(*_TWO_INT64.unpack_from(buf, pos)))
        pos += 16
    return tuple(transactions), pos
