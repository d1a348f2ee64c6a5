"""Stored batches with unreadable records: which batch, and why.

A broker that checks only headers accepts them, and Kafka accepts some. Used by readers after an
error: no code here runs for a readable batch.
"""

from collections.abc import Iterator

from josefine_broker.base.errors import CorruptData, KafkaError, UnreadableBatchError
from josefine_broker.base.limits import DECOMPRESSED_BYTES_MAX
from josefine_broker.records.batch import HEADER_BYTES, BatchHeader
from josefine_broker.records.builder import Record
from josefine_broker.records.compression import decompress
from josefine_broker.records.crc import Buffer
from josefine_broker.records.reader import read_records
from josefine_broker.records.structure import WHY, Fault
from josefine_broker.records.structure_twin import look

__all__ = ["read_whole_batch", "unreadable"]


def read_whole_batch(batch: Buffer, header: BatchHeader) -> Iterator[Record]:
    """The records of a batch whose checksum is right. Raises UnreadableBatchError."""
    try:
        yield from read_records(batch)
    except (CorruptData, KafkaError) as error:
        raise unreadable(batch, header, error) from error


def unreadable(batch: Buffer, header: BatchHeader, error: Exception) -> UnreadableBatchError:
    """The error for a batch that failed to be read with `error`."""
    cause = _cause(batch, header) or str(error)
    return UnreadableBatchError(header.base_offset, header.end_offset, cause)


def _cause(batch: Buffer, header: BatchHeader) -> str:
    """The first damaged record; empty if every one is valid."""
    packed = memoryview(batch)[HEADER_BYTES : header.size_bytes]
    try:
        body = decompress(header.compression, packed, bytes_max=DECOMPRESSED_BYTES_MAX)
    except KafkaError as error:
        return error.message
    except CorruptData as error:
        return str(error)
    count = header.record_count
    fault, index, _, _ = look(body, 0, count, header.base_timestamp_ms, False)
    if fault == Fault.SOUND:
        return ""
    if fault == Fault.LEFT_OVER:
        return f"it holds more than the {count} records that its header states"
    return f"record {index} of {count}: {WHY[Fault(fault)]}"
