"""Transaction markers in a partition (KIP-98): control batches of one record.

Rules: the key is the record's version and type, two int16; the value its version, int16, and the
coordinator's epoch, int32; a marker is never compressed and has no sequence. Newer versions may
append to both, so later bytes are skipped. Other types of control records are not markers.

Followers read markers on their way to the log, so this module parses the few bytes itself.
"""

from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ids import ProducerEpoch, ProducerId
from josefine_broker.records.batch import (
    CONTROL_BIT,
    CRC_START,
    HEADER,
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL_BIT,
    parse_header,
)
from josefine_broker.records.crc import Buffer, crc32c

ABORT, COMMIT = 0, 1
_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_RECORD = Struct(">BBBBBhhBhiB")
"""Length, attributes, timestamp and offset delta, key, value, no headers; a small length n is the
byte 2n."""
_BODY_BYTES = _RECORD.size - 1


class Marker(NamedTuple):
    """The end of a transaction."""

    is_commit: bool
    coordinator_epoch: int


def build_marker(
    producer_id: ProducerId, producer_epoch: ProducerEpoch, marker: Marker, now_ms: int
) -> bytearray:
    """The control batch, to be stamped by the partition's leader."""
    kind = COMMIT if marker.is_commit else ABORT
    batch = bytearray(HEADER_BYTES) + _RECORD.pack(
        2 * _BODY_BYTES, 0, 0, 0, 2 * _KEY.size, 0, kind,
        2 * _VALUE.size, 0, marker.coordinator_epoch, 0,
    )  # fmt: skip
    length = len(batch) - LENGTH_OVERHEAD_BYTES
    attributes = TRANSACTIONAL_BIT | CONTROL_BIT
    fields = (attributes, 0, now_ms, now_ms, producer_id, producer_epoch, NO_SEQUENCE, 1)
    HEADER.pack_into(batch, 0, 0, length, NO_LEADER_EPOCH, MAGIC, 0, *fields)
    crc = crc32c(memoryview(batch)[CRC_START:])
    HEADER.pack_into(batch, 0, 0, length, NO_LEADER_EPOCH, MAGIC, crc, *fields)
    return batch


def read_marker(batch: Buffer) -> Marker | None:
    """The marker in a control batch; None: it ends no transaction. Raises CorruptData."""
    header = parse_header(batch)
    end = header.size_bytes
    if not header.record_count:
        return None  # compaction emptied it
    try:
        _, pos = _varint(batch, HEADER_BYTES)
        _, pos = _varint(batch, pos + 1)  # after the attributes: the timestamp
        _, pos = _varint(batch, pos)  # and the offset
        key_size, pos = _varint(batch, pos)
        if key_size < _KEY.size or pos + key_size > end:
            return None
        kind = _KEY.unpack_from(batch, pos)[1]
        if kind not in (ABORT, COMMIT):
            return None
        value_size, pos = _varint(batch, pos + key_size)
    except IndexError as error:
        raise CorruptData(f"a control batch of {len(batch)} bytes") from error
    if value_size < _VALUE.size or pos + value_size > end:
        raise CorruptData(f"a transaction marker with a value of {value_size} bytes")
    return Marker(kind == COMMIT, _VALUE.unpack_from(batch, pos)[1])


def _varint(batch: Buffer, pos: int) -> tuple[int, int]:
    """A zig-zag varint and the position after it. Raises IndexError past the end."""
    n = shift = 0
    while True:
        byte = batch[pos]
        pos += 1
        n |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (n >> 1) ^ -(n & 1), pos
        shift += 7
