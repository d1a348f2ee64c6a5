"""The intact batches after damage in the unsynced end of a log, looked for at a start.

A crash leaves an unfinished last write, and a power loss may leave holes between pages that reached
the disk. In both cases, and after damage of a disk, intact batches may follow, and another replica
may need exactly these.

No checksum of a batch covers its base offset. So a batch counts if the next one continues it. A
last one alone counts if the bytes before it can contain the missing offsets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File, Files
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.isolated_batch import FIND_BYTES, batch_at, read_around
from josefine_broker.host.log.segment import Segment, stem_of
from josefine_broker.records.batch import is_torn, parse_header, verify

__all__ = ["Tail", "find_tail", "starts_intact"]

_COMMON = 3
"""All base offsets of a segment start with the same bytes."""


class Tail(NamedTuple):
    """What follows the damage, up to the last intact batch."""

    end_offset: int
    end_position: int
    is_end_known: bool
    """Nothing but an unfinished write follows: the log never reached further."""


def find_tail(file: File, position: int, expected: int) -> Tail | None:
    """The tail after the damage at `position` of a segment, where the batch with the offset
    `expected` should start; None: no intact batch follows. Raises OSError."""
    size = file.size()
    start, found = position, None
    common = re.escape(expected.to_bytes(8, "big")[:_COMMON])
    pattern = re.compile(b"(?=" + common + rb"[\s\S]{13}\x02)")
    # In windows, because a segment may be large and all of it damaged. They overlap, because a
    # batch may start in one and end in the next.
    while start < size:
        data = read_around(file, start, FIND_BYTES)
        chain = _first_chain(data, pattern, start - position, expected, found is not None)
        if chain is not None:
            expected, length = chain
            start = position = start + length
            found = Tail(expected, start, is_end_known=False)
        else:
            start += len(data) if start + len(data) >= size else max(1, len(data) // 2)
    if found is None:
        return None
    rest = read_around(file, found.end_position, min(FIND_BYTES, size - found.end_position))
    return found._replace(is_end_known=not rest or is_torn(memoryview(rest)))


def _first_chain(
    data: bytes, pattern: re.Pattern[bytes], skipped: int, expected: int, is_continued: bool
) -> tuple[int, int] | None:
    """The first batches in `data` that continue each other: (end offset, position after them).
    `skipped` bytes are between the damage and `data`; with `is_continued` there may be none."""
    for match in pattern.finditer(data):
        at = match.start()
        ends = list(_chain(data, at))
        if not ends:
            continue
        missing = parse_header(data, at).base_offset - expected
        if missing == 0 and is_continued and skipped + at == 0:
            return ends[-1]
        # One record takes a byte at least, except in compressed batches.
        if missing > 0 and (len(ends) > 1 or missing <= skipped + at):
            return ends[-1]
    return None


def _chain(data: bytes, at: int) -> Iterator[tuple[int, int]]:
    """(end offset, position after it) of the intact batch there and of those that continue it."""
    end_offset = None
    while (batch := batch_at(data, at)) is not None:
        header = parse_header(batch)
        if end_offset not in (None, header.base_offset):
            return
        end_offset, at = header.end_offset, at + len(batch)
        yield end_offset, at


def starts_intact(files: Files, directory: str, base_offset: int) -> bool:
    """Whether the first batch of this segment is intact."""
    segment = Segment(files, stem_of(directory, base_offset), base_offset)
    try:
        for _, header, batch in walk_batches(segment.file(), 0, segment.file().size()):
            verify(batch, 0, header)
            return header.base_offset == base_offset
    except CorruptData:
        return False
    finally:
        segment.close()
    return False
