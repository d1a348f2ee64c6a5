"""Code shared by the hand-written Produce and Fetch."""

from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.wire import primitives as p
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.produce import NodeEndpoint

P = TypeVar("P")
T = TypeVar("T")

_INT32 = p.INT32


def read_topic(buf: Buffer, pos: int, by_id: bool) -> tuple[str, UUID | None, int]:
    """(name, id, next position) of a topic in a flexible version of Produce or Fetch."""
    if by_id:
        topic_id, pos = p.read_uuid(buf, pos)
        return "", topic_id, pos
    name, pos = p.read_compact_string(buf, pos)
    return name, None, pos


def read_topics(
    buf: Buffer,
    pos: int,
    by_id: bool,
    read_partition: Callable[[Buffer, int], tuple[P, int]],
    topic_of: Callable[[str, UUID | None, tuple[P, ...]], T],
) -> tuple[tuple[T, ...], int]:
    """(topics, next position) of a Produce or Fetch response in a flexible version."""
    topic_count, pos = p.read_compact_count(buf, pos)
    topics = []
    for _ in range(topic_count):
        name, topic_id, pos = read_topic(buf, pos, by_id)
        count, pos = p.read_compact_count(buf, pos)
        partitions = []
        for _ in range(count):
            part, pos = read_partition(buf, pos)
            partitions.append(part)
        pos = p.skip_tags(buf, pos)
        topics.append(topic_of(name, topic_id, tuple(partitions)))
    return tuple(topics), pos


def slice_of(buf: Buffer, pos: int, size: int) -> tuple[memoryview | None, int]:
    """Nullable bytes of a known size, uncopied."""
    if size == -1:
        return None, pos
    end = pos + size
    if size < 0 or end > len(buf):
        raise CorruptData(f"{size} bytes of records in {len(buf) - pos} bytes")
    return buf[pos:end], end  # type: ignore[return-value]


def write_node_endpoints(out: bytearray, endpoints: Sequence[NodeEndpoint]) -> None:
    """The tagged section of a Produce or Fetch response that names new leaders (tag 0)."""
    body = bytearray()
    p.write_compact_count(body, len(endpoints))
    for node_id, host, port, rack in endpoints:
        body += _INT32.pack(node_id)
        p.write_compact_string(body, host)
        body += _INT32.pack(port)
        p.write_nullable_compact_string(body, rack)
        body.append(0)
    out += b"\x01\x00"
    p.write_varint(out, len(body))
    out += body


def read_node_endpoints(buf: Buffer, pos: int) -> tuple[tuple[NodeEndpoint, ...], int]:
    """The closing tagged section of a Produce or Fetch response."""
    endpoints: tuple[NodeEndpoint, ...] = ()
    tag_count, pos = p.read_varint(buf, pos)
    for _ in range(tag_count):
        tag, size, pos = p.read_tag(buf, pos)
        if tag == 0:
            endpoints = _read_endpoints(buf, pos)
        pos += size
    return endpoints, pos


def _read_endpoints(buf: Buffer, pos: int) -> tuple[NodeEndpoint, ...]:
    count, pos = p.read_compact_count(buf, pos)
    endpoints = []
    for _ in range(count):
        node_id = _INT32.unpack_from(buf, pos)[0]
        host, pos = p.read_compact_string(buf, pos + 4)
        port = _INT32.unpack_from(buf, pos)[0]
        rack, pos = p.read_nullable_compact_string(buf, pos + 4)
        pos = p.skip_tags(buf, pos)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return tuple(endpoints)
