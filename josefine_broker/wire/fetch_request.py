"""Fetch requests: bytes to `fetch.FetchRequest` and back."""

from struct import Struct
from typing import NamedTuple
from uuid import UUID

from josefine_broker.wire import primitives as p
from josefine_broker.wire.apis import APIS, FETCH
from josefine_broker.wire.fetch import (
    ID_SINCE,
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.shared import read_topic

FLEXIBLE_SINCE = APIS[FETCH].flexible_since
REPLICA_STATE_SINCE = 15
DIRECTORY_SINCE = 17
HIGH_WATERMARK_SINCE = 18

_INT32 = p.INT32
_INT64 = p.INT64
_TWO_INT32 = Struct(">ii")
_REPLICA_STATE = Struct(">iq")


class _Layout(NamedTuple):
    """The fixed part of a request's partition in one version: a Struct, and how to reorder it."""

    struct: Struct
    with_epoch: bool
    with_last_fetched: bool
    with_log_start: bool


def _layout(version: int) -> _Layout:
    with_epoch, with_last, with_start = version >= 9, version >= 12, version >= 5
    codes = "i" + "i" * with_epoch + "q" + "i" * with_last + "q" * with_start + "i"
    return _Layout(Struct(">" + codes), with_epoch, with_last, with_start)


_LAYOUTS = {version: _layout(version) for version in range(4, 19)}


def _read_partition(buf: Buffer, pos: int, layout: _Layout) -> tuple[FetchPartition, int]:
    """One partition; -1 means that the version does not carry the field."""
    values = list(layout.struct.unpack_from(buf, pos))
    if not layout.with_epoch:
        values.insert(1, -1)
    if not layout.with_last_fetched:
        values.insert(3, -1)
    if not layout.with_log_start:
        values.insert(4, -1)
    return FetchPartition._make((*values, *_NO_PARTITION_TAGS)), pos + layout.struct.size


def decode_request(buf: Buffer, pos: int, version: int) -> tuple[FetchRequest, int]:
    """(request, position after it)."""
    if version >= FLEXIBLE_SINCE:
        return _decode_request_flexible(buf, pos, version)
    return _decode_request_legacy(buf, pos, version)


_LIMITS = Struct(">iiibii")
_LIMITS_NO_SESSION = Struct(">iiib")


def _decode_request_flexible(buf: Buffer, pos: int, version: int) -> tuple[FetchRequest, int]:
    by_id = version >= ID_SINCE
    replica_id, replica_epoch, cluster_id = -1, -1, None
    if version < REPLICA_STATE_SINCE:
        replica_id, pos = p.read_int32(buf, pos)
    limits = _LIMITS.unpack_from(buf, pos)
    topic_count, pos = p.read_compact_count(buf, pos + _LIMITS.size)
    topics = []
    for _ in range(topic_count):
        name, topic_id, pos = read_topic(buf, pos, by_id)
        count, pos = p.read_compact_count(buf, pos)
        partitions = []
        for _ in range(count):
            numbers = _FLEXIBLE_PARTITION.unpack_from(buf, pos)
            pos += _FLEXIBLE_PARTITION.size
            tags = _NO_PARTITION_TAGS
            if buf[pos] == 0:  # no tags, as in nearly every request
                pos += 1
            else:
                tags, pos = _read_partition_tags(buf, pos)
            partitions.append(FetchPartition._make(numbers + tags))
        pos = p.skip_tags(buf, pos)
        topics.append(FetchTopic(name, topic_id, tuple(partitions)))
    forgotten, pos = _read_forgotten_flexible(buf, pos, by_id)
    rack_id, pos = p.read_compact_string(buf, pos)
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            cluster_id, _ = p.read_nullable_compact_string(buf, pos)
        elif tag == 1 and version >= REPLICA_STATE_SINCE:
            replica_id, replica_epoch = _REPLICA_STATE.unpack_from(buf, pos)
        pos += size
    rest = (tuple(topics), forgotten, rack_id, replica_epoch, cluster_id)
    return FetchRequest._make((replica_id, *limits, *rest)), pos


_FLEXIBLE_PARTITION = _LAYOUTS[12].struct


_NO_PARTITION_TAGS: tuple[UUID | None, int] = (None, NO_HIGH_WATERMARK)


def _read_partition_tags(buf: Buffer, pos: int) -> tuple[tuple[UUID | None, int], int]:
    directory, high_watermark = _NO_PARTITION_TAGS
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            directory, _ = p.read_uuid(buf, pos)
        elif tag == 1:
            high_watermark, _ = p.read_int64(buf, pos)
        pos += size
    return (directory, high_watermark), pos


def _read_forgotten_flexible(
    buf: Buffer, pos: int, by_id: bool
) -> tuple[tuple[ForgottenTopic, ...], int]:
    topic_count, pos = p.read_compact_count(buf, pos)
    forgotten = []
    for _ in range(topic_count):
        name, topic_id, pos = read_topic(buf, pos, by_id)
        indexes, pos = _read_indexes_flexible(buf, pos)
        pos = p.skip_tags(buf, pos)
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    return tuple(forgotten), pos


_read_indexes_flexible = p.array_reader(p.read_int32, flexible=True, nullable=False)
_read_indexes_legacy = p.array_reader(p.read_int32, flexible=False, nullable=False)


def _decode_request_legacy(buf: Buffer, pos: int, version: int) -> tuple[FetchRequest, int]:
    layout = _LAYOUTS[version]
    # KIP-227: fetch sessions, and with them the forgotten topics, exist since version 7.
    with_session = version >= 7
    replica_id, pos = p.read_int32(buf, pos)
    if with_session:
        limits = _LIMITS.unpack_from(buf, pos)
        pos += _LIMITS.size
    else:
        limits = (*_LIMITS_NO_SESSION.unpack_from(buf, pos), 0, -1)
        pos += _LIMITS_NO_SESSION.size
    topic_count, pos = p.read_count(buf, pos)
    topics = []
    for _ in range(topic_count):
        name, pos = p.read_string(buf, pos)
        count, pos = p.read_count(buf, pos)
        partitions = []
        for _ in range(count):
            part, pos = _read_partition(buf, pos, layout)
            partitions.append(part)
        topics.append(FetchTopic(name, None, tuple(partitions)))
    forgotten = []
    if with_session:
        forgotten_count, pos = p.read_count(buf, pos)
        for _ in range(forgotten_count):
            name, pos = p.read_string(buf, pos)
            indexes, pos = _read_indexes_legacy(buf, pos)
            forgotten.append(ForgottenTopic(name, None, indexes))
    rack_id = ""
    if version >= 11:
        rack_id, pos = p.read_string(buf, pos)
    rest = (tuple(topics), tuple(forgotten), rack_id, -1, None)
    return FetchRequest._make((replica_id, *limits, *rest)), pos


def encode_request(out: bytearray, request: FetchRequest, version: int) -> list[Buffer]:
    """Append the body to `out`; returns the buffers of the whole."""
    flexible = version >= FLEXIBLE_SINCE
    write_text = p.write_compact_string if flexible else p.write_string
    write_count = p.write_compact_count if flexible else p.write_count
    # KIP-903: later versions carry the replica's id and epoch in a tagged field.
    if version < REPLICA_STATE_SINCE:
        out += _INT32.pack(request.replica_id)
    out += _LIMITS_NO_SESSION.pack(*request[1:5])
    if version >= 7:
        out += _TWO_INT32.pack(request.session_id, request.session_epoch)
    write_count(out, len(request.topics))
    for topic in request.topics:
        _write_topic(out, topic, version, write_text)
        write_count(out, len(topic.partitions))
        for part in topic.partitions:
            _write_partition(out, part, version)
        if flexible:
            out.append(0)
    if version >= 7:
        write_count(out, len(request.forgotten))
        for gone in request.forgotten:
            _write_topic(out, gone, version, write_text)
            write_count(out, len(gone.partitions))
            for index in gone.partitions:
                out += _INT32.pack(index)
            if flexible:
                out.append(0)
    if version >= 11:
        write_text(out, request.rack_id)
    if flexible:
        _write_request_tags(out, request, version)
    return [out]


def _write_topic(
    out: bytearray, topic: FetchTopic | ForgottenTopic, version: int, write_text: p.Writer
) -> None:
    if version >= ID_SINCE:
        p.write_uuid(out, topic.topic_id)
    else:
        write_text(out, topic.name)


def _write_partition(out: bytearray, part: FetchPartition, version: int) -> None:
    layout = _LAYOUTS[version]
    values = list(part[:6])
    if not layout.with_log_start:
        del values[4]
    if not layout.with_last_fetched:
        del values[3]
    if not layout.with_epoch:
        del values[1]
    out += layout.struct.pack(*values)
    if version < FLEXIBLE_SINCE:
        return
    tags = []
    if version >= DIRECTORY_SINCE and part.replica_directory_id is not None:
        tags.append(b"\x00\x10" + part.replica_directory_id.bytes)
    if version >= HIGH_WATERMARK_SINCE and part.high_watermark != NO_HIGH_WATERMARK:
        tags.append(b"\x01\x08" + _INT64.pack(part.high_watermark))
    out.append(len(tags))
    for tag in tags:
        out += tag


def _write_request_tags(out: bytearray, request: FetchRequest, version: int) -> None:
    tags = []
    if request.cluster_id is not None:
        body = bytearray()
        p.write_nullable_compact_string(body, request.cluster_id)
        tags.append(b"\x00" + p.varint(len(body)) + body)
    state = (request.replica_id, request.replica_epoch)
    if version >= REPLICA_STATE_SINCE and state != (-1, -1):
        # The struct closes with its own empty tagged section: 13 bytes.
        tags.append(b"\x01\x0d" + _REPLICA_STATE.pack(*state) + b"\x00")
    out.append(len(tags))
    for tag in tags:
        out += tag
