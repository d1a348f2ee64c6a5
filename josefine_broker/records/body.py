"""Decompression of a produced batch's records in a broker: bounded, and refused where the Java
client could not read them.

Rules: a refusal is one sentence about the compressed data; data that would expand too far is never
held in memory.
"""

from josefine_broker.base.errors import CorruptData, ErrorCode, ExpandsTooFarError, KafkaError
from josefine_broker.records.batch import HEADER_BYTES, BatchHeader
from josefine_broker.records.compression import Compression, decompress, decompress_into
from josefine_broker.records.crc import Buffer

__all__ = ["Body", "open_body"]

Body = tuple[Buffer, int]
"""A buffer and where the records start in it; they end with it."""

PRODUCED_BYTES_MAX = 128 * 1024 * 1024
"""Limit of one produced batch's records, decompressed. Readers accept four times as much, and a
broker of 70 MB must not be blown up by 20 KB that expand ten-thousandfold."""

_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_INDEPENDENT_BLOCKS = 0x20
"""A bit in the frame's flags."""


def open_body(
    batch: memoryview, header: BatchHeader, room: memoryview | None, *, may_grow: bool
) -> Body | None:
    """The records of a complete batch, in `room` if they are compressed and fit. If they do not
    fit: None, which means that decompression takes long, or with `may_grow` a new buffer of up to
    PRODUCED_BYTES_MAX. Raises KafkaError(invalid_record | message_too_large)."""
    codec = header.compression
    if codec == Compression.NONE:
        return batch, HEADER_BYTES
    packed = batch[HEADER_BYTES:]
    try:
        if codec == Compression.LZ4:
            _check_lz4_frame(packed)
        if room is not None:
            size = decompress_into(codec, packed, room)
            if size is not None:
                return room[:size], 0
            if not may_grow:
                return None
        return decompress(codec, packed, bytes_max=PRODUCED_BYTES_MAX), 0
    except ExpandsTooFarError as error:
        # Java's producer splits a batch after this error, which solves the problem.
        raise KafkaError(
            ErrorCode.message_too_large,
            f"the batch's records expand to more than {PRODUCED_BYTES_MAX} bytes: send fewer in one"
            " batch",
        ) from error
    except CorruptData as error:
        raise KafkaError(
            ErrorCode.invalid_record, f"the batch's records cannot be decompressed: {error}"
        ) from error


def _check_lz4_frame(packed: memoryview) -> None:
    """Java's client refuses frames whose blocks depend on each other, liblz4's default. Raises
    CorruptData."""
    if packed[:4] == _LZ4_MAGIC and len(packed) > 4 and not packed[4] & _LZ4_INDEPENDENT_BLOCKS:
        raise CorruptData("lz4 data: its blocks depend on each other, which Kafka does not allow")
