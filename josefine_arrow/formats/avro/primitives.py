"""Decoders of Avro's primitive types (numbers, texts, bytes), with checks.

Source: Apache Avro 1.12 specification, "Binary encoding" and "Logical Types". Errors that other
libraries ignore are reported: an int of more than 32 bits, a boolean that is neither 0 nor 1, a
decimal of more digits than its type has.

Values: times are microseconds and dates days since 1970, decimals Decimal, a uuid a text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from josefine_arrow.formats.avro.schema import Type

Read = Callable[[bytes, int], tuple[Any, int]]
"""(data, start of a value) → (the value, its end). Raises IndexError or struct.error if the data
end too early."""

_VARINT_BYTES_MAX = 10
_EXACT = Context(prec=60)


class AvroError(ValueError):
    """Why bytes are no valid record, or two schemas do not match; the reason of a dead letter."""


def subject(path: str) -> str:
    """The subject of an error: a field, or the record itself."""
    return f"field `{path}`" if path else "the record"


def plain(writer: Type, reader: Type, path: str) -> Read:
    """The decoder of a primitive type, which converts to the matching type of the reader schema."""
    return _converted(_PLAIN[writer.kind](writer, path), writer, reader, path)


def long_at(data: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint, seven bits per byte."""
    byte = data[at]
    at += 1
    value, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift >= 7 * _VARINT_BYTES_MAX:
            raise AvroError(f"a number of more than {_VARINT_BYTES_MAX} bytes")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at


def _numbers(writer: Type, path: str) -> Read:
    low, high = (-(2**31), 2**31) if writer.kind == "int" else (-(2**63), 2**63)

    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = long_at(data, at)
        if not low <= value < high:
            raise AvroError(f"{subject(path)}: {value} is no {writer.kind}")
        return value, at

    return read


def _packed(code: str, size: int) -> Callable[[Type, str], Read]:
    unpack = struct.Struct(code).unpack_from

    def make(writer: Type, path: str) -> Read:
        return lambda data, at: (unpack(data, at)[0], at + size)

    return make


def _booleans(writer: Type, path: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        if data[at] > 1:
            raise AvroError(f"{subject(path)}: {data[at]:#04x} is no boolean")
        return data[at] == 1, at + 1

    return read


def _nulls(writer: Type, path: str) -> Read:
    return lambda data, at: (None, at)


def _bytes(writer: Type, path: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        size, at = long_at(data, at)
        if not 0 <= size <= len(data) - at:
            raise AvroError(f"{subject(path)}: {size} bytes where {len(data) - at} are left")
        return data[at : at + size], at + size

    return read


def texts(path: str) -> Read:
    """Decoder of a string or of a map's keys."""
    return _as_text(_bytes(Type(kind="string"), path), path)


def _texts(writer: Type, path: str) -> Read:
    return texts(path)


def _as_text(inner: Read, path: str) -> Read:
    def read(data: bytes, at: int) -> tuple[Any, int]:
        value, at = inner(data, at)
        try:
            return value.decode("utf-8"), at
        except UnicodeDecodeError as error:
            raise AvroError(f"{subject(path)}: not UTF-8 text") from error

    return read


def _fixed(writer: Type, path: str) -> Read:
    size = writer.size

    def read(data: bytes, at: int) -> tuple[Any, int]:
        if size > len(data) - at:
            raise AvroError(f"{subject(path)}: {size} bytes where {len(data) - at} are left")
        return data[at : at + size], at + size

    return read


_PLAIN: dict[str, Callable[[Type, str], Read]] = {
    "null": _nulls,
    "boolean": _booleans,
    "int": _numbers,
    "long": _numbers,
    "float": _packed("<f", 4),
    "double": _packed("<d", 8),
    "bytes": _bytes,
    "string": _texts,
    "fixed": _fixed,
}


def _converted(read: Read, writer: Type, reader: Type, path: str) -> Read:
    """Convert a value of one kind to another kind, or to its logical type."""
    if reader.logical == "decimal":
        return _mapped(read, lambda value: _decimal(value, reader, path))
    if "timestamp" in reader.logical:
        # In the writer's unit; a writer without a unit used the reader's.
        unit = writer.logical or reader.logical
        in_millis = unit.endswith("-millis")
        return _mapped(read, lambda value: _micros(value, path)) if in_millis else read
    if reader.logical == "uuid" and writer.kind == "fixed":
        return _mapped(read, lambda value: str(UUID(bytes=value)))
    if writer.kind == reader.kind:
        return read
    if reader.kind in ("float", "double"):
        return _mapped(read, float)
    if reader.kind == "string":
        return _as_text(read, path)
    if reader.kind == "bytes":
        return _mapped(read, lambda value: value.encode())
    return read


def _mapped(read: Read, change: Callable[[Any], Any]) -> Read:
    def changed(data: bytes, at: int) -> tuple[Any, int]:
        value, at = read(data, at)
        return change(value), at

    return changed


def _micros(value: int, path: str) -> int:
    if not -(2**63) <= value * 1000 < 2**63:
        raise AvroError(f"{subject(path)}: {value} ms are no TIMESTAMP")
    return value * 1000


def _decimal(value: bytes, reader: Type, path: str) -> Decimal:
    unscaled = int.from_bytes(value, "big", signed=True)
    if abs(unscaled) >= 10**reader.digits:
        raise AvroError(f"{subject(path)}: more than {reader.digits} digits")
    return Decimal(unscaled).scaleb(-reader.scale, _EXACT)
