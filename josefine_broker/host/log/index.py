"""The sparse index of one segment: batch positions, and the newest timestamp before each.

One entry per `index_interval_bytes` of log. While a segment is written its index is in memory only.
It is stored once the segment is synced (roll, close) as two immutable files, each with a version, a
checksum and the number of log bytes that it describes:

- `<base>.index`: relative offset and position of a batch, 4 bytes each, little-endian;
- `<base>.timeindex`: the largest timestamp of all batches before that batch, 8 bytes.

So a stored index that fits its log proves two things: lookups need no scan, and the log was synced
up to `log_bytes`. One that is missing, damaged or of another length is rebuilt from the log.
"""

import sys
from array import array
from bisect import bisect_left, bisect_right
from struct import Struct
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.records.crc import crc32c

INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
SUMS_SUFFIX = ".sums"

VERSION = 1
_MAGIC = b"JOSEFIDX"
_HEAD = Struct("<8sHHIqqqqqqqiIII")
_CRC_BYTES = 4
_OFFSETS, _TIMES = 1, 2
_LITTLE = sys.byteorder == "little"


class SegmentSummary(NamedTuple):
    """Facts about a segment that must be known without reading it. Offsets absolute, times Unix."""

    base_offset: int
    log_bytes: int
    end_offset: int
    max_timestamp_ms: int
    max_timestamp_offset: int
    """Base offset of the first batch that contains `max_timestamp_ms`."""
    first_append_ms: int
    last_append_ms: int
    last_leader_epoch: int
    log_crc: int
    """CRC32C of all log bytes: covers the fields outside a batch's own checksum."""


class SparseIndex:
    """Entries in ascending order of offset, position and timestamp."""

    __slots__ = ("offsets", "positions", "times")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")
        self.times = array("q")

    def __len__(self) -> int:
        return len(self.offsets)

    def add(self, relative_offset: int, position: int, timestamp_before_ms: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)
        self.times.append(timestamp_before_ms)

    def position_of_offset(self, relative_offset: int) -> int:
        """Position of a batch at or before the one that contains the offset."""
        at = bisect_right(self.offsets, relative_offset)
        return self.positions[at - 1] if at else 0

    def place_of_offset(self, relative_offset: int) -> tuple[int, int]:
        """(relative base offset, position) of a batch at or before the one that contains the
        offset."""
        at = bisect_right(self.offsets, relative_offset)
        return (self.offsets[at - 1], self.positions[at - 1]) if at else (0, 0)

    def position_before(self, position: int) -> int:
        """The last indexed batch start at or before `position`."""
        at = bisect_right(self.positions, position)
        return self.positions[at - 1] if at else 0

    def position_of_timestamp(self, timestamp_ms: int) -> int:
        """Position of a batch at or before the first one that reaches `timestamp_ms`."""
        at = bisect_left(self.times, timestamp_ms)
        return self.positions[at - 1] if at else 0


def store_index(files: Files, stem: str, summary: SegmentSummary, index: SparseIndex) -> None:
    """Write both files atomically; the log must be synced up to `summary.log_bytes` before."""
    entries = array(
        "I", (n for pair in zip(index.offsets, index.positions, strict=True) for n in pair)
    )
    # The offset index is the proof that the log was synced, so it is written last.
    _store(files, stem + TIME_INDEX_SUFFIX, _encode(_TIMES, summary, len(index), index.times))
    _store(files, stem + INDEX_SUFFIX, _encode(_OFFSETS, summary, len(index), entries))


def load_summary(files: Files, stem: str) -> SegmentSummary | None:
    """The summary in the offset index's header; None when missing, damaged or unknown version."""
    try:
        file = files.open(stem + INDEX_SUFFIX)
    except FileNotFoundError:
        return None
    try:
        return _decode_head(_OFFSETS, file.read_at(0, _HEAD.size))[0]
    except CorruptData:
        return None
    finally:
        file.close()


def load_index(files: Files, stem: str, summary: SegmentSummary) -> SparseIndex | None:
    """Both files, read and verified; None when they are not the index of `summary`."""
    index = SparseIndex()
    try:
        entries = array("I", _body(files, stem + INDEX_SUFFIX, _OFFSETS, summary))
        index.times = array("q", _body(files, stem + TIME_INDEX_SUFFIX, _TIMES, summary))
    except (CorruptData, FileNotFoundError):
        return None
    if not _LITTLE:
        entries.byteswap()
        index.times.byteswap()
    index.offsets, index.positions = entries[::2], entries[1::2]
    return index if len(index.times) == len(index.offsets) else None


def remove_index(files: Files, stem: str) -> None:
    """Remove the offset index first: without it the other file counts for nothing. The content is
    about to change, so the checksums of the present one (`cleaned_sums.py`) go, too."""
    files.remove(stem + SUMS_SUFFIX)
    files.remove(stem + INDEX_SUFFIX)
    files.remove(stem + TIME_INDEX_SUFFIX)


def _encode(kind: int, summary: SegmentSummary, count: int, entries: "array[int]") -> list[bytes]:
    if not _LITTLE:
        entries = entries[:]
        entries.byteswap()
    body = entries.tobytes()
    head = _HEAD.pack(_MAGIC, VERSION, kind, count, *summary, crc32c(body), 0)
    head = head[:-_CRC_BYTES]
    return [head, crc32c(head).to_bytes(_CRC_BYTES, "little"), body]


def _decode_head(kind: int, data: bytes) -> tuple[SegmentSummary, int, int]:
    """(summary, entry count, CRC of the body). Raises CorruptData."""
    if len(data) < _HEAD.size:
        raise CorruptData(f"index head of {len(data)} bytes")
    magic, version, found_kind, count, *fields, body_crc, head_crc = _HEAD.unpack_from(data)
    if magic != _MAGIC or version != VERSION or found_kind != kind:
        raise CorruptData(f"index of magic {magic!r}, version {version}, kind {found_kind}")
    if crc32c(data[: _HEAD.size - _CRC_BYTES]) != head_crc:
        raise CorruptData("index head: its checksum does not match")
    return SegmentSummary(*fields), count, body_crc


def _body(files: Files, path: str, kind: int, summary: SegmentSummary) -> bytes:
    file = files.open(path)
    try:
        data = file.read_at(0, file.size())
    finally:
        file.close()
    found, count, body_crc = _decode_head(kind, data)
    body = data[_HEAD.size :]
    if found != summary or len(body) != count * 8 or crc32c(body) != body_crc:
        raise CorruptData(f"{path}: the index belongs to another log")
    return body


def _store(files: Files, path: str, parts: list[bytes]) -> None:
    temporary = f"{path}.tmp"
    files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.write_at_end(parts)
        file.sync()
    finally:
        file.close()
    files.rename(temporary, path)
