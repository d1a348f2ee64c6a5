"""A view of the 61-byte header of a record batch, format v2 (KIP-98); never of its records.

Rules: the header is parsed in one `unpack`; `base_offset` and `leader_epoch` lie outside the CRC,
so the partition leader stamps them in place; a batch is `12 + batch_length` bytes; no copies.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData, ErrorCode, KafkaError
from josefine_broker.base.ids import LeaderEpoch, ProducerEpoch, ProducerId
from josefine_broker.records.crc import Buffer, crc32c

HEADER = Struct(">qiibIhiqqqhii")
HEADER_BYTES = HEADER.size
LENGTH_OVERHEAD_BYTES = 12
"""Base offset and the length field itself are not counted by `batch_length`."""

MAGIC = 2
CRC_START = 21
"""The checksum covers everything from the attributes to the end of the batch."""

NO_PRODUCER_ID = ProducerId(-1)
NO_PRODUCER_EPOCH = ProducerEpoch(-1)
NO_SEQUENCE = -1
NO_LEADER_EPOCH = LeaderEpoch(-1)
NO_TIMESTAMP_MS = -1

COMPRESSION_MASK = 0x07
COMPRESSION_MAX = 4
"""zstd, the newest codec (KIP-110)."""

TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

LOG_APPEND_TIME = 1

_LENGTH = Struct(">i")
_CRC = Struct(">I")
_OFFSET = Struct(">q")
_ATTRIBUTES = Struct(">h")
_new = tuple.__new__


class BatchHeader(NamedTuple):
    """The header of one batch. A NamedTuple: one is made per batch on the data path."""

    base_offset: int
    batch_length: int
    leader_epoch: LeaderEpoch
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: ProducerId
    producer_epoch: ProducerEpoch
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        return self.batch_length + LENGTH_OVERHEAD_BYTES

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record; sequences wrap to 0 after 2**31 - 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def timestamp_type(self) -> int:
        return (self.attributes & TIMESTAMP_TYPE_BIT) >> 3

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        return self.attributes & CONTROL_BIT != 0


OnBatch = Callable[[BatchHeader, Buffer], None]
"""Callback for a batch of a log: its header and all of its bytes."""


def parse_header(buf: Buffer, pos: int = 0) -> BatchHeader:
    """The header at `pos`, unverified; `verify` checks it.

    Raises CorruptData when fewer than 61 bytes are left.
    """
    if len(buf) - pos < HEADER_BYTES:
        raise CorruptData(
            f"{len(buf) - pos} bytes, shorter than a record batch header ({HEADER_BYTES})"
        )
    return _new(BatchHeader, HEADER.unpack_from(buf, pos))


def last_offset_delta(batch: Buffer) -> int:
    """The last offset delta of a batch that is known to be complete, without parsing its header."""
    delta: int = _LENGTH.unpack_from(batch, CRC_START + 2)[0]
    return delta


def check_shape(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Magic, length and counts, without reading the records. Raises CorruptData."""
    _check_length(buf, pos, header)
    if header.last_offset_delta < 0 or header.record_count < 0:
        raise CorruptData(
            f"record batch with last offset delta {header.last_offset_delta} "
            f"and {header.record_count} records"
        )


def _check_length(buf: Buffer, pos: int, header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise CorruptData(f"record batch with magic {header.magic}, not {MAGIC}")
    if header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
        raise CorruptData(f"record batch with length {header.batch_length}")
    if header.size_bytes > len(buf) - pos:
        raise CorruptData(f"record batch of {header.size_bytes} bytes, {len(buf) - pos} are there")


def check_whole(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Magic, length and CRC32C of the batch at `pos`: the bytes arrived as they were sent. Raises
    CorruptData."""
    _check_length(buf, pos, header)
    end = pos + header.size_bytes
    actual = crc32c(memoryview(buf)[pos + CRC_START : end])
    if actual != header.crc:
        raise CorruptData(
            f"record batch at offset {header.base_offset}: CRC {actual:08x}, "
            f"its header has {header.crc:08x}"
        )


def verify(buf: Buffer, pos: int, header: BatchHeader) -> None:
    """Magic, length, counts and CRC32C of the batch at `pos`. Raises CorruptData."""
    check_shape(buf, pos, header)
    check_whole(buf, pos, header)


def check_produced(header: BatchHeader) -> None:
    """Check a client's batch beyond its checksum (like Kafka's LogValidator.validateBatch).

    Raises KafkaError(invalid_record | unsupported_compression_type).
    """
    if header.record_count <= 0 or header.record_count != header.last_offset_delta + 1:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"{header.record_count} records, last offset delta {header.last_offset_delta}",
        )
    if header.is_control:
        raise KafkaError(ErrorCode.invalid_record, "clients must not write control batches")
    if header.producer_id == NO_PRODUCER_ID and header.is_transactional:
        raise KafkaError(ErrorCode.invalid_record, "a transactional batch without a producer")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise KafkaError(
            ErrorCode.invalid_record,
            f"producer {header.producer_id} with sequence {header.base_sequence}",
        )
    if header.compression > COMPRESSION_MAX:
        raise KafkaError(
            ErrorCode.unsupported_compression_type, f"compression codec {header.compression}"
        )


def is_sound(buf: memoryview, header: BatchHeader) -> bool:
    """Whether `buf` is exactly one valid batch of a client, by `verify` and `check_produced`.

    One pass over the header for the produce path, 0.5 instead of 0.9 microseconds; for an invalid
    batch, those two raise the reason.
    """
    _, length, _, magic, crc, attributes, delta, _, _, producer_id, _, sequence, count = header
    return (
        magic == MAGIC
        and length + LENGTH_OVERHEAD_BYTES == len(buf)
        and 0 <= delta == count - 1
        and not attributes & CONTROL_BIT
        and attributes & COMPRESSION_MASK <= COMPRESSION_MAX
        and (not attributes & TRANSACTIONAL_BIT if producer_id == NO_PRODUCER_ID else sequence >= 0)
        and crc32c(buf[CRC_START:]) == crc
    )


def is_torn(tail: memoryview) -> bool:
    """Whether `tail`, the end of a file from where a batch should start, can be an unfinished
    write: shorter than its header's length, while nothing in it contradicts the header.

    A flipped bit in a length looks the same at first. But then the rest is a complete batch by its
    checksum, or contains the batch that follows.
    """
    if len(tail) < HEADER_BYTES:
        return True
    header = parse_header(tail)
    if header.magic != MAGIC or header.size_bytes <= len(tail):
        return False
    if crc32c(tail[CRC_START:]) == header.crc:
        return False
    return not _holds_batch_at(bytes(tail), header.end_offset)


def _holds_batch_at(data: bytes, base_offset: int) -> bool:
    """Whether a complete batch with this base offset is anywhere in `data`."""
    wanted = (base_offset % 2**64).to_bytes(8, "big")
    at = data.find(wanted, HEADER_BYTES)
    while at >= 0:
        try:
            verify(data, at, parse_header(data, at))
        except CorruptData:
            at = data.find(wanted, at + 1)
        else:
            return True
    return False


def stamp(
    buf: bytearray | memoryview, pos: int, base_offset: int, leader_epoch: LeaderEpoch
) -> None:
    """Write base offset and partition leader epoch in place; both lie outside the CRC."""
    _OFFSET.pack_into(buf, pos, base_offset)
    _LENGTH.pack_into(buf, pos + LENGTH_OVERHEAD_BYTES, leader_epoch)


def stamp_crc(batch: bytearray | memoryview) -> None:
    """Write the checksum of a batch that is complete except for it."""
    _CRC.pack_into(batch, CRC_START - 4, crc32c(memoryview(batch)[CRC_START:]))


def stamp_log_append_time(buf: bytearray | memoryview, pos: int, timestamp_ms: int) -> BatchHeader:
    """Make a batch LogAppendTime: attribute bit, max timestamp, new CRC. Returns the new header.

    Readers then use `max_timestamp_ms` for every record (KIP-32), so no record is changed.
    """
    header = parse_header(buf, pos)
    _ATTRIBUTES.pack_into(buf, pos + CRC_START, header.attributes | TIMESTAMP_TYPE_BIT)
    _OFFSET.pack_into(buf, pos + 35, timestamp_ms)
    crc = crc32c(memoryview(buf)[pos + CRC_START : pos + header.size_bytes])
    _CRC.pack_into(buf, pos + 17, crc)
    return parse_header(buf, pos)


def stamp_create_time(buf: bytearray | memoryview, pos: int, max_timestamp_ms: int) -> BatchHeader:
    """Make a batch CreateTime with this largest timestamp, and a new CRC if that changes it.
    Returns the header."""
    header = parse_header(buf, pos)
    attributes = header.attributes & ~TIMESTAMP_TYPE_BIT
    if header.max_timestamp_ms == max_timestamp_ms and header.attributes == attributes:
        return header
    _ATTRIBUTES.pack_into(buf, pos + CRC_START, attributes)
    _OFFSET.pack_into(buf, pos + 35, max_timestamp_ms)
    crc = crc32c(memoryview(buf)[pos + CRC_START : pos + header.size_bytes])
    _CRC.pack_into(buf, pos + 17, crc)
    return parse_header(buf, pos)


def build_empty_batch(base_offset: int, end_offset: int, leader_epoch: LeaderEpoch) -> bytearray:
    """A batch without records, as compaction leaves them: it takes these offsets."""
    batch = bytearray(
        HEADER.pack(
            base_offset,
            HEADER_BYTES - LENGTH_OVERHEAD_BYTES,
            leader_epoch,
            MAGIC,
            0,
            0,
            end_offset - base_offset - 1,
            NO_TIMESTAMP_MS,
            NO_TIMESTAMP_MS,
            NO_PRODUCER_ID,
            NO_PRODUCER_EPOCH,
            NO_SEQUENCE,
            0,
        )
    )
    stamp_crc(batch)
    return batch


def end_if_empty(buf: Buffer) -> int:
    """The end offset of these complete batches if none has records, otherwise -1. Cheap: only empty
    batches are 61 bytes long."""
    end_offset = -1
    if len(buf) % HEADER_BYTES == 0:
        for _, header in iter_batches(buf):
            if header.record_count:
                return -1
            end_offset = header.end_offset
    return end_offset


def iter_batches(buf: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each complete batch; stops at a partial last one, as a fetch may have.

    Raises CorruptData for an invalid length or magic. Checksums are left to the caller.
    """
    pos, size = 0, len(buf)
    while size - pos >= HEADER_BYTES:
        header = _new(BatchHeader, HEADER.unpack_from(buf, pos))
        if header.magic != MAGIC or header.batch_length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES:
            raise CorruptData(
                f"no record batch at byte {pos}: magic {header.magic}, length {header.batch_length}"
            )
        if header.size_bytes > size - pos:
            return
        yield pos, header
        pos += header.size_bytes
