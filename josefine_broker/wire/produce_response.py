"""Produce responses: `produce.ProduceResponse` to bytes and back."""

from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from josefine_broker.wire import primitives as p
from josefine_broker.wire.apis import APIS, PRODUCE
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.produce import (
    ID_SINCE,
    LEADER_SINCE,
    ProducePartitionResponse,
    ProduceResponse,
    ProduceTopicResponse,
    RecordError,
)
from josefine_broker.wire.shared import read_node_endpoints, read_topics, write_node_endpoints

FLEXIBLE_SINCE = APIS[PRODUCE].flexible_since

_INT32 = p.INT32
_LEADER = Struct(">ii")
# Index, error code, base offset, log append time, log start offset.
_RESULT = Struct(">ihqqq")


def encode_response(out: bytearray, response: ProduceResponse, version: int) -> list[Buffer]:
    """Append the body to `out`; returns the buffers of the whole."""
    if 8 <= version < ID_SINCE and _encode_one(out, response, version >= FLEXIBLE_SINCE):
        return [out]
    if version >= FLEXIBLE_SINCE:
        _encode_response_flexible(
            out, response, by_id=version >= ID_SINCE, with_leader=version >= LEADER_SINCE
        )
    else:
        _encode_response_legacy(out, response, _LEGACY[version])
    return [out]


def _encode_one(out: bytearray, response: ProduceResponse, flexible: bool) -> bool:
    """The answer to one stored batch, versions 8 to 12, in one packing; False for any other
    answer."""
    topics = response.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1 or response.node_endpoints:
        return False
    part = topics[0].partitions[0]
    name = topics[0].name.encode()
    size = len(name)
    if part[5:] != _NOTHING_MORE or size > ONE_NAME_BYTES_MAX:
        return False
    layout = _one_result(size, flexible)
    if flexible:
        out += layout.pack(2, size + 1, name, 2, *part[:5], 1, 0, 0, 0, response.throttle_ms, 0)
    else:
        out += layout.pack(1, size, name, 1, *part[:5], 0, -1, response.throttle_ms)
    return True


ONE_NAME_BYTES_MAX = 126
"""A name's compact length then fits one byte."""


@lru_cache(maxsize=2 * ONE_NAME_BYTES_MAX)
def _one_result(name_bytes: int, flexible: bool) -> Struct:
    """Topic count, name, partition count, result, errors and message, throttle (and tags)."""
    if flexible:
        return Struct(f">BB{name_bytes}sBihqqqBBBBiB")
    return Struct(f">ih{name_bytes}siihqqqihi")


def _encode_response_flexible(
    out: bytearray, response: ProduceResponse, *, by_id: bool, with_leader: bool
) -> None:
    p.write_compact_count(out, len(response.topics))
    for topic in response.topics:
        if by_id:
            p.write_uuid(out, topic.topic_id)
        else:
            p.write_compact_string(out, topic.name)
        p.write_compact_count(out, len(topic.partitions))
        for part in topic.partitions:
            out += _RESULT.pack(*part[:5])
            if part[5:] == _NOTHING_MORE:
                out += b"\x01\x00\x00"
            else:
                _encode_result_rest(out, part, with_leader)
        out.append(0)
    out += _INT32.pack(response.throttle_ms)
    if with_leader and response.node_endpoints:
        write_node_endpoints(out, response.node_endpoints)
    else:
        out.append(0)


_NOTHING_MORE = ProducePartitionResponse(0)[5:]


def _encode_result_rest(out: bytearray, part: ProducePartitionResponse, with_leader: bool) -> None:
    """Record errors, message and the leader's tag: only an answer with an error has them."""
    p.write_compact_count(out, len(part.record_errors))
    for batch_index, message in part.record_errors:
        out += _INT32.pack(batch_index)
        p.write_nullable_compact_string(out, message)
        out.append(0)
    p.write_nullable_compact_string(out, part.error_message)
    if with_leader and (part.leader_id, part.leader_epoch) != (-1, -1):
        out += b"\x01\x00\x09"
        out += _LEADER.pack(part.leader_id, part.leader_epoch)
    out.append(0)


class _Legacy(NamedTuple):
    """The fields of a version before 9: the numbers of a partition, errors, the throttle time."""

    numbers: Struct
    with_errors: bool
    with_throttle: bool


def _legacy(version: int) -> _Legacy:
    codes = "ihq" + "q" * (version >= 2) + "q" * (version >= 5)
    return _Legacy(Struct(f">{codes}"), version >= 8, version >= 1)


_LEGACY = [_legacy(version) for version in range(FLEXIBLE_SINCE)]
_NO_NUMBERS = (-1, -1, -1, -1, -1)


def _encode_response_legacy(out: bytearray, response: ProduceResponse, layout: _Legacy) -> None:
    numbers, with_errors, with_throttle = layout
    fields = len(numbers.format) - 1
    p.write_count(out, len(response.topics))
    for topic in response.topics:
        p.write_string(out, topic.name)
        p.write_count(out, len(topic.partitions))
        for part in topic.partitions:
            out += numbers.pack(*part[:fields])
            if with_errors:
                p.write_count(out, len(part.record_errors))
                for batch_index, message in part.record_errors:
                    out += _INT32.pack(batch_index)
                    p.write_nullable_string(out, message)
                p.write_nullable_string(out, part.error_message)
    if with_throttle:
        out += _INT32.pack(response.throttle_ms)


def decode_response(buf: Buffer, pos: int, version: int) -> tuple[ProduceResponse, int]:
    """(response, position after it)."""
    if version >= FLEXIBLE_SINCE:
        return _decode_response_flexible(buf, pos, by_id=version >= ID_SINCE)
    return _decode_response_legacy(buf, pos, _LEGACY[version])


def _decode_response_flexible(buf: Buffer, pos: int, *, by_id: bool) -> tuple[ProduceResponse, int]:
    topics, pos = read_topics(buf, pos, by_id, _decode_result_flexible, ProduceTopicResponse)
    throttle_ms = _INT32.unpack_from(buf, pos)[0]
    endpoints, pos = read_node_endpoints(buf, pos + 4)
    return ProduceResponse(topics, throttle_ms, endpoints), pos


def _decode_result_flexible(buf: Buffer, pos: int) -> tuple[ProducePartitionResponse, int]:
    numbers = _RESULT.unpack_from(buf, pos)
    error_count, pos = p.read_compact_count(buf, pos + _RESULT.size)
    errors = []
    for _ in range(error_count):
        batch_index = _INT32.unpack_from(buf, pos)[0]
        message, pos = p.read_nullable_compact_string(buf, pos + 4)
        pos = p.skip_tags(buf, pos)
        errors.append(RecordError(batch_index, message))
    error_message, pos = p.read_nullable_compact_string(buf, pos)
    leader = (-1, -1)
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            leader = _LEADER.unpack_from(buf, pos)
        pos += size
    rest = (error_message, tuple(errors), *leader)
    return ProducePartitionResponse._make(numbers + rest), pos


def _decode_response_legacy(buf: Buffer, pos: int, layout: _Legacy) -> tuple[ProduceResponse, int]:
    numbers, with_errors, with_throttle = layout
    absent = _NO_NUMBERS[len(numbers.format) - 1 :]
    topic_count, pos = p.read_count(buf, pos)
    topics = []
    for _ in range(topic_count):
        name, pos = p.read_string(buf, pos)
        count, pos = p.read_count(buf, pos)
        partitions = []
        for _ in range(count):
            found = numbers.unpack_from(buf, pos) + absent
            pos += numbers.size
            message, errors = None, []
            if with_errors:
                error_count, pos = p.read_count(buf, pos)
                for _ in range(error_count):
                    batch_index = _INT32.unpack_from(buf, pos)[0]
                    text, pos = p.read_nullable_string(buf, pos + 4)
                    errors.append(RecordError(batch_index, text))
                message, pos = p.read_nullable_string(buf, pos)
            rest = (message, tuple(errors), -1, -1)
            partitions.append(ProducePartitionResponse._make(found + rest))
        topics.append(ProduceTopicResponse(name, None, tuple(partitions)))
    throttle_ms = 0
    if with_throttle:
        throttle_ms, pos = p.read_int32(buf, pos)
    return ProduceResponse(tuple(topics), throttle_ms), pos
