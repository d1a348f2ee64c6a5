"""The bytes that a waiting consumer fetch still lacks, counted as in Kafka's DelayedFetch.

Rules: a partition counts for at most the bytes that its answer may hold, so a partition whose next
batch does not fit counts as full; a fetch never waits for more than all of its partitions may hold;
a fetch that read nothing is not full, whatever the offsets are (a cleaner may leave gaps): it would
be answered empty at once, and the client would repeat it in a busy loop.
"""

from typing import NamedTuple

from josefine_broker.engine.purgatory.purgatory import PartitionKey


class Readable(NamedTuple):
    """One partition that a fetch has read."""

    key: PartitionKey
    size_bytes: int
    """Bytes that were read,"""
    max_bytes: int
    """out of this limit."""
    has_more: bool
    """Whether more batches follow: the next one did not fit."""
    visible_bytes: int
    """All bytes that ever became visible to this reader."""


class MissingBytes:
    """A countdown of the bytes that a fetch waits for."""

    __slots__ = ("_missing", "_room", "_seen")

    def __init__(self, wanted_bytes: int, partitions: list[Readable]) -> None:
        """`wanted_bytes`: the fetch's `min_bytes`, limited to what the whole answer may hold."""
        self._seen: dict[PartitionKey, int] = {}
        self._room: dict[PartitionKey, int] = {}
        fitting = read = held_back = 0
        for key, size_bytes, max_bytes, has_more, visible_bytes in partitions:
            fitting += max_bytes
            read += size_bytes
            self._seen[key] = visible_bytes
            # A partition whose limit is 0 bytes still gets its first batch (KIP-74).
            self._room[key] = room = max_bytes - size_bytes if max_bytes > size_bytes else 1
            if has_more:
                held_back += room
                self._room[key] = 0
        if held_back and not read:  # a gap in the offsets: nothing is full
            self._room = {each.key: max(1, each.max_bytes) for each in partitions}
            held_back = 0
        self._missing = max(1, min(wanted_bytes, fitting)) - read - held_back

    @property
    def keys(self) -> tuple[PartitionKey, ...]:
        return tuple(self._seen)

    @property
    def is_enough(self) -> bool:
        return self._missing <= 0

    def grew(self, key: PartitionKey, visible_bytes: int) -> bool:
        """`visible_bytes` of a partition are visible now; returns whether that is enough."""
        gain = min(visible_bytes - self._seen[key], self._room[key])
        self._seen[key] = visible_bytes
        self._room[key] -= gain
        self._missing -= gain
        return self.is_enough
