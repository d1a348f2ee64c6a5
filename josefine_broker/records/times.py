"""Offset and timestamp of each record of a batch, for lookups by timestamp.

Keys and values are skipped, not copied, and compressed data is decompressed only as far as it is
read: a lookup holds a piece of a batch, not all of it. Every length is checked against the present
bytes: bad input raises CorruptData only.
"""

from collections.abc import Iterator

from josefine_broker.base.errors import CorruptData
from josefine_broker.records.batch import HEADER_BYTES, check_shape, parse_header
from josefine_broker.records.compression import Compression, decompress_in_pieces
from josefine_broker.records.crc import Buffer
from josefine_broker.records.reader import read_varint

_FIELDS_BYTES_MAX = 5 + 1 + 10 + 10
"""Length, attributes, timestamp delta and offset delta of a record."""


def record_times(batch: Buffer, *, bytes_max: int) -> Iterator[tuple[int, int]]:
    """(offset, timestamp_ms) of the records of the batch at the start of `batch`, as their producer
    set them.

    Raises CorruptData, and ExpandsTooFarError above `bytes_max` of decompressed records, both only
    at the record that cannot be read.
    """
    header = parse_header(batch)
    check_shape(batch, 0, header)
    body = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    pieces = _pieces(header.compression, body, bytes_max)
    base_offset, base_ms = header.base_offset, header.base_timestamp_ms
    data: Buffer = b""
    pos = 0
    for _ in range(header.record_count):
        while len(data) - pos < _FIELDS_BYTES_MAX:  # the fields may cross two pieces
            more = next(pieces, None)
            if more is None:
                break
            data, pos = (more if pos == len(data) else b"".join((data[pos:], more))), 0
        try:
            size, pos = read_varint(data, pos)
            end = pos + size
            timestamp_delta, pos = read_varint(data, pos + 1)
            offset_delta, pos = read_varint(data, pos)
        except IndexError as error:
            raise CorruptData(f"batch at offset {base_offset}: a record is cut") from error
        if pos > end:
            raise CorruptData(f"batch at offset {base_offset}: a record of {size} bytes")
        yield base_offset + offset_delta, base_ms + timestamp_delta
        while end > len(data):
            end -= len(data)
            more = next(pieces, None)
            if more is None:
                raise CorruptData(f"batch at offset {base_offset}: {end} bytes are missing")
            data = more
        pos = end


def _pieces(codec: int, body: memoryview, bytes_max: int) -> Iterator[Buffer]:
    if codec == Compression.NONE:
        return iter((body,))
    return decompress_in_pieces(codec, body, bytes_max=bytes_max)
