"""The frames of a follower's incremental fetch that names one partition or none, and of its answer,
each by one `Struct`; and those of its next fetches of the same partition (`RepeatedRequest`).

Rules: `wire/codec.py` reads and writes the same bytes, and everything that is not plain is left to
it: several partitions, forgotten ones, errors, a divergence, a leader's address. So the functions
here return the codec's own shapes, or None. A request is plain from version 15 on, where the sender
is in a tag (KIP-903).
"""

from collections.abc import Sequence
from functools import lru_cache
from struct import Struct

from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import RequestHeader
from josefine_broker.wire.fetch import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    FetchTopicResponse,
)
from josefine_broker.wire.primitives import Buffer, uuid_of, varint

__all__ = [
    "RepeatedAnswer", "RepeatedRequest", "decode_replica_request", "decode_replica_response",
    "encode_replica_records", "encode_replica_request", "encode_replica_response", "session_of",
]  # fmt: skip

FIRST_VERSION, LAST_VERSION = 15, 18
JOINED_BYTES_MAX = 16 * 1024
"""An answer of this size is copied into one buffer: cheaper than the write of several."""

_HEAD = Struct(">ihhih")
"""Length, key, version, correlation id, size of the client id."""
_LIMITS = "iiibii"
"""Longest wait, smallest and largest size, isolation level, session id and epoch."""
_PARTITION = "iiqiqi"
"""Index, leader epoch, offset, last fetched epoch, log start offset, largest size."""
_SENDER = "BBBiqB"
"""One tag with number and size: replica id and epoch, without tags of their own."""
# The counts are varints, one larger than the count. After the partition: its tags and those of its
# topic, forgotten topics, rack.
_IDLE = Struct(f">{_LIMITS}BBB{_SENDER}")
_ONE = Struct(f">{_LIMITS}B16sB{_PARTITION}BBBB{_SENDER}")
_NOTHING_NAMED = 1, 1, 1
_SENDER_HEAD = 1, 1, 13

# Correlation id, tags, throttle time, error, session id, topics.
_ANSWER = Struct(">iBihiB")
# Topic id, partitions; index, error, watermark, stable and start offset, aborted, replica.
_RESULT = Struct(">16sBihqqqBi")
_RECORDS_AT = _ANSWER.size + _RESULT.size
_ONE_ANSWER = Struct(f">i{_ANSWER.format[1:]}{_RESULT.format[1:]}")
_NO_ANSWER = Struct(f">i{_ANSWER.format[1:]}B")
_TAIL = b"\0\0\0"
"""No tags: of the partition, of the topic, of the answer."""
_new = tuple.__new__

_SESSION_ID = Struct(">i")
_SESSION_ID_END = _ONE.size - Struct(">iiib").size
"""Where the session id is in a request that names one partition, from the end of the frame."""


def session_of(frame: memoryview) -> int:
    """The session id, if the request is incremental and names one partition of a follower. Any
    other frame has anything there."""
    at = len(frame) - _SESSION_ID_END
    found: int = _SESSION_ID.unpack_from(frame, at)[0] if at > 0 else 0
    return found


@lru_cache(16)
def _parts(body_at: int) -> Struct:
    """Of a frame without its length: correlation id, session epoch and offset, and the bytes before
    and after each, for a body that starts there."""
    to_correlation_id = Struct(">hh").size
    header = body_at - to_correlation_id - 4
    to_epoch, to_offset = Struct(">iiibi").size, Struct(">B16sBii").size
    rest = _ONE.size - to_epoch - 4 - to_offset - 8
    return Struct(f">{to_correlation_id}si{header + to_epoch}si{to_offset}sq{rest}s")


class RepeatedRequest:
    """What the requests have in common that name the same partition on the same connection, one
    after the other: all bytes but correlation id, session epoch and offset."""

    __slots__ = ("_common", "_length", "_parts")

    def __init__(self, frame: Buffer) -> None:
        """`frame`: without its length; one that this module has written or read, with a
        partition."""
        self._parts = _parts(len(frame) - _ONE.size)
        self._length = _SESSION_ID.pack(len(frame))
        self._common = self._parts.unpack_from(frame)[::2]

    def read(self, frame: memoryview) -> tuple[int, int, int] | None:
        """Correlation id, session epoch and offset. None: the frame is another one."""
        if len(frame) != self._parts.size:
            return None
        found = self._parts.unpack_from(frame)
        return found[1::2] if found[::2] == self._common else None

    def frame(self, correlation_id: int, epoch: int, offset: int) -> bytes:
        """The whole frame."""
        first, second, third, last = self._common
        values = first, correlation_id, second, epoch, third, offset, last
        return self._length + self._parts.pack(*values)


class RepeatedAnswer:
    """What the answers have in common that have records of one partition in one session."""

    __slots__ = ("_common",)

    _PARTS = Struct(">4x35sqqq5s")
    """Without the correlation id: bytes, high watermark, stable and start offset, and bytes."""

    def __init__(self, session_id: int, topic_id: bytes, index: int) -> None:
        head = _ANSWER.pack(0, 0, 0, 0, session_id, 2)
        self._common = self._PARTS.unpack(
            head + _RESULT.pack(topic_id, 2, index, 0, 0, 0, 0, 0, -1)
        )[::4]

    def read(self, frame: memoryview) -> tuple[int, int, memoryview] | None:
        """High watermark, log start offset and records. None: the answer is another one."""
        if len(frame) <= _RECORDS_AT + len(_TAIL):
            return None
        first, high_watermark, _, start, last = self._PARTS.unpack_from(frame)
        if (first, last) != self._common:
            return None
        records = _records_of(frame)
        return (high_watermark, start, records) if records else None


def encode_replica_request(
    version: int, correlation_id: int, client_id: str, request: FetchRequest
) -> bytes | None:
    """The whole frame."""
    topics = request.topics
    is_plain = FIRST_VERSION <= version <= LAST_VERSION and request.replica_id >= 0
    if not is_plain or len(topics) > 1 or request[8:10] != ((), "") or request[11] is not None:
        return None
    sender = (*_SENDER_HEAD, request.replica_id, request.replica_epoch, 0)
    if not topics:
        body = _IDLE.pack(*request[1:7], *_NOTHING_NAMED, *sender)
    else:
        _, topic_id, parts = topics[0]
        if len(parts) != 1 or topic_id is None or parts[0][6:] != (None, NO_HIGH_WATERMARK):
            return None
        body = _ONE.pack(*request[1:7], 2, topic_id.bytes, 2, *parts[0][:6], 0, 0, 1, 1, *sender)
    name = client_id.encode()
    size = _HEAD.size - 4 + len(name) + 1 + len(body)
    head = _HEAD.pack(size, FETCH, version, correlation_id, len(name))
    return b"%b%b\0%b" % (head, name, body)


def decode_replica_request(header: RequestHeader, frame: memoryview) -> FetchRequest | None:
    """The body of a follower's request; None also for a consumer's."""
    api_key, version, _, _, at = header
    if api_key != FETCH or not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    size = len(frame) - at
    topics: tuple[FetchTopic, ...] = ()
    if size == _ONE.size:
        found = _ONE.unpack_from(frame, at)
        if (found[6], found[8]) != (2, 2) or found[15:19] != (0, 0, 1, 1):
            return None
        part = _new(FetchPartition, (*found[9:15], None, NO_HIGH_WATERMARK))
        topics = (_new(FetchTopic, ("", uuid_of(found[7]), (part,))),)
    elif size == _IDLE.size:
        found = _IDLE.unpack_from(frame, at)
        if found[6:9] != _NOTHING_NAMED:
            return None
    else:
        return None
    one, tag, tag_size, replica_id, replica_epoch, tags = found[-6:]
    # The request that opens a session, or has none, names everything, and is rare.
    if (one, tag, tag_size) != _SENDER_HEAD or tags or replica_id < 0 or found[5] < 1:
        return None
    rest = topics, (), "", replica_epoch, None
    return _new(FetchRequest, (replica_id, *found[:6], *rest))


def encode_replica_response(
    version: int, correlation_id: int, response: FetchResponse
) -> list[Buffer] | None:
    """The whole frame."""
    throttle_ms, error_code, session_id, topics, endpoints = response
    if error_code or endpoints or len(topics) > 1 or not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    head = correlation_id, 0, throttle_ms, 0, session_id
    if not topics:
        return [_NO_ANSWER.pack(_NO_ANSWER.size - 4, *head, 1, 0)]
    _, topic_id, parts = topics[0]
    if len(parts) != 1 or topic_id is None:
        return None
    index, code, watermark, stable, start, aborted, preferred, records, diverging, leader = parts[0]
    if code or aborted is not None or records is None or diverging or leader:
        return None
    size = sum(map(len, records))
    written = varint(size + 1)
    whole = _ONE_ANSWER.size - 4 + len(written) + size + len(_TAIL)
    fields = index, 0, watermark, stable, start, 0, preferred
    before = _ONE_ANSWER.pack(whole, *head, 2, topic_id.bytes, 2, *fields) + written
    if size <= JOINED_BYTES_MAX:
        return [b"".join((before, *records, _TAIL))]
    return [before, *records, _TAIL]


def encode_replica_records(
    correlation_id: int,
    session_id: int,
    topic_id: bytes,
    index: int,
    high_watermark: int,
    log_start_offset: int,
    records: Buffer,
) -> list[Buffer]:
    """The whole frame of an answer that has records of one partition."""
    size = len(records)
    written = varint(size + 1)
    before = _ONE_ANSWER.pack(
        _ONE_ANSWER.size - 4 + len(written) + size + len(_TAIL),
        correlation_id, 0, 0, 0, session_id, 2,
        topic_id, 2, index, 0, high_watermark, high_watermark, log_start_offset, 0, -1,
    )  # fmt: skip
    if size <= JOINED_BYTES_MAX:
        return [b"".join((before, written, records, _TAIL))]
    return [before + written, records, _TAIL]


def decode_replica_response(version: int, frame: memoryview) -> tuple[int, FetchResponse] | None:
    """Correlation id and response; its records are a slice of the frame."""
    if len(frame) < _ANSWER.size + 1 or not FIRST_VERSION <= version <= LAST_VERSION:
        return None
    correlation_id, tags, throttle_ms, error_code, session_id, topics = _ANSWER.unpack_from(frame)
    if tags or error_code:
        return None
    found: Sequence[FetchTopicResponse] = ()
    if topics == 2:
        part = _decode_result(frame)
        if part is None:
            return None
        found = (part,)
    elif topics != 1 or len(frame) != _ANSWER.size + 1 or frame[-1]:
        return None
    return correlation_id, _new(FetchResponse, (throttle_ms, 0, session_id, found, ()))


def _decode_result(frame: memoryview) -> FetchTopicResponse | None:
    """The only topic, with its only partition."""
    if len(frame) <= _RECORDS_AT + len(_TAIL):
        return None
    raw, parts, index, code, *offsets, aborted, preferred = _RESULT.unpack_from(frame, _ANSWER.size)
    found = _records_of(frame)
    if parts != 2 or code or aborted or found is None:
        return None
    records = (found,) if found else ()
    answer = index, 0, *offsets, None, preferred, records, None, None
    return _new(FetchTopicResponse, ("", uuid_of(raw), (_new(FetchPartitionResponse, answer),)))


def _records_of(frame: memoryview) -> memoryview | None:
    """The records of the only partition, if no tags follow them."""
    # The size of the records, as a varint of 32 bits; what the frame holds must be just that.
    at, size, shift, byte, length = _RECORDS_AT, 0, 0, 0x80, len(frame)
    while byte >= 0x80 and shift < 35 and at < length:
        byte = frame[at]
        size |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
    end = at + size - 1
    if byte >= 0x80 or size < 1 or length != end + len(_TAIL) or frame[end:] != _TAIL:
        return None
    return frame[at:end]
