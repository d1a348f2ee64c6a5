"""Produce requests: bytes to `produce.ProduceRequest` and back.

Records arrive as slices of the frame, and are sent as the caller's own buffers.
"""

from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import primitives as p
from josefine_broker.wire.apis import APIS, PRODUCE
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.produce import (
    ID_SINCE,
    TRANSACTION_SINCE,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from josefine_broker.wire.shared import read_topic

FLEXIBLE_SINCE = APIS[PRODUCE].flexible_since

_INT32 = p.INT32
_ACKS_AND_TIMEOUT = Struct(">hi")
_ACKS_TIMEOUT_COUNT = Struct(">hii")
_INDEX_AND_SIZE = Struct(">ii")
# No transaction, acks, timeout, topic count, length of the name; partition count, index, length.
_ONE_LEGACY = Struct(">hhiih")
_ONE_PARTITION_LEGACY = Struct(">iii")
_ONE_FLEXIBLE = Struct(">BhiBB")
_ONE_PARTITION_FLEXIBLE = Struct(">Bi")
ONE_BYTES_MIN = 14
"""A shorter body cannot hold the fields that the two layouts above read first."""
_new = tuple.__new__


def decode_request(buf: Buffer, pos: int, version: int) -> tuple[ProduceRequest, int]:
    """(request, position after it); records are slices of `buf`, which must be a memoryview."""
    if version >= ID_SINCE:
        return _decode_request_flexible(buf, pos, True)
    if version >= FLEXIBLE_SINCE:
        return _decode_one_flexible(buf, pos) or _decode_request_flexible(buf, pos, False)
    if version >= TRANSACTION_SINCE:
        return _decode_one_legacy(buf, pos) or _decode_request_legacy(buf, pos, True)
    return _decode_request_legacy(buf, pos, False)


# Two decoders for what librdkafka always sends: one partition, no transaction. They take half the
# time of the general ones (1.0 against 2.1 microseconds) and answer None for anything else.


def _decode_one_flexible(buf: Buffer, pos: int) -> tuple[ProduceRequest, int] | None:
    end = len(buf)
    if end - pos < ONE_BYTES_MIN:
        return None
    transaction, acks, timeout_ms, topics, size = _ONE_FLEXIBLE.unpack_from(buf, pos)
    name_end = pos + 8 + size
    if transaction or topics != 2 or not 0 < size < 0x80 or name_end + 11 > end:
        return None
    partitions, index = _ONE_PARTITION_FLEXIBLE.unpack_from(buf, name_end)
    size, start = p.read_varint(buf, name_end + 5)
    # Partition, topic and request close with an empty tagged section each.
    if partitions != 2 or size == 0 or start + size + 2 != end or buf[end - 3 :] != b"\0\0\0":
        return None
    part = _new(ProducePartition, (index, buf[start : end - 3]))
    topic = _new(ProduceTopic, (str(buf[pos + 9 : name_end], "utf-8"), None, (part,)))
    return _new(ProduceRequest, (None, acks, timeout_ms, (topic,))), end


def _decode_one_legacy(buf: Buffer, pos: int) -> tuple[ProduceRequest, int] | None:
    end = len(buf)
    if end - pos < ONE_BYTES_MIN:
        return None
    transaction, acks, timeout_ms, topics, size = _ONE_LEGACY.unpack_from(buf, pos)
    name_end = pos + 14 + size
    if transaction != -1 or topics != 1 or size < 0 or name_end + 12 > end:
        return None
    partitions, index, size = _ONE_PARTITION_LEGACY.unpack_from(buf, name_end)
    if partitions != 1 or size < 0 or name_end + 12 + size != end:
        return None
    part = _new(ProducePartition, (index, buf[name_end + 12 :]))
    topic = _new(ProduceTopic, (str(buf[pos + 14 : name_end], "utf-8"), None, (part,)))
    return _new(ProduceRequest, (None, acks, timeout_ms, (topic,))), end


def _decode_request_flexible(buf: Buffer, pos: int, by_id: bool) -> tuple[ProduceRequest, int]:
    transactional_id, pos = p.read_nullable_compact_string(buf, pos)
    acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(buf, pos)
    topic_count, pos = p.read_compact_count(buf, pos + 6)
    topics = []
    for _ in range(topic_count):
        name, topic_id, pos = read_topic(buf, pos, by_id)
        count, pos = p.read_compact_count(buf, pos)
        partitions = []
        for _ in range(count):
            index = _INT32.unpack_from(buf, pos)[0]
            size, pos = p.read_varint(buf, pos + 4)
            end = pos + size - 1
            if size == 0:
                records, pos = None, pos
            elif end <= len(buf):
                records, pos = buf[pos:end], end
            else:
                raise CorruptData(f"{size - 1} bytes of records in {len(buf) - pos} bytes")
            pos = pos + 1 if buf[pos] == 0 else p.skip_tags(buf, pos)
            partitions.append(_new(ProducePartition, (index, records)))
        pos = pos + 1 if buf[pos] == 0 else p.skip_tags(buf, pos)
        topics.append(_new(ProduceTopic, (name, topic_id, tuple(partitions))))
    pos = pos + 1 if buf[pos] == 0 else p.skip_tags(buf, pos)
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, tuple(topics))), pos


def _decode_request_legacy(
    buf: Buffer, pos: int, with_transaction: bool
) -> tuple[ProduceRequest, int]:
    transactional_id = None
    if with_transaction:
        transactional_id, pos = p.read_nullable_string(buf, pos)
    acks, timeout_ms, topic_count = _ACKS_TIMEOUT_COUNT.unpack_from(buf, pos)
    pos += 10
    if topic_count < 0:
        raise CorruptData("null where an array is required")
    topics = []
    for _ in range(topic_count):
        name, pos = p.read_string(buf, pos)
        count, pos = p.read_count(buf, pos)
        partitions = []
        for _ in range(count):
            index, size = _INDEX_AND_SIZE.unpack_from(buf, pos)
            pos += 8
            end = pos + size
            if size >= 0 and end <= len(buf):
                records, pos = buf[pos:end], end
            elif size == -1:
                records = None
            else:
                raise CorruptData(f"{size} bytes of records in {len(buf) - pos} bytes")
            partitions.append(_new(ProducePartition, (index, records)))
        topics.append(_new(ProduceTopic, (name, None, tuple(partitions))))
    return _new(ProduceRequest, (transactional_id, acks, timeout_ms, tuple(topics))), pos


def encode_request(out: bytearray, request: ProduceRequest, version: int) -> list[Buffer]:
    """Append the body to `out`; returns the buffers of the whole, `out` first, records uncopied."""
    flexible = version >= FLEXIBLE_SINCE
    by_id = version >= ID_SINCE
    write_text = p.write_nullable_compact_string if flexible else p.write_nullable_string
    write_count = p.write_compact_count if flexible else p.write_count
    buffers: list[Buffer] = [out]
    if version >= TRANSACTION_SINCE:
        write_text(out, request.transactional_id)
    out += _ACKS_AND_TIMEOUT.pack(request.acks, request.timeout_ms)
    write_count(out, len(request.topics))
    for topic in request.topics:
        if by_id:
            p.write_uuid(out, topic.topic_id)
        else:
            write_text(out, topic.name)
        write_count(out, len(topic.partitions))
        for index, records in topic.partitions:
            out += _INT32.pack(index)
            write_count(out, -1 if records is None else len(records))
            if records:  # never copied: the caller's buffer is sent between two of ours
                out = bytearray()
                buffers += (records, out)
            if flexible:
                out.append(0)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    return buffers
