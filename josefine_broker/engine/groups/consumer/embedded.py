"""The codec of the classic consumer protocol's embedded messages: subscription and assignment, for
classic members of a consumer-protocol group.

Rules: the bytes are Kafka's ConsumerProtocolSubscription (versions 0 to 3, later ones as far as
they are known) and ConsumerProtocolAssignment; both are written in version 0, which every client
reads. Bytes that cannot be parsed give None: they may be meant for other members.
"""

import struct
from collections.abc import Callable, Mapping
from struct import Struct
from typing import NamedTuple, TypeVar
from uuid import UUID

from josefine_broker.engine.groups.consumer.values import NO_PARTS, Part, Parts, by_topic
from josefine_broker.engine.metadata.image import TopicEntry

T = TypeVar("T")
VERSION = 0
OWNED_SINCE = 1
NO_USER_DATA = -1

_SHORT = Struct(">h")
_INT = Struct(">i")


class Subscription(NamedTuple):
    """The topics that a member reads, and the partitions that it owns, by name; empty if it does
    not report them, as a client that has given up everything."""

    topics: frozenset[str]
    owned: tuple[tuple[str, int], ...] = ()

    def parts(self, topics: Mapping[str, TopicEntry]) -> Parts:
        """The owned partitions of topics that exist."""
        return _parts(self.owned, topics)


def read_subscription(data: bytes) -> Subscription | None:
    """The subscription, or None.

    >>> read_subscription(bytes.fromhex("0001 00000001 0001 61 ffffffff 00000000"))
    Subscription(topics=frozenset({'a'}), owned=())
    """
    try:
        (version,) = _SHORT.unpack_from(data)
        names, pos = _read_array(data, _SHORT.size, _read_text)
        if version < OWNED_SINCE:
            return Subscription(frozenset(names))
        owned, _ = _read_array(data, _after_bytes(data, pos), _read_topic)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return Subscription(frozenset(names), tuple(part for each in owned for part in each))


def read_assignment(data: bytes, topics: Mapping[str, TopicEntry]) -> Parts | None:
    """The partitions of topics that exist; none for empty bytes."""
    if not data:
        return NO_PARTS
    try:
        found, _ = _read_array(data, _SHORT.size, _read_topic)
    except (struct.error, UnicodeDecodeError, ValueError):
        return None
    return _parts(tuple(part for each in found for part in each), topics)


def write_assignment(parts: Parts, names: Mapping[UUID, str]) -> bytes:
    """An assignment with the topics that are in `names`."""
    topics = [(names[topic_id], at) for topic_id, at in by_topic(parts) if topic_id in names]
    out = bytearray(_SHORT.pack(VERSION) + _INT.pack(len(topics)))
    for name, indexes in sorted(topics):
        text = name.encode()
        out += _SHORT.pack(len(text)) + text + _INT.pack(len(indexes))
        for index in indexes:
            out += _INT.pack(index)
    return bytes(out + _INT.pack(NO_USER_DATA))


def write_subscription(topics: frozenset[str]) -> bytes:
    """A subscription of version 0."""
    out = bytearray(_SHORT.pack(VERSION) + _INT.pack(len(topics)))
    for name in sorted(topics):
        text = name.encode()
        out += _SHORT.pack(len(text)) + text
    return bytes(out + _INT.pack(NO_USER_DATA))


def _parts(found: tuple[tuple[str, int], ...], topics: Mapping[str, TopicEntry]) -> Parts:
    """Partitions that do not exist are left out: a client may know topics that were deleted."""
    return frozenset(
        Part(topics[name].topic_id, index)
        for name, index in found
        if name in topics and 0 <= index < len(topics[name].partitions)
    )


def _after_bytes(data: bytes, pos: int) -> int:
    """The position after a nullable BYTES, whose length of null is -1."""
    size: int = _INT.unpack_from(data, pos)[0]
    return pos + _INT.size + max(size, 0)


def _read_text(data: bytes, pos: int) -> tuple[str, int]:
    """Raises ValueError, as everything here: the caller turns it into None."""
    end = pos + _SHORT.size + _SHORT.unpack_from(data, pos)[0]
    if not pos + _SHORT.size <= end <= len(data):
        raise ValueError(end)
    return data[pos + _SHORT.size : end].decode(), end


def _read_number(data: bytes, pos: int) -> tuple[int, int]:
    (number,) = _INT.unpack_from(data, pos)
    return number, pos + _INT.size


def _read_topic(data: bytes, pos: int) -> tuple[list[tuple[str, int]], int]:
    """One topic with its partitions."""
    name, pos = _read_text(data, pos)
    numbers, pos = _read_array(data, pos, _read_number)
    return [(name, number) for number in numbers], pos


def _read_array(
    data: bytes, pos: int, read: Callable[[bytes, int], tuple[T, int]]
) -> tuple[list[T], int]:
    """A count of four bytes and so many elements."""
    (count,) = _INT.unpack_from(data, pos)
    pos += _INT.size
    # Each element has a byte at least: a count from a broken client must not allocate gigabytes.
    if not 0 <= count <= len(data) - pos:
        raise ValueError(count)
    found = []
    for _ in range(count):
        each, pos = read(data, pos)
        found.append(each)
    return found, pos
