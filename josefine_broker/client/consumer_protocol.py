"""The messages of group consumers to each other, opaque to the coordinator, and the assignors.

Rules: the bytes are Kafka's (ConsumerProtocolSubscription and ConsumerProtocolAssignment, written
in version 0, which every client reads; fields appended by later versions are skipped). Both
assignors are pure and give equal results for equal members in any order. A group's leader assigns
for members of other clients too.
"""

import struct
from collections.abc import Callable, Iterable, Mapping
from itertools import cycle
from struct import Struct
from typing import TypeVar

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import TopicPartition, by_topic

T = TypeVar("T")

CONSUMER = "consumer"
"""The protocol type of groups whose members are consumers."""
VERSION = 0
NO_USER_DATA = -1

_SHORT = Struct(">h")
_INT = Struct(">i")

Subscriptions = Mapping[str, Iterable[str]]
"""Member id → the topics it wants."""
Counts = Mapping[str, int]
"""Topic → number of partitions; 0 for a missing topic."""
Assignor = Callable[[Subscriptions, Counts], dict[str, list[TopicPartition]]]


def encode_subscription(topics: Iterable[str]) -> bytes:
    """ConsumerProtocolSubscription v0."""
    names = sorted(set(topics))
    parts = [_SHORT.pack(VERSION), _INT.pack(len(names)), *map(_text, names)]
    return b"".join((*parts, _INT.pack(NO_USER_DATA)))


def decode_subscription(data: bytes) -> tuple[str, ...]:
    """The topics of a subscription. Raises CorruptData."""
    try:
        topics, _ = _read_array(data, _SHORT.size, _read_text)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"subscription {data!r}: {error}") from error
    return tuple(topics)


def encode_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """ConsumerProtocolAssignment v0."""
    nested = by_topic(sorted(partitions))
    parts = [_SHORT.pack(VERSION), _INT.pack(len(nested))]
    for topic, numbers in nested.items():
        parts += [_text(topic), _INT.pack(len(numbers)), *map(_INT.pack, numbers)]
    return b"".join((*parts, _INT.pack(NO_USER_DATA)))


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """The partitions of an assignment; none for the empty one. Raises CorruptData."""
    if not data:
        return ()
    try:
        topics, _ = _read_array(data, _SHORT.size, _read_topic)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"assignment {data!r}: {error}") from error
    return tuple(tp for partitions in topics for tp in partitions)


def range_assignor(wanted: Subscriptions, counts: Counts) -> dict[str, list[TopicPartition]]:
    """Adjacent partitions of each topic, one more for the first members if it does not divide
    evenly.

    >>> range_assignor({"a": ["t"], "b": ["t"]}, {"t": 3})["a"]
    [TopicPartition(topic='t', partition=0), TopicPartition(topic='t', partition=1)]
    """
    given: dict[str, list[TopicPartition]] = {member: [] for member in wanted}
    for topic, readers in sorted(_readers(wanted).items()):
        each, more = divmod(counts.get(topic, 0), len(readers))
        first = 0
        for at, member in enumerate(readers):
            end = first + each + (at < more)
            given[member] += [TopicPartition(topic, number) for number in range(first, end)]
            first = end
    return given


def round_robin_assignor(wanted: Subscriptions, counts: Counts) -> dict[str, list[TopicPartition]]:
    """All partitions in order, one to each member in turn; members without the topic are
    skipped."""
    given: dict[str, list[TopicPartition]] = {member: [] for member in wanted}
    topics = {member: set(names) for member, names in wanted.items()}
    turns = cycle(sorted(wanted))
    for topic in sorted(_readers(wanted)):
        for number in range(counts.get(topic, 0)):
            member = next(each for each in turns if topic in topics[each])
            given[member].append(TopicPartition(topic, number))
    return given


ASSIGNORS: Mapping[str, Assignor] = {"range": range_assignor, "roundrobin": round_robin_assignor}
"""By the names that every client uses for them, the preferred one first."""


def _readers(wanted: Subscriptions) -> dict[str, list[str]]:
    """Topic → the members that want it, in order."""
    readers: dict[str, list[str]] = {}
    for member in sorted(wanted):
        for topic in set(wanted[member]):
            readers.setdefault(topic, []).append(member)
    return readers


def _text(text: str) -> bytes:
    data = text.encode()
    return _SHORT.pack(len(data)) + data


def _read_text(data: bytes, pos: int) -> tuple[str, int]:
    end = pos + _SHORT.size + _SHORT.unpack_from(data, pos)[0]
    if not pos + _SHORT.size <= end <= len(data):
        raise CorruptData(f"text at byte {pos} of {len(data)} ends at {end}")
    return data[pos + _SHORT.size : end].decode(), end


def _read_number(data: bytes, pos: int) -> tuple[int, int]:
    (number,) = _INT.unpack_from(data, pos)
    return number, pos + _INT.size


def _read_topic(data: bytes, pos: int) -> tuple[list[TopicPartition], int]:
    topic, pos = _read_text(data, pos)
    numbers, pos = _read_array(data, pos, _read_number)
    return [TopicPartition(topic, number) for number in numbers], pos


def _read_array(
    data: bytes, pos: int, read: Callable[[bytes, int], tuple[T, int]]
) -> tuple[list[T], int]:
    (count,) = _INT.unpack_from(data, pos)
    pos += _INT.size
    if not 0 <= count <= len(data) - pos:
        raise CorruptData(f"{count} elements in {len(data) - pos} bytes")
    found = []
    for _ in range(count):
        each, pos = read(data, pos)
        found.append(each)
    return found, pos
