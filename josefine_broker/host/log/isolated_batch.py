"""An intact batch next to damaged ones, looked for byte by byte.

A damaged header hides the batches after it from a search that goes from header to header, and a
sector that the disk cannot read fails every read that touches it. Other replicas may need exactly
these batches. Used only after a read has failed.

No checksum of a batch covers its base offset. So a neighbour must confirm it: the batch before
ends there, the batch after continues it, or the index has it. Where compaction may have removed
offsets, one neighbour is not enough: a base offset that has flipped downwards may continue the
batch before it across a hole. Both neighbours together leave no other place, and show the leader
epoch, which no checksum covers either.
"""

import errno
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File
from josefine_broker.records.batch import HEADER_BYTES, MAGIC, BatchHeader, parse_header, verify

FIND_BYTES = 2 * 1024 * 1024
"""Bytes in which a batch is looked for: a few of the largest ones."""
AROUND_BYTES, PIECE_BYTES = 64 * 1024, 512
"""Bytes read piece by piece where a larger read fails: each may take the disk a long time."""
_MAGIC_AT, _MAGIC = 16, bytes((MAGIC,))


class Place(NamedTuple):
    """Where the bytes come from: this position of a segment, where the index has this offset."""

    position: int
    offset: int
    segment_bytes: int
    segment_end_offset: int


def find_isolated(
    data: bytes, place: Place, offset: int, *, may_have_holes: bool = False
) -> memoryview | None:
    """The intact batch with `offset` in `data`, if a neighbour confirms its place; both of them,
    where compaction may have left holes."""
    # All base offsets of a segment start with the same bytes.
    common = place.offset.to_bytes(8, "big")[:3]
    ends = {0: place.offset}
    epochs: dict[int, int] = {}
    at = data.find(common)
    while at >= 0:
        batch = batch_at(data, at)
        if batch is None:
            at = data.find(common, at + 1)
            continue
        header = parse_header(batch)
        after = at + len(batch)
        if header.base_offset <= offset <= header.last_offset:
            follows = ends.get(at) == header.base_offset
            is_followed = _is_followed(data, after, header.end_offset, place)
            if may_have_holes and follows and is_followed:
                near = {epochs.get(at), _epoch_at(data, after, header.end_offset)} - {None}
                return batch if near == {header.leader_epoch} else None
            if not may_have_holes and (follows or is_followed):
                return batch
        ends[after], epochs[after] = header.end_offset, header.leader_epoch
        at = data.find(common, after)
    return None


def next_intact(data: bytes, base_offset: int, after: int) -> BatchHeader | None:
    """The first intact batch in `data` past the offset `after`; `base_offset` is the segment's. One
    whose successor starts before it has a base offset that has flipped upwards."""
    common = base_offset.to_bytes(8, "big")[:3]
    at = data.find(common)
    while at >= 0:
        batch = batch_at(data, at)
        if batch is not None and parse_header(batch).base_offset > after:
            header, following = parse_header(batch), batch_at(data, at + len(batch))
            if following is not None and after < parse_header(following).base_offset:
                return min(header, parse_header(following))
            return header
        at = data.find(common, at + 1)
    return None


def batch_at(data: bytes, at: int) -> memoryview | None:
    """The intact batch at this place, whatever its base offset is."""
    if data[at + _MAGIC_AT : at + _MAGIC_AT + 1] != _MAGIC or len(data) - at < HEADER_BYTES:
        return None
    try:
        header = parse_header(data, at)
        verify(data, at, header)
    except CorruptData:
        return None
    return memoryview(data)[at : at + header.size_bytes]


def check_not_overtaken(file: File, position: int, end_offset: int) -> None:
    """Raises CorruptData for a batch whose successor, intact at `position`, starts before its end:
    its base offset has flipped upwards, and would hide all that follows."""
    try:
        header = parse_header(file.read_at(position, HEADER_BYTES))
        verify(file.read_at(position, header.size_bytes), 0, header)
    except CorruptData:
        return  # an unfinished write, or damage of its own
    if header.base_offset < end_offset:
        raise CorruptData(f"a batch ends at {end_offset}, and the next starts before that")


def _is_followed(data: bytes, after: int, end_offset: int, place: Place) -> bool:
    if place.position + after == place.segment_bytes:
        return end_offset == place.segment_end_offset
    return data[after : after + 8] == end_offset.to_bytes(8, "big")


def _epoch_at(data: bytes, at: int, offset: int) -> int | None:
    """The leader epoch of the intact batch there, if it starts with `offset`."""
    batch = batch_at(data, at)
    header = None if batch is None else parse_header(batch)
    return None if header is None or header.base_offset != offset else header.leader_epoch


def read_around(file: File, position: int, size: int) -> bytes:
    """These bytes; zeros for sectors that the disk cannot read. Raises OSError for other errors."""
    try:
        return file.read_at(position, size)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
    parts = []
    for start in range(position, position + min(size, AROUND_BYTES), PIECE_BYTES):
        wanted = min(PIECE_BYTES, position + size - start)
        try:
            parts.append(file.read_at(start, wanted))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            parts.append(bytes(wanted))
    return b"".join(parts)
