"""One segment of a partition's log: a `.log` file of complete record batches, and its index.

Rules: the bytes are the batches as Kafka stores them, back to back; an append is one write; a read
is one `pread` of complete batches, found by the index and at most one index interval of batch
headers. No code runs per record; lookups by timestamp are in `host/log/lookup.py`.

A read returns verified batches only (`read_state.py`): a damaged one ends it, or is an error.

Why `pread` (measured, 2 cores, loopback socket, CPU seconds of the sender per GB, 256 KiB-4 MiB):
pread 0.24-0.31 (2.1 GB/s), mmap slices 0.16-0.22 (2.1-2.9 GB/s), the same bytes kept in memory
0.14-0.18 (2.5 GB/s). mmap saves a tenth of a second per GB, but an I/O error or a truncation under
a reader kills the process with SIGBUS. A cached tail keeps whole frames in memory for small
batches. Neither is worth it: the client saturates the second core.
"""

import errno
from collections.abc import Callable, Iterator
from struct import Struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import File, Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.retention import SegmentAge
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.index import (
    SegmentSummary,
    SparseIndex,
    load_index,
    load_summary,
    remove_index,
    store_index,
)
from josefine_broker.host.log.isolated_batch import FIND_BYTES, Place, find_isolated, read_around
from josefine_broker.host.log.read_state import ReadState
from josefine_broker.records.batch import (
    HEADER_BYTES,
    LENGTH_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP_MS,
    BatchHeader,
    parse_header,
    verify,
)
from josefine_broker.records.crc import Buffer, crc32c
from josefine_broker.records.plain_produce import Assembled

LOG_SUFFIX = ".log"
RELATIVE_OFFSET_MAX = 2**31 - 1
"""An index entry has 32 bits for an offset relative to its segment; Kafka's are signed."""

SEEK_BYTES = 8 * 1024
"""Bytes read at once to find the batch of an offset: twice the default index interval."""

NO_OFFSET, NO_END = -1, 2**63 - 1

_PEEK = Struct(">qi11xi")
"""Base offset, batch length, last offset delta: the fields a walk over headers needs."""


def stem_of(directory: str, base_offset: int) -> str:
    """Path of a segment without its suffix, with Kafka's file name."""
    return f"{directory}/{base_offset:020d}"


class DamagedBatchError(CorruptData):
    """The batch that should contain `offset` is damaged, although the index leads to it."""

    def __init__(self, message: str, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class Segment:
    """A segment file and the known facts about its content; sealed segments never change."""

    __slots__ = (
        "_file", "_files", "_index", "_make", "_stored", "base_offset", "end_offset",
        "first_append_ms", "is_replaced", "last_append_ms", "last_leader_epoch", "log_crc",
        "max_timestamp_ms", "max_timestamp_offset", "reads", "size_bytes", "stem",
    )  # fmt: skip

    def __init__(self, files: Files, stem: str, base_offset: int) -> None:
        self._files = files
        self._file: File | None = None
        self._index: SparseIndex | None = None
        self._make: Callable[[], None] | None = None
        self.stem = stem
        self.base_offset = base_offset
        self.reads = ReadState()
        self.is_replaced = False
        """The file name belongs, or is about to belong, to the cleaned segment that replaced it."""
        self.reset()

    def reset(self) -> None:
        """Forget everything about the content before it is read again."""
        self._index = SparseIndex()
        self._stored: SegmentSummary | None = None
        self.reads.forget()
        self.size_bytes = 0
        self.end_offset = self.base_offset
        self.max_timestamp_ms = NO_TIMESTAMP_MS
        self.max_timestamp_offset = self.base_offset
        self.first_append_ms = NO_TIMESTAMP_MS
        self.last_append_ms = NO_TIMESTAMP_MS
        self.last_leader_epoch: int = NO_LEADER_EPOCH
        self.log_crc = 0

    @classmethod
    def create(cls, files: Files, directory: str, base_offset: int) -> "Segment":
        """A new empty segment; a leftover file of the same name is emptied."""
        segment = cls(files, stem_of(directory, base_offset), base_offset)
        remove_index(files, segment.stem)
        segment._file = files.open(segment.stem + LOG_SUFFIX, create=True)
        if segment._file.size():
            segment._file.truncate(0)
        return segment

    @classmethod
    def create_later(
        cls, files: Files, directory: str, make: Callable[[], None], base_offset: int = 0
    ) -> "Segment":
        """The first segment of a log: its file is created at its first use, after `make`, which
        creates whatever must exist before."""
        segment = cls(files, stem_of(directory, base_offset), base_offset)
        segment._make = make
        return segment

    @classmethod
    def open_indexed(cls, files: Files, directory: str, base_offset: int) -> "Segment | None":
        """A segment whose stored index fits its log; None when the log has to be scanned."""
        summary = load_summary(files, stem_of(directory, base_offset))
        if summary is None or summary.base_offset != base_offset:
            return None
        segment = cls.of_summary(files, directory, summary)
        if summary.log_bytes != segment.file().size():
            segment.close()
            return None
        return segment

    @classmethod
    def of_summary(cls, files: Files, directory: str, summary: SegmentSummary) -> "Segment":
        """A segment as its stored index describes it, whatever its file is like."""
        segment = cls(files, stem_of(directory, summary.base_offset), summary.base_offset)
        (
            _, segment.size_bytes, segment.end_offset, segment.max_timestamp_ms,
            segment.max_timestamp_offset, segment.first_append_ms, segment.last_append_ms,
            segment.last_leader_epoch, segment.log_crc,
        ) = summary  # fmt: skip
        segment._index = None
        segment._stored = summary
        return segment

    def file(self) -> File:
        if self._file is None:
            is_new = self._make is not None
            if self._make is not None:
                self._make()
            file = self._files.open(self.stem + LOG_SUFFIX, create=is_new)
            if is_new and file.size():
                file.close()
                raise FileExistsError(errno.EEXIST, f"{self.stem} of a new log has content")
            self._file = file
            self._make = None
        return self._file

    @property
    def is_made(self) -> bool:
        """Whether the file exists: a log that was not written since it started has none."""
        return self._make is None

    def index(self) -> SparseIndex:
        """In memory, or read from its files. Raises CorruptData when these are damaged."""
        if self._index is None:
            index = load_index(self._files, self.stem, self.summary())
            if index is None:
                raise CorruptData(f"{self.stem}: its index is damaged")
            self._index = index
        return self._index

    @property
    def index_in_memory(self) -> SparseIndex | None:
        """None: it is only in its files."""
        return self._index

    def summary(self) -> SegmentSummary:
        return SegmentSummary(
            self.base_offset, self.size_bytes, self.end_offset, self.max_timestamp_ms,
            self.max_timestamp_offset, self.first_append_ms, self.last_append_ms,
            self.last_leader_epoch, self.log_crc,
        )  # fmt: skip

    def is_full(
        self, config: LogConfig, base_offset: int, header: BatchHeader, now_ms: int
    ) -> bool:
        """Whether a batch must start the next segment; an empty segment takes any batch."""
        relative_end = base_offset + header.last_offset_delta + 1 - self.base_offset
        return (
            self.size_bytes + header.size_bytes > config.segment_bytes
            or relative_end > RELATIVE_OFFSET_MAX
            or now_ms - self.first_append_ms >= config.segment_ms
            or (config.segment_records is not None and relative_end > config.segment_records)
        )

    def age(self) -> SegmentAge:
        """The age for retention; without record timestamps, by the time of writing."""
        newest_ms = self.max_timestamp_ms if self.max_timestamp_ms >= 0 else self.last_append_ms
        return SegmentAge(self.end_offset, self.size_bytes, newest_ms)

    def appended(
        self,
        batch: Buffer,
        base_offset: int,
        leader_epoch: int,
        header: BatchHeader,
        index_interval_bytes: int,
        now_ms: int,
    ) -> None:
        """Account for a batch that was written at the end of the file."""
        if self.size_bytes == 0:
            self.first_append_ms = now_ms
        self.last_append_ms = now_ms
        self.account(batch, base_offset, leader_epoch, header, index_interval_bytes)

    def account(
        self,
        batch: Buffer,
        base_offset: int,
        leader_epoch: int,
        header: BatchHeader,
        index_interval_bytes: int,
    ) -> None:
        """Update the facts for a batch at the end of the file: sizes, timestamps, index entry."""
        index, size = self._index, self.size_bytes
        assert index is not None
        positions = index.positions
        if not positions or size - positions[-1] >= index_interval_bytes:
            index.add(base_offset - self.base_offset, size, self.max_timestamp_ms)
        if header.max_timestamp_ms > self.max_timestamp_ms and header.record_count:
            self.max_timestamp_ms = header.max_timestamp_ms
            self.max_timestamp_offset = base_offset
        self.size_bytes = size + len(batch)
        self.end_offset = base_offset + header.last_offset_delta + 1
        self.last_leader_epoch = leader_epoch
        self.log_crc = crc32c(batch, self.log_crc)

    @property
    def last_index_position(self) -> int:
        """Position of the newest index entry of a segment that is written; -1: there is none."""
        assert self._index is not None
        positions = self._index.positions
        return positions[-1] if positions else -1

    def appended_together(self, assembled: Assembled, leader_epoch: int, now_ms: int) -> None:
        """Account for several batches that were written at the end of the file, as `appended` does
        for each."""
        data, end_offset, max_ms, max_offset, marks = assembled
        if self.size_bytes == 0:
            self.first_append_ms = now_ms
        self.last_append_ms = now_ms
        if marks:
            index = self._index
            assert index is not None
            for offset, position, before_ms in marks:
                index.add(offset - self.base_offset, position, before_ms)
        if max_offset >= 0:
            self.max_timestamp_ms, self.max_timestamp_offset = max_ms, max_offset
        self.size_bytes += len(data)
        self.end_offset = end_offset
        self.last_leader_epoch = leader_epoch
        self.log_crc = crc32c(data, self.log_crc)

    def read(
        self, offset: int, bytes_max: int, end_offset: int, at_least_one: bool
    ) -> memoryview | None:
        """Complete batches from the one that contains `offset`, entirely below `end_offset`.

        None when there is none, or none fits and `at_least_one` is not set.
        """
        start = self.reads.hints.get(offset)
        if start is None:
            start = self._seek(offset)
            self.reads.hint(offset, start)
        limit = self.size_bytes if end_offset >= self.end_offset else self._seek(end_offset)
        if start >= limit:
            self._check_beyond(start, offset, end_offset)
            return None
        file = self.file()
        if limit - start <= bytes_max:
            self.reads.hint(min(end_offset, self.end_offset), limit)
            return self._checked(file.read_at(start, limit - start), start, offset, end_offset)
        data = memoryview(file.read_at(start, max(bytes_max, _PEEK.size)))
        end = self._whole_batches(data, start, start + bytes_max)
        if end:
            return self._checked(data[:end], start, offset, end_offset)
        if not at_least_one:
            return None
        size = self._peek(data, 0, start)[1]
        return self._checked(file.read_at(start, size), start, offset, end_offset)

    def read_alone(self, offset: int, end_offset: int) -> memoryview | None:
        """The batch with `offset`, when damage near it fails a read (`isolated_batch.py`). None: it
        is intact, and reaches `end_offset`. Raises DamagedBatchError, OSError."""
        try:
            first, start = self.index().place_of_offset(offset - self.base_offset)
        except CorruptData:
            first = start = 0
        size = min(FIND_BYTES, self.size_bytes - start)
        place = Place(start, self.base_offset + first, self.size_bytes, self.end_offset)
        data, holes = read_around(self.file(), start, size), self.reads.may_have_holes
        found = find_isolated(data, place, offset, may_have_holes=holes)
        if found is None:
            raise DamagedBatchError(f"{self.stem}{LOG_SUFFIX}: no intact batch", offset)
        return found if parse_header(found).end_offset <= end_offset else None

    def _check_beyond(self, start: int, offset: int, end_offset: int) -> None:
        """The batch with `offset` should reach `end_offset`: then it is not returned yet. Raises
        DamagedBatchError when it does not, because a damaged header led the search astray."""
        size = self._peek(memoryview(self.file().read_at(start, _PEEK.size)), 0, start)[1]
        batch = self._checked(self.file().read_at(start, size), start, offset, NO_END)
        if parse_header(batch).end_offset <= end_offset:
            reason = f"{self.stem}{LOG_SUFFIX}: a damaged batch near byte {start}"
            raise DamagedBatchError(reason, offset)

    def _checked(self, data: Buffer, start: int, offset: int, end_offset: int) -> memoryview:
        """The batches read at `start`, up to the first damaged one. Raises DamagedBatchError when
        it is the one with `offset`."""
        found = memoryview(data)
        size = len(found)
        if size and self.reads.covers(start, start + size):
            return found
        # One pass over the headers, once per range: the checksum itself runs at memory speed.
        pos, next_offset, may_have_holes = 0, NO_OFFSET, self.reads.may_have_holes
        where = self._files, self.stem, self.file(), self.size_bytes
        good = self.reads.first_bad(*where, start, start + size)
        try:
            while pos < size or not size:
                header = parse_header(found, pos)
                verify(found, pos, header)
                if start + pos + header.size_bytes > good:
                    raise CorruptData(f"block at byte {good} is not what the cleaner wrote")
                # The checksum leaves out the base offset, so it is compared with its neighbours.
                if not next_offset <= header.base_offset <= header.last_offset < end_offset:
                    raise CorruptData(f"a batch with base offset {header.base_offset}")
                expected = next_offset if pos else offset
                is_next = may_have_holes or header.base_offset == expected
                # A read may start within a batch: then the search must lead there, too.
                is_later = header.base_offset > expected
                if not is_next and (pos or is_later or self._seek(offset) != start):
                    raise CorruptData(f"offset {header.base_offset}, expected {expected}")
                if header.last_offset < offset:
                    raise CorruptData(f"a batch that ends at offset {header.last_offset}")
                next_offset = header.end_offset
                pos += header.size_bytes
        except CorruptData as error:
            if pos == 0:
                reason = f"{self.stem}{LOG_SUFFIX}: damaged at byte {start}: {error}"
                raise DamagedBatchError(reason, offset) from error
        self.reads.add(start, start + pos)
        return found[:pos]

    def _whole_batches(self, data: memoryview, start: int, stop: int) -> int:
        """The number of bytes in `data`, read at `start`, of complete batches ending by `stop`.

        Starts from the last index entry before `stop`, so that few headers are examined.
        """
        pos = max(0, self.index().position_before(stop) - start)
        next_offset = -1
        room = min(stop - start, len(data))
        while room - pos >= _PEEK.size:
            base_offset, size, last_offset = self._peek(data, pos, start)
            if size > room - pos:
                next_offset = base_offset
                break
            pos += size
            next_offset = last_offset + 1
        if next_offset >= 0:
            self.reads.hint(next_offset, start + pos)
        return pos

    def _seek(self, offset: int) -> int:
        """Position of the first batch that ends past `offset`; the segment's size if none does.

        For an offset this is where reading starts; for an end offset, where reading stops.
        """
        if offset <= self.base_offset:
            return 0
        if offset >= self.end_offset:
            return self.size_bytes
        next_offset, position = self.index().place_of_offset(offset - self.base_offset)
        next_offset += self.base_offset
        file, size = self.file(), self.size_bytes
        while position < size:
            data = memoryview(file.read_at(position, min(SEEK_BYTES, size - position)))
            pos = 0
            while len(data) - pos >= _PEEK.size:
                base_offset, batch_bytes, last_offset = self._peek(data, pos, position)
                # A damaged header leads astray: then the next one does not follow it.
                is_next = base_offset == next_offset or (
                    base_offset > next_offset and self.reads.may_have_holes
                )
                if not is_next or last_offset >= self.end_offset:
                    raise CorruptData(f"{self.stem}: offset {base_offset} at {position + pos}")
                if last_offset >= offset:
                    return position + pos
                next_offset = last_offset + 1
                pos += batch_bytes
            if pos == 0:
                raise CorruptData(f"{self.stem}: {len(data)} bytes at {position} are not a batch")
            position += pos
        # A damaged length leads past batches, and the end would be remembered as the place of
        # `offset`. Only compaction leaves a segment that has no batch up to its end offset.
        if position > size or not self.reads.may_have_holes:
            raise CorruptData(f"{self.stem}: no batch with offset {offset}")
        return size

    def _end_below(self, end_offset: int) -> int:
        """End position of the batches entirely below it; works with a damaged index too."""
        try:
            self.index()
        except CorruptData:
            found = (at for at, header, _ in self.batches() if header.end_offset > end_offset)
            return next(found, self.size_bytes)
        return self._seek(end_offset)

    def _peek(self, data: memoryview, pos: int, position: int) -> tuple[int, int, int]:
        """(base offset, size in bytes, last offset) of the batch at `pos` of `data`."""
        if len(data) - pos < _PEEK.size:
            raise CorruptData(f"{self.stem}: the file ends at byte {position + len(data)}")
        base_offset, length, last_offset_delta = _PEEK.unpack_from(data, pos)
        if length < HEADER_BYTES - LENGTH_OVERHEAD_BYTES or last_offset_delta < 0:
            raise CorruptData(f"{self.stem}: no batch at byte {position + pos}: length {length}")
        return base_offset, length + LENGTH_OVERHEAD_BYTES, base_offset + last_offset_delta

    def batches(self, position: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        return walk_batches(self.file(), position, self.size_bytes)

    def truncate_to(self, end_offset: int, index_interval_bytes: int) -> None:
        """Cut every batch that reaches `end_offset` or past it; the index shrinks with it."""
        try:
            position = self._end_below(end_offset)
        except OSError as error:
            if error.errno == errno.EIO:
                raise CorruptData(f"{self.stem}{LOG_SUFFIX}: {error}") from error
            raise
        finally:
            remove_index(self._files, self.stem)
        self.file().truncate(position)
        first_append_ms, last_append_ms = self.first_append_ms, self.last_append_ms
        self.reset()
        self.first_append_ms, self.last_append_ms = first_append_ms, last_append_ms
        for at, header, batch in walk_batches(self.file(), 0, position):
            # Or the checksum over all bytes would be one of damaged bytes, which no repair meets.
            verify(batch, 0, header)
            if not self.end_offset <= header.base_offset <= header.last_offset < end_offset:
                raise CorruptData(f"{self.stem}: offset {header.base_offset} at {at}")
            self.account(
                batch, header.base_offset, header.leader_epoch, header, index_interval_bytes
            )

    def seal(self) -> None:
        """Sync the log, then store its index; does nothing when the stored one fits."""
        if self.is_sealed:
            return
        self.file().sync()
        self.store_index()

    def take_index(self, rebuilt: "Segment") -> None:
        """Use the index of this copy of the segment, which was made from the same bytes."""
        self._index, self._stored = rebuilt._index, None
        self.reads.forget()

    def store_index(self) -> None:
        """Store the index. It proves that the log is durable: sync the log first."""
        store_index(self._files, self.stem, self.summary(), self.index())
        self._stored = self.summary()

    @property
    def is_sealed(self) -> bool:
        """Whether its index is stored, and so its log was synced."""
        return self._stored is not None and self._stored == self.summary()

    def cool(self) -> None:
        """Release the file descriptor and the index of a sealed segment; both come back when
        used."""
        self.close()
        self._index = None
        self.reads.forget()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def delete(self) -> None:
        self.close()
        remove_index(self._files, self.stem)
        self._files.remove(self.stem + LOG_SUFFIX)
