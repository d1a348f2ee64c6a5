"""The record batches that came from archives, until readers have taken them.

Rules: a chunk has the records of a range of offsets, possibly none (a gap); a reader gets whole
batches from the one with its offset on. The oldest chunks go once all are larger than the bound,
and each after a while: the archive may have lost or erased its records. Time is an argument.
"""

from collections import OrderedDict
from typing import NamedTuple
from uuid import UUID

from josefine_broker.records.batch import iter_batches

BYTES_MAX = 64 << 20
OVERHEAD_BYTES = 256
KEPT_MS = 30_000
"""How long a chunk counts."""
Place = tuple[UUID, int]
"""A topic's id and a partition."""


class Chunk(NamedTuple):
    """The batches of the offsets [first, next_offset)."""

    first: int
    next_offset: int
    data: memoryview
    until_ms: int
    """From then on it is asked for again."""


class Chunks:
    """See the module. Mutable."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._chunks: OrderedDict[tuple[Place, int], Chunk] = OrderedDict()
        self._firsts: dict[Place, list[int]] = {}
        self.size_bytes = 0

    def add(self, place: Place, chunk: Chunk) -> None:
        """Keep a chunk; another one with the same first offset is replaced."""
        key = place, chunk.first
        self._drop(key)
        self._chunks[key] = chunk
        self._firsts.setdefault(place, []).append(chunk.first)
        self.size_bytes += len(chunk.data) + OVERHEAD_BYTES
        while self.size_bytes > self._bytes_max and len(self._chunks) > 1:
            self._drop(next(iter(self._chunks)))

    def find(self, place: Place, offset: int, now_ms: int) -> Chunk | None:
        """The chunk whose range has this offset."""
        for first in tuple(self._firsts.get(place, ())):
            key = place, first
            chunk = self._chunks[key]
            if now_ms >= chunk.until_ms:
                self._drop(key)
            elif first <= offset < chunk.next_offset:
                self._chunks.move_to_end(key)
                return chunk
        return None

    def _drop(self, key: tuple[Place, int]) -> None:
        chunk = self._chunks.pop(key, None)
        if chunk is None:
            return
        place, first = key
        self._firsts[place].remove(first)
        if not self._firsts[place]:
            del self._firsts[place]
        self.size_bytes -= len(chunk.data) + OVERHEAD_BYTES


def taken(chunk: Chunk, offset: int, bytes_max: int) -> memoryview:
    """The batches from the one with `offset` on, of `bytes_max` bytes or less; at least one if
    there is any."""
    begin = end = -1
    for pos, header in iter_batches(chunk.data):
        if header.end_offset <= offset:
            continue
        if begin < 0:
            begin = pos
        elif pos + header.size_bytes - begin > bytes_max:
            break
        end = pos + header.size_bytes
    return chunk.data[begin:end] if begin >= 0 else chunk.data[:0]
