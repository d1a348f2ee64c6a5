"""A damaged segment, read batch by batch: what a repair can still use of it.

Rules: a batch is where it is expected, where the index has it, or near. Its checksum leaves out its
base offset and its leader epoch. So one that was found by search counts only if the next batch, or
the segment's end, confirms its place; one in a block that is not as the cleaner wrote it, if both
neighbours do; and one after a hole that compaction may have left, if the next one starts after it.

It reads through a handle of its own. A missing file has no bytes, and a sector that the disk cannot
read has none either. Nothing is written.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import suppress

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File, Files
from josefine_broker.host.log.batch_walk import SCAN_BYTES
from josefine_broker.host.log.cleaned_sums import BLOCK_BYTES, BlockSums, load_sums
from josefine_broker.host.log.index import SparseIndex, load_index
from josefine_broker.host.log.isolated_batch import (
    FIND_BYTES,
    Place,
    find_isolated,
    next_intact,
    read_around,
)
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment
from josefine_broker.records.batch import HEADER_BYTES, BatchHeader, parse_header, verify


class DamagedSegment:
    """See the module."""

    def __init__(self, files: Files, segment: Segment, *, has_holes: bool) -> None:
        self.has_holes, self._end_offset = has_holes, segment.end_offset
        self._index: SparseIndex | None = segment.index_in_memory
        if self._index is None:
            self._index = load_index(files, segment.stem, segment.summary())
        self._files = files
        self._path = segment.stem + LOG_SUFFIX
        self.sums: BlockSums | None = None
        """Of what the cleaner wrote, if that is known."""
        if has_holes:
            self.sums = load_sums(files, segment.stem, segment.size_bytes)
        self._bad_blocks: list[int] = []
        self._base_offset = segment.base_offset
        self._file: File | None = None
        self._position = 0
        self._window_start = 0
        self._window = memoryview(b"")

    def open(self) -> None:
        """Raises OSError."""
        if self._file is not None:
            return
        with suppress(FileNotFoundError):
            self._file = self._files.open(self._path)
        if self.sums is not None and self._file is not None:
            # All at once: one block has hundreds of small batches.
            self._bad_blocks = [*self.sums.bad_blocks(self._file, 0, self.sums.log_bytes)]

    def restart(self) -> None:
        self._position = 0

    def passed(self, size_bytes: int) -> None:
        """A batch of this size is in the copy; ours are expected after as many bytes."""
        self._position += size_bytes

    def batch_at(
        self,
        offset: int,
        fits: Callable[[BatchHeader], bool],
        *,
        is_last_resort: bool = False,
    ) -> memoryview | None:
        """Our intact batch that continues the copy at `offset`, if there is one: where it is
        expected, where the index has it, or anywhere near. `is_last_resort`: no replica has it."""
        batch = self._intact(self._position, fits, offset, is_last_resort)
        if batch is not None:
            return batch
        for position in self._candidates(offset):
            batch = self._intact(position, fits, offset, is_last_resort)
            # A lost sector may end within a base offset, which no checksum covers: that batch
            # belongs elsewhere, although it looks intact.
            if batch is not None and self._is_followed(position, batch, may_skip=is_last_resort):
                self._position = position
                return batch
        return None

    def batch_over(self, offset: int) -> memoryview | None:
        """Our intact batch with this offset, wherever it is."""
        if self._file is None or self.has_holes:
            return None
        first, start = (
            (0, 0)
            if self._index is None
            else self._index.place_of_offset(offset - self._base_offset)
        )
        size = self._file.size()
        place = Place(start, self._base_offset + first, size, self._end_offset)
        data = read_around(self._file, start, min(FIND_BYTES, size - start))
        batch = find_isolated(data, place, offset)
        if batch is not None:
            self._position = start + data.find(bytes(batch))
        return batch

    def _is_followed(self, position: int, batch: memoryview, *, may_skip: bool) -> bool:
        """Whether the next batch, or the segment's end, confirms the base offset. `may_skip`:
        compaction may have removed offsets between the two, so that this proves little."""
        end_offset, after = parse_header(batch).end_offset, position + len(batch)
        following = bytes(self._read(after, 8))
        if len(following) < 8:
            return end_offset == self._end_offset
        next_offset = int.from_bytes(following, "big")
        return next_offset == end_offset or (
            may_skip and self.has_holes and end_offset < next_offset < self._end_offset
        )

    def _candidates(self, offset: int) -> Iterator[int]:
        index = self._index
        if index is not None:
            yield index.position_of_offset(offset - self._base_offset)
        near = bytes(self._read(self._position, SCAN_BYTES))
        wanted = offset.to_bytes(8, "big")
        at = near.find(wanted)
        while at >= 0:
            yield self._position + at
            at = near.find(wanted, at + 1)

    def next_header(self, after: int) -> BatchHeader | None:
        """The next batch of ours past `after` that is intact; None: none is found."""
        if self._file is None:
            return None
        data = read_around(self._file, self._position, FIND_BYTES)
        return next_intact(data, self._base_offset, after)

    def _intact(
        self,
        position: int,
        fits: Callable[[BatchHeader], bool],
        offset: int,
        is_last_resort: bool,
    ) -> memoryview | None:
        """The batch there, if it is intact and continues a copy that ends at `offset`. In a block
        that is not as the cleaner wrote it, both neighbours must confirm it."""
        try:
            header = parse_header(self._read(position, HEADER_BYTES))
            if not fits(header) or header.size_bytes < HEADER_BYTES:
                return None
            batch = self._read(position, header.size_bytes)
            verify(batch, 0, header)
            if self._is_in_bad_block(position, header.size_bytes):
                is_next = header.base_offset == offset
                after = position + header.size_bytes
                if not is_next or not (is_last_resort or self._continues(header, after)):
                    return None
            if self._hides_batches(position, header, offset, is_last_resort):
                return None
        except CorruptData:
            return None
        return batch[: header.size_bytes]

    def _hides_batches(
        self, position: int, header: BatchHeader, offset: int, is_last_resort: bool
    ) -> bool:
        """Whether a batch that leaves a hole after `offset` may have a base offset that has flipped
        upwards: then the batches after it would not fit into the copy any more. What follows must
        start after it; where no replica has another one, damage may follow, too."""
        if header.base_offset == offset or self.sums is not None:
            return False
        after = position + header.size_bytes
        if self._is_followed(position, self._read(position, header.size_bytes), may_skip=True):
            return False
        if not is_last_resort:
            return True
        try:
            following = parse_header(self._read(after, HEADER_BYTES))
            verify(self._read(after, following.size_bytes), 0, following)
        except CorruptData:
            return False
        return following.base_offset < header.end_offset

    def _continues(self, before: BatchHeader, position: int) -> bool:
        """Whether an intact batch there continues the one before it, in the same leader epoch.
        Raises CorruptData."""
        header = parse_header(self._read(position, HEADER_BYTES))
        if header.base_offset != before.end_offset or header.size_bytes < HEADER_BYTES:
            return False
        verify(self._read(position, header.size_bytes), 0, header)
        return header.leader_epoch == before.leader_epoch

    def _is_in_bad_block(self, position: int, size: int) -> bool:
        """Whether these bytes are not those that the cleaner wrote there: a batch's own checksum
        leaves out its offset."""
        end = position + size
        return any(at < end and position < at + BLOCK_BYTES for at in self._bad_blocks)

    def _read(self, position: int, size: int) -> memoryview:
        """These bytes, fewer at the end of the file."""
        start, window = self._window_start, self._window
        if start <= position and position + size <= start + len(window):
            return window[position - start : position - start + size]
        if self._file is None:
            return memoryview(b"")
        try:
            data = memoryview(self._file.read_at(position, max(size, SCAN_BYTES)))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._read_alone(position, size)
        self._window_start, self._window = position, data
        return data[:size]

    def _read_alone(self, position: int, size: int) -> memoryview:
        """The disk cannot read a sector near: read no more than is asked for."""
        assert self._file is not None
        try:
            return memoryview(self._file.read_at(position, size))
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(b"")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
