"""Fetch (key 1, versions 4 to 18), coded by hand: records go out as the buffers the log gave.

See `produce.py` for why. What changed when: 5 log start offset, 7 fetch sessions (KIP-227),
9 leader epochs (KIP-320), 11 rack and preferred replica (KIP-392), 12 flexible and diverging
epochs (KIP-595), 13 topic ids (KIP-516), 15 replica state (KIP-903), 16 node endpoints
(KIP-951), 17 directory ids (KIP-853), 18 the follower's high watermark (KIP-1166). The tag
`snapshot_id` of the response serves only Kafka's own metadata log: it is ignored and not sent.
"""

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from josefine_broker.wire import primitives as p
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.produce import (
    NodeEndpoint,
    read_node_endpoints,
    slice_of,
    write_node_endpoints,
)

FLEXIBLE_SINCE = 12
ID_SINCE = 13
REPLICA_STATE_SINCE = 15
ENDPOINTS_SINCE = 16
DIRECTORY_SINCE = 17
HIGH_WATERMARK_SINCE = 18
NO_HIGH_WATERMARK = 2**63 - 1

_INT32 = p.INT32
_INT64 = p.INT64
_EPOCH_AND_OFFSET = Struct(">iq")
_TWO_INT32 = Struct(">ii")
_TWO_INT64 = Struct(">qq")
_REPLICA_STATE = Struct(">iq")


class FetchPartition(NamedTuple):
    index: int  # type: ignore[assignment]
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int
    max_bytes: int
    replica_directory_id: UUID | None = None
    high_watermark: int = NO_HIGH_WATERMARK


class FetchTopic(NamedTuple):
    """Until version 12 by name and `topic_id` is None; since 13 by id and `name` is empty."""

    name: str
    topic_id: UUID | None
    partitions: tuple[FetchPartition, ...]


class ForgottenTopic(NamedTuple):
    """Partitions to take out of an incremental session (KIP-227)."""

    name: str
    topic_id: UUID | None
    partitions: tuple[int, ...]


class FetchRequest(NamedTuple):
    """`replica_id` is -1 for a consumer; `max_bytes` of the whole answer."""

    replica_id: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: tuple[FetchTopic, ...]
    forgotten: tuple[ForgottenTopic, ...] = ()
    rack_id: str = ""
    replica_epoch: int = -1
    cluster_id: str | None = None


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class FetchPartitionResponse(NamedTuple):
    """`records` are the buffers that follow each other on the wire; decoded, one slice.

    None and () differ on the wire only (null and empty). `diverging` is (epoch, end offset),
    `leader` is (id, epoch).
    """

    index: int  # type: ignore[assignment]
    error_code: int = 0
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted_transactions: tuple[AbortedTransaction, ...] | None = None
    preferred_read_replica: int = -1
    records: Sequence[Buffer] | None = ()
    diverging: tuple[int, int] | None = None
    leader: tuple[int, int] | None = None


class FetchTopicResponse(NamedTuple):
    name: str
    topic_id: UUID | None
    partitions: Sequence[FetchPartitionResponse]


class FetchResponse(NamedTuple):
    throttle_ms: int = 0
    error_code: int = 0
    session_id: int = 0
    topics: Sequence[FetchTopicResponse] = ()
    node_endpoints: tuple[NodeEndpoint, ...] = ()


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


def _read_partition(buf: Buffer, pos: int, layout: _Layout) -> tuple[list[int], int]:
    """Index, epoch, offset, last fetched epoch, log start, max bytes: -1 for what is absent."""
    values = list(layout.struct.unpack_from(buf, pos))
    if not layout.with_epoch:
        values.insert(1, -1)
    if not layout.with_last_fetched:
        values.insert(3, -1)
    if not layout.with_log_start:
        values.insert(4, -1)
    return values, pos + layout.struct.size


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
        name, topic_id, pos = _read_topic(buf, pos, by_id)
        count, pos = p.read_compact_count(buf, pos)
        partitions = []
        for _ in range(count):
            numbers = _FLEXIBLE_PARTITION.unpack_from(buf, pos)
            pos += _FLEXIBLE_PARTITION.size
            if buf[pos] == 0:
                pos += 1
                partitions.append(FetchPartition(*numbers))
            else:
                directory, high_watermark, pos = _read_partition_tags(buf, pos)
                partitions.append(FetchPartition(*numbers, directory, high_watermark))
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
    request = FetchRequest(
        replica_id, *limits, tuple(topics), forgotten, rack_id, replica_epoch, cluster_id
    )
    return request, pos


_FLEXIBLE_PARTITION = _LAYOUTS[12].struct


def _read_topic(buf: Buffer, pos: int, by_id: bool) -> tuple[str, UUID | None, int]:
    if by_id:
        topic_id, pos = p.read_uuid(buf, pos)
        return "", topic_id, pos
    name, pos = p.read_compact_string(buf, pos)
    return name, None, pos


def _read_partition_tags(buf: Buffer, pos: int) -> tuple[UUID | None, int, int]:
    directory, high_watermark = None, NO_HIGH_WATERMARK
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            directory, _ = p.read_uuid(buf, pos)
        elif tag == 1:
            high_watermark, _ = p.read_int64(buf, pos)
        pos += size
    return directory, high_watermark, pos


def _read_forgotten_flexible(
    buf: Buffer, pos: int, by_id: bool
) -> tuple[tuple[ForgottenTopic, ...], int]:
    topic_count, pos = p.read_compact_count(buf, pos)
    forgotten = []
    for _ in range(topic_count):
        name, topic_id, pos = _read_topic(buf, pos, by_id)
        indexes, pos = _read_indexes_flexible(buf, pos)
        pos = p.skip_tags(buf, pos)
        forgotten.append(ForgottenTopic(name, topic_id, indexes))
    return tuple(forgotten), pos


_read_indexes_flexible = p.array_reader(p.read_int32, flexible=True, nullable=False)
_read_indexes_legacy = p.array_reader(p.read_int32, flexible=False, nullable=False)


def _decode_request_legacy(buf: Buffer, pos: int, version: int) -> tuple[FetchRequest, int]:
    layout = _LAYOUTS[version]
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
            numbers, pos = _read_partition(buf, pos, layout)
            partitions.append(FetchPartition(*numbers))
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
    return FetchRequest(replica_id, *limits, tuple(topics), tuple(forgotten), rack_id), pos


def encode_request(out: bytearray, request: FetchRequest, version: int) -> list[Buffer]:
    """Append the body to `out`; returns the buffers of the whole."""
    flexible = version >= FLEXIBLE_SINCE
    write_text = p.write_compact_string if flexible else p.write_string
    write_count = p.write_compact_count if flexible else p.write_count
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
    topic_count, pos = p.read_compact_count(buf, pos + _TOP.size)
    topics = []
    for _ in range(topic_count):
        name, topic_id, pos = _read_topic(buf, pos, by_id)
        count, pos = p.read_compact_count(buf, pos)
        partitions = []
        for _ in range(count):
            part, pos = _decode_result_flexible(buf, pos)
            partitions.append(part)
        pos = p.skip_tags(buf, pos)
        topics.append(FetchTopicResponse(name, topic_id, tuple(partitions)))
    endpoints, pos = read_node_endpoints(buf, pos)
    return FetchResponse(*top, tuple(topics), endpoints), pos


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
    part = FetchPartitionResponse(
        *numbers, aborted, preferred, _as_buffers(records), diverging, leader
    )
    return part, pos


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
            partitions.append(
                FetchPartitionResponse(*numbers, aborted, preferred, _as_buffers(records))
            )
        topics.append(FetchTopicResponse(name, None, tuple(partitions)))
    return FetchResponse(*top, tuple(topics)), pos


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
