"""Record batches: as a request names them, and as trees that can be compared."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from josefine_broker.records.builder import Record, build_batch

BASE_MS = 1_700_000_000_000
"""Of records' timestamps; neither side deletes by time."""
HEADER = struct.Struct(">qiibIhiqqqhii")
CONTROL = 0x20


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A good batch; producer id and epoch may be a `Ref` until they are sent."""

    number: int
    count: int = 2
    compression: int = 0
    producer_id: Any = -1
    producer_epoch: Any = -1
    sequence: int = -1
    transactional: bool = False

    def build(self, producer_id: int, producer_epoch: int) -> bytes:
        """Its bytes."""
        records = [
            Record(b"k%d" % at, b"v%d-%d" % (self.number, at), (), BASE_MS + 10 * self.number + at)
            for at in range(self.count)
        ]
        return bytes(
            build_batch(
                records,
                compression=self.compression,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=self.sequence,
                transactional=self.transactional,
            )
        )


def batches(data: bytes | None) -> list[dict[str, Any]] | None:
    """The batches of a fetched `records`, without the leader's stamp and the marks' own times."""
    if data is None:
        return None
    found = []
    at = 0
    while at + HEADER.size <= len(data):
        offset, size, _, magic, _, attributes, last, first_ms, newest_ms, pid, epoch, seq, count = (
            HEADER.unpack_from(data, at)
        )
        end = at + 12 + size
        if end > len(data):
            break  # Kafka cuts where the limit is; clients drop an incomplete batch at the end
        is_control = bool(attributes & CONTROL)
        found.append(
            {
                "base_offset": offset,
                "magic": magic,
                "attributes": attributes,
                "last_offset_delta": last,
                "base_timestamp": "time" if is_control else first_ms,
                "max_timestamp": "time" if is_control else newest_ms,
                "producer_id": pid,
                "producer_epoch": epoch,
                "base_sequence": seq,
                "count": count,
                "data": "mark" if is_control else data[at + HEADER.size : end].hex(),
            }
        )
        at = end
    if data and not found:
        found.append({"incomplete": data[at:].hex()})
    return found
