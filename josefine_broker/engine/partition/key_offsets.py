"""The newest offset of each key, in memory that is bounded beforehand: Kafka's offset map.

Rules: a key is its 16-byte BLAKE2b hash (two keys of one hash would need 2**64 tries; Kafka's MD5
gives way to anybody who wants to), an entry has 24 bytes, hash and offset; of the room at most
`LOAD_MAX` is used, for the search of a free place gets long behind that. A dict of the same would
take 150 bytes a key and 0.7 us less.
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
"""A key that is not there then costs 8 looks."""

NOT_FOUND = -1
_FREE = bytes(HASH_BYTES)
_HASH = blake2b(digest_size=HASH_BYTES)


class KeyOffsets:
    """See the module. `close` gives the memory back; it is not touched before it is used."""

    __slots__ = ("_bytes", "_slots", "_table", "count", "count_max")

    def __init__(self, bytes_max: int, keys_max: int) -> None:
        """Room for `keys_max` keys, or for as many as fit `bytes_max`."""
        wanted = int(keys_max / LOAD_MAX) + 2
        self._slots = max(2, min(wanted, bytes_max // ENTRY_BYTES))
        self._bytes = self._slots * ENTRY_BYTES
        self._table = mmap.mmap(-1, self._bytes)
        self.count = 0
        """Keys in it."""
        self.count_max = int(self._slots * LOAD_MAX)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def put(self, key: bytes, offset: int) -> None:
        """The key's newest record so far; the caller sees to it that there is room."""
        digest = _digest(key)
        position, found = self._place_of(digest)
        if found == _FREE:
            assert self.count < self.count_max, "no room: look at count_max before"
            self.count += 1
        _ENTRY.pack_into(self._table, position, digest, offset)

    def get(self, key: bytes) -> int:
        """The key's newest offset; NOT_FOUND."""
        position, found = self._place_of(_digest(key))
        if found == _FREE:
            return NOT_FOUND
        return int(_OFFSET.unpack_from(self._table, position + HASH_BYTES)[0])

    def _place_of(self, digest: bytes) -> tuple[int, bytes]:
        """Where the hash is, or where it belongs, and what is there."""
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
