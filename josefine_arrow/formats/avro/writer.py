"""Avro writer: JSON values to the binary encoding, for field defaults and a file's test records.

Times are texts such as 2026-01-01T00:00:00Z or numbers in the unit of the type, decimals are
numbers or texts, a uuid is a text; other bytes are a text of code points, as in Avro's JSON
encoding.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any
from uuid import UUID

from josefine_arrow.formats.avro.schema import Field, Type, bare

_EXACT = Context(prec=100)
"""Python's own has 28 digits, and a DECIMAL up to 38."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class UnfitError(ValueError):
    """Why a value does not fit its type."""


def encoded(kind: Type, value: Any, path: str = "") -> bytes:
    """The bytes of one value. Raises UnfitError."""
    match kind.kind:
        case "union":
            return _union(kind, value, path)
        case "record":
            return _record(kind, value, path)
        case "null" if value is None:
            return b""
        case "boolean" if isinstance(value, bool):
            return bytes([value])
        case "int" | "long":
            return _varint(_number(kind, value, path))
        case "float" | "double" if isinstance(value, (int, float)) and not isinstance(value, bool):
            return _packed(kind, value, path)
        case "string" if isinstance(value, str):
            return _sized(value.encode())
        case "bytes" | "fixed" if kind.logical == "decimal" or isinstance(value, str):
            return _bytes(kind, value, path)
        case "enum" if value in kind.symbols:
            return _varint(kind.symbols.index(value))
        case "array" if isinstance(value, list) and kind.items is not None:
            items = b"".join(encoded(kind.items, each, f"{path}[]") for each in value)
            # A count of 0 ends the array, so an empty one is the end marker alone.
            return (_varint(len(value)) + items if value else b"") + b"\0"
        case "map" if isinstance(value, dict) and kind.items is not None:
            items = b"".join(
                _sized(name.encode()) + encoded(kind.items, each, f"{path}[]")
                for name, each in value.items()
            )
            return (_varint(len(value)) + items if value else b"") + b"\0"
    raise _unfit(kind, value, path)


def _union(kind: Type, value: Any, path: str) -> bytes:
    for index, branch in enumerate(kind.branches):
        try:
            return _varint(index) + encoded(branch, value, path)
        except UnfitError:
            continue
    raise _unfit(kind, value, path)


def _record(kind: Type, value: Any, path: str) -> bytes:
    if not isinstance(value, dict):
        raise _unfit(kind, value, path)
    unknown = sorted(value.keys() - {each.name for each in kind.fields})
    if unknown:
        raise UnfitError(f"no field `{unknown[0]}`")
    data = b""
    for each in kind.fields:
        below = f"{path}.{each.name}" if path else each.name
        if each.name in value:
            data += encoded(each.type, value[each.name], below)
        else:
            data += _omitted(each, below)
    return data


def _omitted(field: Field, path: str) -> bytes:
    if field.has_default:
        return encoded(bare(field.type), field.default, path)
    try:
        return encoded(field.type, None, path)
    except UnfitError as error:
        raise UnfitError(f"field `{path}` is missing") from error


def _number(kind: Type, value: Any, path: str) -> int:
    if isinstance(value, str) and kind.logical:
        try:
            return _counted(kind, value)
        except ValueError as error:
            raise _unfit(kind, value, path) from error
    bound = 2**31 if kind.kind == "int" else 2**63
    if isinstance(value, int) and not isinstance(value, bool) and -bound <= value < bound:
        return value
    raise _unfit(kind, value, path)


def _counted(kind: Type, text: str) -> int:
    if kind.logical == "date":
        return (date.fromisoformat(text) - _EPOCH.date()).days
    at = datetime.fromisoformat(text)
    since = (at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return micros // 1000 if kind.logical.endswith("millis") else micros


def _packed(kind: Type, value: float, path: str) -> bytes:
    try:
        return struct.pack("<f" if kind.kind == "float" else "<d", value)
    except OverflowError as error:
        raise _unfit(kind, value, path) from error


def _bytes(kind: Type, value: Any, path: str) -> bytes:
    try:
        if kind.logical == "decimal":
            return _decimal(kind, value, path)
        data = UUID(value).bytes if kind.logical == "uuid" else str(value).encode("latin-1")
    except (ValueError, ArithmeticError) as error:
        raise _unfit(kind, value, path) from error
    if kind.kind == "bytes":
        return _sized(data)
    if len(data) != kind.size:
        raise _unfit(kind, value, path)
    return data


def _decimal(kind: Type, value: Any, path: str) -> bytes:
    unscaled = Decimal(str(value)).scaleb(kind.scale, _EXACT)
    whole = int(unscaled)
    if whole != unscaled:
        raise _unfit(kind, value, path)
    if kind.kind == "fixed":
        return whole.to_bytes(kind.size, "big", signed=True)
    return _sized(whole.to_bytes(whole.bit_length() // 8 + 1, "big", signed=True))


def _varint(value: int) -> bytes:
    left = (value << 1) ^ (value >> 63)
    data = bytearray()
    while left > 0x7F:
        data.append(left & 0x7F | 0x80)
        left >>= 7
    data.append(left)
    return bytes(data)


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _unfit(kind: Type, value: Any, path: str) -> UnfitError:
    where = f"field `{path}`: " if path else ""
    return UnfitError(f"{where}{str(value)[:40]!r} is no {kind.logical or kind.kind}")
