"""The checksums over what the log cleaner wrote, block by block, in a file next to its segment.

A batch's own checksum leaves out its base offset and leader epoch, and in a compacted log the
neighbours confirm neither: offsets may be missing between them. So a cleaned or repaired segment of
such a log gets `<base>.sums`: one CRC32C for each BLOCK_BYTES of the file, whatever batches are in
it, and one over all of it. Reads verify the blocks that they touch; the scrub, `log verify`, the
next cleaning and a repair verify all of them.

Rules: the file is written after its segment is in place, and removed before the segment changes
(`index.remove_index`), so it never describes another content. Without it (older versions; a crash
between the two) a segment is judged by its batches alone, and gets one at its next cleaning.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File, Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.files import read_checked, write_checked
from josefine_broker.host.log.index import SUMS_SUFFIX
from josefine_broker.records.crc import Buffer, crc32c

KIND_SUMS, VERSION = 14, 1
BLOCK_BYTES = 64 * 1024
"""What a small read verifies at least: it takes about 10 microseconds."""

_HEAD = Struct("<QII")
"""File size, CRC over all of it, block size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockSums:
    """The checksums of one segment file."""

    log_bytes: int
    log_crc: int
    blocks: tuple[int, ...]

    def bad_blocks(self, file: File, start: int, end: int) -> Iterator[int]:
        """Positions of the blocks that overlap [start, end) and are not as written, or that the
        disk cannot read. Raises OSError."""
        first = start - start % BLOCK_BYTES
        for position in range(first, min(end, self.log_bytes), BLOCK_BYTES):
            size = min(BLOCK_BYTES, self.log_bytes - position)
            try:
                is_good = (
                    crc32c(file.read_at(position, size)) == self.blocks[position // BLOCK_BYTES]
                )
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                is_good = False
            if not is_good:
                yield position

    def first_bad(self, file: File, start: int, end: int) -> int | None:
        """The first of them, and None: there is none."""
        return next(self.bad_blocks(file, start, end), None)

    def why_not(self, log_bytes: int, log_crc: int) -> str:
        """Why a file of this size and checksum is not what was written; empty: it is."""
        if log_bytes != self.log_bytes:
            return f"{log_bytes} bytes, of {self.log_bytes} that the cleaner wrote"
        if log_crc != self.log_crc:
            return f"CRC {log_crc:08x} over all bytes, expected {self.log_crc:08x}"
        return ""


class SumsWriter:
    """The checksums of a file that is being written from its start. Mutable."""

    __slots__ = ("_blocks", "_crc", "_left", "_log_bytes", "_log_crc")

    def __init__(self) -> None:
        self._blocks: list[int] = []
        self._crc = self._log_crc = self._log_bytes = 0
        self._left = BLOCK_BYTES

    def add(self, parts: Iterable[Buffer]) -> None:
        """These bytes were written next."""
        for part in parts:
            data = memoryview(part)
            self._log_crc = crc32c(data, self._log_crc)
            self._log_bytes += len(data)
            while len(data) >= self._left:
                self._blocks.append(crc32c(data[: self._left], self._crc))
                data = data[self._left :]
                self._crc, self._left = 0, BLOCK_BYTES
            self._crc = crc32c(data, self._crc)
            self._left -= len(data)

    def sums(self) -> BlockSums:
        """Those of everything so far."""
        rest = () if self._left == BLOCK_BYTES else (self._crc,)
        return BlockSums(
            log_bytes=self._log_bytes, log_crc=self._log_crc, blocks=(*self._blocks, *rest)
        )


def store_sums(files: Files, stem: str, sums: BlockSums) -> None:
    """Raises OSError; then there are none."""
    head = _HEAD.pack(sums.log_bytes, sums.log_crc, BLOCK_BYTES)
    body = array("I", sums.blocks).tobytes()
    write_checked(files, stem + SUMS_SUFFIX, KIND_SUMS, VERSION, head + body)


def forget_sums(files: Files, last_stem: str, config: LogConfig) -> None:
    """The last segment takes appends: if the cleaner wrote it, because the segments after it are
    gone, the checksums of that content will not be those of what follows. Raises OSError."""
    if config.may_have_holes:
        files.remove(last_stem + SUMS_SUFFIX)


def load_sums(files: Files, stem: str, log_bytes: int) -> BlockSums | None:
    """Those of a file of this size. None: there are none, or they cannot be read: they only
    protect. Of another size: an older version, which does not know them, has changed the segment.
    Raises OSError.
    """
    try:
        data = read_checked(files, stem + SUMS_SUFFIX, KIND_SUMS, VERSION)
    except CorruptData:
        return None
    if data is None or len(data) < _HEAD.size or (len(data) - _HEAD.size) % 4:
        return None
    size, log_crc, block_bytes = _HEAD.unpack_from(data)
    blocks = array("I", data[_HEAD.size :])
    if size != log_bytes or block_bytes != BLOCK_BYTES or len(blocks) != -(-size // BLOCK_BYTES):
        return None
    return BlockSums(log_bytes=log_bytes, log_crc=log_crc, blocks=tuple(blocks))
