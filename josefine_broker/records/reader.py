"""Reader of single records in one batch, for the code that needs them: offsets by timestamp,
coordinators' topics, the journal, tests. Never on the broker's produce or fetch path.

Every length is checked against the present bytes: bad input raises CorruptData only.
"""

from collections.abc import Iterator

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.limits import DECOMPRESSED_BYTES_MAX
from josefine_broker.records.batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    check_shape,
    parse_header,
)
from josefine_broker.records.builder import Record
from josefine_broker.records.compression import decompress
from josefine_broker.records.crc import Buffer

__all__ = ["Record", "read_records", "read_varint"]

_NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()


def read_records(batch: Buffer, *, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> Iterator[Record]:
    """The records of the batch at the start of `batch` (later bytes are ignored).

    Offsets and timestamps are absolute; control batches are read like any other. The checksum is
    not verified here: `records.batch.verify` does. Raises CorruptData, also beyond `bytes_max` of
    decompressed records.
    """
    header = parse_header(batch)
    check_shape(batch, 0, header)
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    data = decompress(header.compression, packed, bytes_max=bytes_max)
    fixed_ms = header.max_timestamp_ms if header.timestamp_type == LOG_APPEND_TIME else None
    body = bytes(data)
    pos = 0
    try:
        for _ in range(header.record_count):
            size, pos = read_varint(body, pos)
            end = pos + size
            if size < 0 or end > len(body):
                raise CorruptData(f"record of {size} bytes, {len(body) - pos} are there")
            record = _record(body, pos, end, header.base_offset, header.base_timestamp_ms)
            pos = end
            yield record if fixed_ms is None else record._replace(timestamp_ms=fixed_ms)
    except IndexError as error:
        raise CorruptData(f"batch at offset {header.base_offset}: {error}") from error
    if pos != len(body):
        raise CorruptData(f"{len(body) - pos} bytes after the last of {header.record_count}")


def _record(body: bytes, pos: int, end: int, base_offset: int, base_timestamp_ms: int) -> Record:
    timestamp_delta, pos = read_varint(body, pos + 1)
    offset_delta, pos = read_varint(body, pos)
    key, pos = _bytes(body, pos, end)
    value, pos = _bytes(body, pos, end)
    count, pos = read_varint(body, pos)
    headers, pos = _headers(body, pos, end, count) if count else (_NO_HEADERS, pos)
    if pos != end:
        raise CorruptData(f"record of offset delta {offset_delta} is {end - pos} bytes too long")
    return Record(
        key, value, headers, base_timestamp_ms + timestamp_delta, base_offset + offset_delta
    )


def _headers(
    body: bytes, pos: int, end: int, count: int
) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    if not 0 <= count <= end - pos:
        raise CorruptData(f"{count} headers in {end - pos} bytes")
    headers = []
    for _ in range(count):
        name, pos = _bytes(body, pos, end)
        if name is None:
            raise CorruptData("a record header without a name")
        value, pos = _bytes(body, pos, end)
        # A broker stores names that are not UTF-8, and Java's client reads them like this.
        headers.append((name.decode(errors="replace"), value))
    return tuple(headers), pos


def _bytes(body: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    size, pos = read_varint(body, pos)
    if size == -1:
        return None, pos
    if size < 0 or size > end - pos:
        raise CorruptData(f"a field of {size} bytes, {end - pos} are there")
    return body[pos : pos + size], pos + size


def read_varint(body: Buffer, pos: int) -> tuple[int, int]:
    """A zig-zag varint; IndexError past the end of `body`."""
    byte = body[pos]
    pos += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), pos
    n, shift = byte & 0x7F, 7
    while True:
        byte = body[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 128:
            return (n >> 1) ^ -(n & 1), pos
        shift += 7
        if shift > 63:
            raise CorruptData("a varint of more than ten bytes")
