"""The hash of a set of records, the same in each language: one of the readers in this folder each.

Of each record the first eight bytes of SHA-256 over partition, offset, timestamp in ms, key, value
and headers, big endian, a null with the length -1; the sum of all, modulo 2^64. It is of any
order, so that tasks can add up their parts; a record that is lost, doubled or changed changes it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass

_PLACE = struct.Struct(">iqq")
_LENGTH = struct.Struct(">i")
_NULL = _LENGTH.pack(-1)
_MODULUS = 1 << 64

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(slots=True)
class Sum:
    """Mutable. `disorder`: records at or before the offset of the one before them."""

    count: int = 0
    disorder: int = 0
    total: int = 0

    def add(
        self,
        partition: int,
        offset: int,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
    ) -> None:
        parts = [_PLACE.pack(partition, offset, timestamp_ms), *_sized(key), *_sized(value)]
        parts.append(_LENGTH.pack(len(headers)))
        for name, each in headers:
            parts += [*_sized(name.encode()), *_sized(each)]
        found = hashlib.sha256(b"".join(parts)).digest()
        self.total = (self.total + int.from_bytes(found[:8], "big")) % _MODULUS
        self.count += 1

    def to_json(self) -> dict[str, int | str]:
        """As the readers in other languages print it."""
        said = asdict(self)
        return {**said, "hash": f"{said.pop('total'):016x}"}


def _sized(value: bytes | None) -> tuple[bytes, ...]:
    return (_NULL,) if value is None else (_LENGTH.pack(len(value)), value)
