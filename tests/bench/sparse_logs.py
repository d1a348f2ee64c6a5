"""Logs that are large for the broker and small on the disk: holes in the values of their records.

Each record is a batch of its own whose value is zeros. The kernel is asked to drop the blocks of
the value (fallocate with FALLOC_FL_PUNCH_HOLE), which then read as the same zeros: file sizes,
checksums and indexes stay what the broker wrote, and 1 GB of log takes some 5 MB.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Producer

RECORD_BYTES = 1_000_000
PAGE = 4_096
HEAD_BYTES = 512
"""From a batch's start: its header and the record's fields before the value are within these."""
PREFIX = struct.Struct(">qi")
"""Base offset, and length of what follows."""
PUNCH, KEEP_SIZE = 0x02, 0x01
PUNCH_EVERY = 256
"""Records: before the system has written most of them back."""
FLUSH_S = 300.0


def batches(data: bytes | memoryview, size_bytes: int) -> int:
    """The size of the batch whose first bytes are `data`; 0: `size_bytes` ends before it does."""
    if len(data) < PREFIX.size:
        return 0
    _, length = PREFIX.unpack_from(data)
    whole = PREFIX.size + int(length)
    return whole if whole <= size_bytes else 0


def holes(start: int, size_bytes: int) -> tuple[int, int]:
    """Position and length of the whole pages within the value of one batch; length 0: none."""
    first = -(-(start + HEAD_BYTES) // PAGE) * PAGE
    # The record ends with its number of headers, a zero too, and stays as it is.
    last = (start + size_bytes - 1) // PAGE * PAGE
    return first, max(0, last - first)


class Puncher:
    """Drops the values of the batches in a log's segments, each once. Mutable: how far it is in
    each file."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._position: dict[str, int] = {}
        self._fallocate = ctypes.CDLL(None, use_errno=True).fallocate
        self._fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]

    def punch(self) -> None:
        for path in sorted(self._log.glob("*.log")):
            fd = os.open(path, os.O_RDWR)
            try:
                self._punch_file(path.name, fd)
            finally:
                os.close(fd)

    def _punch_file(self, name: str, fd: int) -> None:
        end = os.fstat(fd).st_size
        position = self._position.get(name, 0)
        while size := batches(os.pread(fd, PREFIX.size, position), end - position):
            hole, length = holes(position, size)
            if length and self._fallocate(fd, PUNCH | KEEP_SIZE, hole, length):
                reason = os.strerror(ctypes.get_errno())
                raise OSError(f"{self._log}: this file system makes no holes in files: {reason}")
            position += size
        self._position[name] = position


def records_of(gigabytes: float) -> int:
    return max(2, int(gigabytes * 1e9 / RECORD_BYTES))


def fill(bootstrap: str, topic: str, log: Path, gigabytes: float) -> int:
    """Write so much to partition 0, whose segments are in `log`; returns the number of records."""
    settings = {
        "bootstrap.servers": bootstrap, "acks": 1, "linger.ms": 0, "batch.num.messages": 1,
        "message.max.bytes": 2 * RECORD_BYTES, "queue.buffering.max.kbytes": 600_000,
        "log_level": 0,
    }  # fmt: skip
    producer, puncher, count = Producer(settings), Puncher(log), records_of(gigabytes)
    for part in parts(count):
        for _ in range(part):
            producer.produce(topic, bytes(RECORD_BYTES), partition=0)
        if producer.flush(FLUSH_S):
            raise RuntimeError(f"{topic}: records were not acknowledged within {FLUSH_S:g} s")
        puncher.punch()
    return count


def parts(count: int) -> Iterator[int]:
    """The number of records between two calls of `Puncher.punch`."""
    for done in range(0, count, PUNCH_EVERY):
        yield min(PUNCH_EVERY, count - done)
