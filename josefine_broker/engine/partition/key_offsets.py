"""An offset map: the newest offset of each key, in memory of a fixed size.

Rules: a key is its 16-byte BLAKE2b hash (a collision needs 2**64 tries; Kafka's MD5 can be attacked
on purpose). An entry is 24 bytes: hash and offset. At most `LOAD_MAX` of the slots are used,
because searching for a free slot gets slow above that. A dict with the same content would take 150
bytes per key and be 0.7 us faster.
"""

from __future__ import annotations

import mmap
from hashlib import blake2b
from struct import Struct

HASH_BYTES = 16
_ENTRY = Struct("<16sq")
_OFFSET = Struct("<q")
ENTRY_BYTES = _ENTRY.size
LOAD_MAX = 0.75
"""At this load an absent key costs 8 probes."""

NOT_FOUND = -1
_FREE = bytes(HASH_BYTES)
_HASH = blake2b(digest_size=HASH_BYTES)


class KeyOffsets:
    """Open-addressing hash table in an anonymous mapping, whose pages are used on first write.
    `close` frees it."""

    __slots__ = ("_bytes", "_slots", "_table", "count", "count_max")

    def __init__(self, bytes_max: int, keys_max: int) -> None:
        """Room for `keys_max` keys, or for as many as fit `bytes_max`."""
        wanted = int(keys_max / LOAD_MAX) + 2
        self._slots = max(2, min(wanted, bytes_max // ENTRY_BYTES))
        self._bytes = self._slots * ENTRY_BYTES
        self._table = mmap.mmap(-1, self._bytes)
        self.count = 0
        """Number of keys in the table."""
        self.count_max = int(self._slots * LOAD_MAX)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def put(self, key: bytes, offset: int) -> None:
        """Set the key's newest offset; the caller checks `count_max` first."""
        digest = _digest(key)
        position, found = self._place_of(digest)
        if found == _FREE:
            assert self.count < self.count_max, "no room: look at count_max before"
            self.count += 1
        _ENTRY.pack_into(self._table, position, digest, offset)

    def get(self, key: bytes) -> int:
        """The key's newest offset, or NOT_FOUND."""
        position, found = self._place_of(_digest(key))
        if found == _FREE:
            return NOT_FOUND
        return int(_OFFSET.unpack_from(self._table, position + HASH_BYTES)[0])

    def _place_of(self, digest: bytes) -> tuple[int, bytes]:
        """The slot of the hash, or the free slot where it belongs, and what the slot holds."""
        table, end = self._table, self._bytes
        position = int.from_bytes(digest[:6], "little") % self._slots * ENTRY_BYTES
        while True:
            found = table[position : position + HASH_BYTES]
            if found in (digest, _FREE):
                return position, found
            position += ENTRY_BYTES
            if position == end:
                position = 0

    def close(self) -> None:
        self._table.close()


def _digest(key: bytes) -> bytes:
    digest = _HASH.copy()
    digest.update(key)
    return digest.digest()
