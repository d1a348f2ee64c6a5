"""Kafka's primitive types: readers at a position of a buffer, writers to the end of a bytearray.

A reader takes (buffer, position) and returns (value, next position). Reads beyond the buffer and
invalid values raise CorruptData or one of `MALFORMED`; the codec turns all of them into
CorruptData. No reader allocates by a count or length that was not compared with the remaining
bytes. Strings and counts are read without a call to another reader: calls were most of the time of
a small request. Types: kafka.apache.org/protocol#protocol_types, KIP-482 for the compact ones.
"""

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any, TypeAlias
from uuid import UUID

from josefine_broker.base.errors import CorruptData, ErrorCode

Buffer: TypeAlias = bytes | bytearray | memoryview
Reader: TypeAlias = Callable[[Buffer, int], tuple[Any, int]]
Writer: TypeAlias = Callable[[bytearray, Any], None]

INT8 = Struct(">b")
INT16 = Struct(">h")
UINT16 = Struct(">H")
INT32 = Struct(">i")
INT64 = Struct(">q")
FLOAT64 = Struct(">d")

MALFORMED = (struct.error, IndexError, UnicodeDecodeError)
"""Errors of a reader at the end of a buffer, or for a string that is not UTF-8."""

STRING_BYTES_MAX = 2**15 - 1
"""In either form, as Kafka reads them: a compact string must also fit where lengths have two bytes,
an older client's answer or a record of the offsets topic."""

UUID_CACHE_MAX = 4096
"""Cached topic ids: parsing one costs a microsecond, and a consumer repeats them."""

_ZERO_ID = bytes(16)
_ERROR_CODES = {int(code): code for code in ErrorCode}


def read_int8(buf: Buffer, pos: int) -> tuple[int, int]:
    """A signed byte."""
    return INT8.unpack_from(buf, pos)[0], pos + 1


def read_int16(buf: Buffer, pos: int) -> tuple[int, int]:
    """Two bytes, signed."""
    return INT16.unpack_from(buf, pos)[0], pos + 2


def read_uint16(buf: Buffer, pos: int) -> tuple[int, int]:
    """Two bytes, not negative."""
    return UINT16.unpack_from(buf, pos)[0], pos + 2


def read_int32(buf: Buffer, pos: int) -> tuple[int, int]:
    """Four bytes, signed."""
    return INT32.unpack_from(buf, pos)[0], pos + 4


def read_int64(buf: Buffer, pos: int) -> tuple[int, int]:
    """Eight bytes, signed."""
    return INT64.unpack_from(buf, pos)[0], pos + 8


def read_float64(buf: Buffer, pos: int) -> tuple[float, int]:
    """Eight bytes, IEEE 754, including infinities and NaN."""
    return FLOAT64.unpack_from(buf, pos)[0], pos + 8


def read_bool(buf: Buffer, pos: int) -> tuple[bool, int]:
    """One byte; anything but zero is true."""
    return buf[pos] != 0, pos + 1


def read_error_code(buf: Buffer, pos: int) -> tuple[ErrorCode, int]:
    """An error code; an unknown one of a newer broker reads as unknown_server_error."""
    code = INT16.unpack_from(buf, pos)[0]
    return _ERROR_CODES.get(code, ErrorCode.unknown_server_error), pos + 2


def read_varint(buf: Buffer, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    byte = buf[pos]
    if byte < 0x80:
        return byte, pos + 1
    value = byte & 0x7F
    for shift in (7, 14, 21, 28):
        pos += 1
        byte = buf[pos]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos + 1
    raise CorruptData("unsigned varint longer than 32 bits")


@lru_cache(maxsize=UUID_CACHE_MAX)
def uuid_of(raw: bytes) -> UUID | None:
    """The UUID of 16 bytes; zero is Kafka's "none" (KIP-516)."""
    return None if raw == _ZERO_ID else UUID(bytes=raw)


def read_uuid(buf: Buffer, pos: int) -> tuple[UUID | None, int]:
    """Sixteen bytes; zero is None."""
    end = pos + 16
    if end > len(buf):
        raise CorruptData("buffer ends inside a UUID")
    return uuid_of(bytes(buf[pos:end])), end


def read_nullable_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    """A string after an int16 length; -1 is null."""
    size = INT16.unpack_from(buf, pos)[0]
    pos += 2
    end = pos + size
    if size < 0 or end > len(buf):
        if size == -1:
            return None, pos
        raise CorruptData(f"string of {size} bytes in {len(buf) - pos} bytes")
    return str(buf[pos:end], "utf-8"), end


def read_nullable_compact_string(buf: Buffer, pos: int) -> tuple[str | None, int]:
    """A string after its length plus one as a varint; zero is null."""
    size = buf[pos]
    pos += 1
    if size >= 0x80:
        size, pos = read_varint(buf, pos - 1)
        if size > STRING_BYTES_MAX + 1:
            raise CorruptData(f"string of {size - 1} bytes, {STRING_BYTES_MAX} at most")
    if size == 0:
        return None, pos
    end = pos + size - 1
    if end > len(buf):
        raise CorruptData(f"string of {size - 1} bytes in {len(buf) - pos} bytes")
    return str(buf[pos:end], "utf-8"), end


def read_string(buf: Buffer, pos: int) -> tuple[str, int]:
    """A string after an int16 length that is not null."""
    value, pos = read_nullable_string(buf, pos)
    if value is None:
        raise CorruptData("null where a string is required")
    return value, pos


def read_compact_string(buf: Buffer, pos: int) -> tuple[str, int]:
    """A string after its length plus one as a varint, not null."""
    value, pos = read_nullable_compact_string(buf, pos)
    if value is None:
        raise CorruptData("null where a string is required")
    return value, pos


def read_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """Bytes after an int32 length, copied."""
    size: int = INT32.unpack_from(buf, pos)[0]
    pos += 4
    end = pos + size
    if size < 0 or end > len(buf):
        raise CorruptData(f"{size} bytes in {len(buf) - pos} bytes")
    return bytes(buf[pos:end]), end


def read_compact_bytes(buf: Buffer, pos: int) -> tuple[bytes, int]:
    """Bytes after their length plus one as a varint, copied."""
    size, pos = read_varint(buf, pos)
    end = pos + size - 1
    if size == 0 or end > len(buf):
        raise CorruptData(f"{size - 1} bytes in {len(buf) - pos} bytes")
    return bytes(buf[pos:end]), end


def read_nullable_compact_bytes(buf: Buffer, pos: int) -> tuple[bytes | None, int]:
    """Bytes after their length plus one as a varint, copied; 0 is null."""
    if buf[pos] == 0:
        return None, pos + 1
    return read_compact_bytes(buf, pos)


def read_nullable_count(buf: Buffer, pos: int) -> tuple[int | None, int]:
    """Length of an array; every element is at least a byte, so a count above the rest is
    invalid."""
    count = INT32.unpack_from(buf, pos)[0]
    pos += 4
    if count == -1:
        return None, pos
    if not 0 <= count <= len(buf) - pos:
        raise CorruptData(f"array of {count} elements in {len(buf) - pos} bytes")
    return count, pos


def read_nullable_compact_count(buf: Buffer, pos: int) -> tuple[int | None, int]:
    """Length of a compact array, compared with the remaining bytes."""
    count, pos = read_varint(buf, pos)
    if count == 0:
        return None, pos
    if count - 1 > len(buf) - pos:
        raise CorruptData(f"array of {count - 1} elements in {len(buf) - pos} bytes")
    return count - 1, pos


def read_count(buf: Buffer, pos: int) -> tuple[int, int]:
    """Length of an array that is not null."""
    count: int = INT32.unpack_from(buf, pos)[0]
    pos += 4
    if not 0 <= count <= len(buf) - pos:
        raise CorruptData(f"array of {count} elements in {len(buf) - pos} bytes")
    return count, pos


def read_compact_count(buf: Buffer, pos: int) -> tuple[int, int]:
    """Length of a compact array that is not null."""
    count = buf[pos]
    pos += 1
    if count >= 0x80:
        count, pos = read_varint(buf, pos - 1)
    if not 0 < count <= len(buf) - pos + 1:
        raise CorruptData(f"array of {count - 1} elements in {len(buf) - pos} bytes")
    return count - 1, pos


def array_reader(item: Reader, *, flexible: bool, nullable: bool) -> Reader:
    """A reader of tuples of `item`."""
    read_length = read_nullable_compact_count if flexible else read_nullable_count

    def read(buf: Buffer, pos: int) -> tuple[tuple[Any, ...] | None, int]:
        count, pos = read_length(buf, pos)
        if count is None:
            if not nullable:
                raise CorruptData("null where an array is required")
            return None, pos
        items = []
        for _ in range(count):
            value, pos = item(buf, pos)
            items.append(value)
        return tuple(items), pos

    return read


def skip_tags(buf: Buffer, pos: int) -> int:
    """Skip a tagged section; KIP-482 obliges a reader to ignore unknown tags."""
    count = buf[pos]
    if count == 0:
        return pos + 1
    count, pos = read_varint(buf, pos)
    for _ in range(count):
        _, size, pos = read_tag(buf, pos)
        pos += size
    return pos


def read_tag(buf: Buffer, pos: int) -> tuple[int, int, int]:
    """(tag, size in bytes, position of its value), the value within the buffer."""
    tag, pos = read_varint(buf, pos)
    size, pos = read_varint(buf, pos)
    if size > len(buf) - pos:
        raise CorruptData("tagged field is longer than the bytes that remain")
    return tag, size, pos


def write_int8(out: bytearray, value: int) -> None:
    """A signed byte."""
    out += INT8.pack(value)


def write_int16(out: bytearray, value: int) -> None:
    """Two bytes, signed."""
    out += INT16.pack(value)


def write_uint16(out: bytearray, value: int) -> None:
    """Two bytes, not negative."""
    out += UINT16.pack(value)


def write_int32(out: bytearray, value: int) -> None:
    """Four bytes, signed."""
    out += INT32.pack(value)


def write_int64(out: bytearray, value: int) -> None:
    """Eight bytes, signed."""
    out += INT64.pack(value)


def write_float64(out: bytearray, value: float) -> None:
    """Eight bytes, IEEE 754."""
    out += FLOAT64.pack(value)


def write_bool(out: bytearray, value: bool) -> None:
    """One byte, zero or one."""
    out.append(1 if value else 0)


def varint(value: int) -> bytes:
    """The bytes of an unsigned varint."""
    if value < 0x80:
        return _SMALL_VARINTS[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


_SMALL_VARINTS = [bytes((value,)) for value in range(0x80)]


def write_varint(out: bytearray, value: int) -> None:
    """An unsigned varint."""
    out += varint(value)


def write_uuid(out: bytearray, value: UUID | None) -> None:
    """Sixteen bytes; None is zero."""
    out += _ZERO_ID if value is None else value.bytes


def write_nullable_string(out: bytearray, value: str | None) -> None:
    """A string after an int16 length; None is -1."""
    if value is None:
        out += b"\xff\xff"
        return
    raw = value.encode()
    out += INT16.pack(len(raw))
    out += raw


def write_nullable_compact_string(out: bytearray, value: str | None) -> None:
    """A string after its length plus one as a varint; None is zero."""
    if value is None:
        out.append(0)
        return
    raw = value.encode()
    out += varint(len(raw) + 1)
    out += raw


def write_string(out: bytearray, value: str | None) -> None:
    """A string that cannot be null: None, from a newer version where it can, becomes empty."""
    write_nullable_string(out, value or "")


def write_compact_string(out: bytearray, value: str | None) -> None:
    """Like `write_string`, with a varint length."""
    write_nullable_compact_string(out, value or "")


def write_bytes(out: bytearray, value: bytes) -> None:
    """Bytes after an int32 length."""
    out += INT32.pack(len(value))
    out += value


def write_compact_bytes(out: bytearray, value: bytes) -> None:
    """Bytes after their length plus one as a varint."""
    out += varint(len(value) + 1)
    out += value


def write_nullable_compact_bytes(out: bytearray, value: bytes | None) -> None:
    """Bytes after their length plus one as a varint; 0 is null."""
    if value is None:
        out.append(0)
    else:
        write_compact_bytes(out, value)


def write_count(out: bytearray, count: int) -> None:
    """Length of an array; -1 is null."""
    out += INT32.pack(count)


def write_compact_count(out: bytearray, count: int) -> None:
    """Length of a compact array; -1 is null."""
    out += varint(count + 1)


def array_writer(item: Writer, *, flexible: bool, nullable: bool) -> Writer:
    """A writer of sequences of `item`; None, where null is not allowed, becomes empty."""
    write_length = write_compact_count if flexible else write_count

    def write(out: bytearray, values: Sequence[Any] | None) -> None:
        if values is None:
            if nullable:
                write_length(out, -1)
            else:
                write_length(out, 0)
            return
        write_length(out, len(values))
        for value in values:
            item(out, value)

    return write
