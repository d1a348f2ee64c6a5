"""Confluent's framing of a value: a zero byte, the schema id in four bytes, then the data. For
Protobuf, the indexes of the message in its schema are between id and data.

Source: "Wire format" of Confluent's Schema Registry documentation.
"""

from __future__ import annotations

_MAGIC = 0
HEADER_BYTES = 5
FIRST = b"\0"
"""The short form of the indexes: the first message of a schema."""
_INDEXES_MAX, _VARINT_BYTES_MAX = 16, 5
OFFLINE = 0
"""The schema id of the file's own schema, for inline records of the file."""
OWN = ""
"""In place of a registry's address: records have the file's own schema, by the id OFFLINE."""


class FramingError(ValueError):
    """Why bytes are not framed; the reason of a dead letter."""


def split(data: bytes) -> tuple[int, bytes]:
    """(schema id, the data after the header). Raises FramingError."""
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
    """(the path of indexes to a message in the schema's file, the data after them).

    Encoded as zigzag varints: the count, then each index; a single 0 means the first message.
    Raises FramingError.
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
