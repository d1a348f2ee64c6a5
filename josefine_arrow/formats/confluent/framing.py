"""Confluent's framing of a value: a zero, the number of its schema in four bytes, then the data; of
Protobuf in between which message of the schema it is.

Source: "Wire format" of Confluent's Schema Registry documentation.
"""

from __future__ import annotations

_MAGIC = 0
HEADER_BYTES = 5
FIRST = b"\0"
"""In place of the indexes: the first message of a schema."""
_INDEXES_MAX, _VARINT_BYTES_MAX = 16, 5
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


def indexes(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """(which message of a schema's file, and which of those within it, the data behind them).

    How many there are, then each, as zigzag varints; a lone 0 says the first. Raises FramingError.
    """
    many, data = _varint(data)
    if not 0 <= many <= _INDEXES_MAX:
        raise FramingError(f"names a message by {many} indexes")
    found = []
    for _ in range(many):
        index, data = _varint(data)
        if index < 0:
            raise FramingError(f"names message {index} of its schema")
        found.append(index)
    return tuple(found) or (0,), data


def _varint(data: bytes) -> tuple[int, bytes]:
    value = 0
    for at, byte in enumerate(data[:_VARINT_BYTES_MAX]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), data[at + 1 :]
    raise FramingError("ends within the indexes of its message")
