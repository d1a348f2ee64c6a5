"""The walk over the record batches of a segment file, from a position on."""

from collections.abc import Iterator

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File
from josefine_broker.records.batch import HEADER_BYTES, MAGIC, BatchHeader, parse_header

SCAN_BYTES = 1024 * 1024
"""Bytes read at once."""


def walk_batches(
    file: File, position: int, end: int
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, bytes) of each batch in [position, end), without checking checksums.

    Raises CorruptData at the first place without a complete batch.
    """
    while position < end:
        data = memoryview(file.read_at(position, min(SCAN_BYTES, end - position)))
        pos = 0
        while len(data) - pos >= HEADER_BYTES:
            header = parse_header(data, pos)
            size = header.size_bytes
            if header.magic != MAGIC or size < HEADER_BYTES:
                raise CorruptData(
                    f"no batch at byte {position + pos}: magic {header.magic}, "
                    f"length {header.batch_length}"
                )
            if size > end - position - pos:
                left = end - position - pos
                raise CorruptData(f"a batch of {size} bytes is cut off after {left}")
            if size > len(data) - pos:
                break
            yield position + pos, header, data[pos : pos + size]
            pos += size
        if pos == 0:
            # The batch is larger than a scan step: read it alone.
            if len(data) < HEADER_BYTES:
                raise CorruptData(f"a batch header is cut off after {len(data)} bytes")
            data = memoryview(file.read_at(position, size))
            if len(data) < size:
                raise CorruptData(f"a batch of {size} bytes is cut off after {len(data)}")
            yield position, header, data
            pos = size
        position += pos
