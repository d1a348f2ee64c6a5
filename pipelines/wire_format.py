"""Confluent's framing of a value: a zero, the number of its schema in four bytes, then the data.

Source: "Wire format" of Confluent's Schema Registry documentation.
"""

from __future__ import annotations

_MAGIC = 0
HEADER_BYTES = 5
OFFLINE = 0
"""The number of the file's own schema, of records that are in the file itself."""


class FramingError(ValueError):
    """Why bytes are not framed, in words for a dead letter."""


def split(data: bytes) -> tuple[int, bytes]:
    """(number of the schema, the data behind the header). Raises FramingError."""
    if not data:
        raise FramingError("no bytes, expected a schema's number")
    if data[0] != _MAGIC:
        raise FramingError(f"begins with {data[0]:#04x}, expected 0x00 and a schema's number")
    if len(data) < HEADER_BYTES:
        raise FramingError(f"ends within the schema's number: {len(data)} of {HEADER_BYTES} bytes")
    return int.from_bytes(data[1:HEADER_BYTES], "big"), data[HEADER_BYTES:]


def framed(schema_id: int, data: bytes) -> bytes:
    """The reverse of `split`."""
    return bytes([_MAGIC]) + schema_id.to_bytes(HEADER_BYTES - 1, "big") + data
