"""Recompression of a record batch by another codec, for `compression.type` of a topic.

Rules: the records keep their bytes, so their offset deltas, timestamps, keys, values and headers;
the batch keeps its offsets, its producer's fields and all attributes except the codec. Only length,
codec and checksum change. The function is pure: it may run on any thread.
"""

from josefine_broker.records.batch import (
    COMPRESSION_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    stamp_crc,
)
from josefine_broker.records.codecs import Compression
from josefine_broker.records.compression import compress, decompress
from josefine_broker.records.crc import Buffer


def recompressed(
    header: BatchHeader, records: Buffer, codec: Compression, level: int | None = None
) -> bytearray:
    """The batch of `header`, whose decompressed records are `records`, compressed by `codec`.

    `level`: Kafka's number, for the codecs that have levels; None is Kafka's default.
    """
    packed = compress(codec, records, level)
    batch = bytearray(HEADER_BYTES + len(packed))
    batch[HEADER_BYTES:] = packed
    changed = header._replace(
        batch_length=len(batch) - LENGTH_OVERHEAD_BYTES,
        attributes=header.attributes & ~COMPRESSION_MASK | codec,
    )
    HEADER.pack_into(batch, 0, *changed)
    stamp_crc(batch)
    return batch


def in_codec(
    batch: memoryview,
    header: BatchHeader,
    codec: Compression,
    level: int | None = None,
    *,
    bytes_max: int,
) -> bytearray:
    """The complete batch of `header` compressed by another codec.

    Raises CorruptData if its records cannot be decompressed, ExpandsTooFarError above `bytes_max`.
    """
    packed = batch[HEADER_BYTES : header.size_bytes]
    records = decompress(header.compression, packed, bytes_max=bytes_max)
    return recompressed(header, records, codec, level)
