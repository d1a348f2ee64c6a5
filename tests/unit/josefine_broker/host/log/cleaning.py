"""What the tests of the log cleaner share: keyed records, a pass run in line, a disk that cuts."""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping, Sequence

from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.cleaning import SegmentFacts, dirt_of
from josefine_broker.host.log.cleaning_pass import CleaningPass, Hands, PassReport
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.records.batch import iter_batches, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records
from tests.simulation.memory_files import MemoryFile, MemoryFiles
from tests.unit.josefine_broker.host.log.support import NOW_MS

COMPACT = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_bytes=1_000,
    segment_records=6,
    index_interval_bytes=100,
    delete_retention_ms=100,
)
MAP_BYTES = 1 << 16

Pair = tuple[bytes | None, bytes | None]


def append_keyed(
    log: PartitionLog,
    pairs: Sequence[Pair],
    *,
    epoch: int = 0,
    now_ms: int = NOW_MS,
    **options: int,
) -> int:
    """Append one batch; its base offset."""
    records = [Record(key, value, (), now_ms) for key, value in pairs]
    batch = build_batch(records, **options)
    stamp(batch, 0, log.log_end_offset, epoch)
    return log.append(memoryview(batch), parse_header(batch), now_ms)


def read_from(log: PartitionLog, offset: int, bytes_max: int) -> tuple[list[Record], int]:
    """One read as a consumer makes it: records from the offset on, and where it goes on."""
    found = []
    for buffer in log.read(offset, bytes_max):
        for pos, header in iter_batches(buffer):
            records = read_records(buffer[pos : pos + header.size_bytes])
            found += [record for record in records if record.offset >= offset]
            offset = max(offset, header.end_offset)
    return found, offset


def records_of(log: PartitionLog, bytes_max: int = 1 << 16) -> list[Record]:
    """All of them, read as a consumer reads."""
    found: list[Record] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        more, after = read_from(log, offset, bytes_max)
        assert after > offset, f"nothing at {offset} of {log.log_end_offset}"
        found += more
        offset = after
    return found


def latest_of(records: Sequence[Record]) -> dict[bytes | None, bytes | None]:
    """What a reader of a table has in the end: deleted keys are gone."""
    found = {record.key: record.value for record in records}
    return {key: value for key, value in found.items() if value is not None}


def begin_pass(
    files: MemoryFiles,
    log: PartitionLog,
    *,
    now_ms: int = NOW_MS,
    producers: Mapping[int, int] | None = None,
    map_bytes: int = MAP_BYTES,
    high_watermark: int | None = None,
) -> CleaningPass | None:
    """A pass over all that can be cleaned; None: nothing can."""
    facts = [
        SegmentFacts(each.base_offset, each.end_offset, each.size_bytes, 0, 0)
        for each in log.cleaning.sealed()
    ]
    dirt = dirt_of(
        facts,
        log.config,
        now_ms=now_ms,
        log_start_offset=log.log_start_offset,
        cleaned_to=log.cleaning.cleaned_to,
        end_offset_max=log.log_end_offset if high_watermark is None else high_watermark,
    )
    if dirt is None:
        return None
    return CleaningPass(files, log, dirt, producers or {}, now_ms=now_ms, map_bytes_max=map_bytes)


def clean(
    files: MemoryFiles,
    log: PartitionLog,
    hands: Hands | None = None,
    *,
    now_ms: int = NOW_MS,
    map_bytes: int = MAP_BYTES,
    producers: Mapping[int, int] | None = None,
    high_watermark: int | None = None,
) -> PassReport:
    """One pass, here and now."""
    found = begin_pass(
        files,
        log,
        now_ms=now_ms,
        producers=producers,
        map_bytes=map_bytes,
        high_watermark=high_watermark,
    )
    assert found is not None, "nothing can be cleaned"
    found.run(hands or Hands())
    return found.report


class Killed(BaseException):
    """The process is no more."""


class CutFile(MemoryFile):
    """Counts what changes it; a write that is cut leaves half of it."""

    def write_at_end(self, buffers: Sequence[bytes | bytearray | memoryview]) -> int:
        files = self._cut_files()
        if files.is_last():
            data = b"".join(buffers)
            super().write_at_end([data[: len(data) // 2]])
        files.count()
        return super().write_at_end(buffers)

    def truncate(self, size: int) -> None:
        self._cut_files().count()
        super().truncate(size)

    def sync(self) -> None:
        self._cut_files().count()
        super().sync()

    def _cut_files(self) -> CutFiles:
        assert isinstance(self._files, CutFiles)
        return self._files


class CutFiles(MemoryFiles):
    """A disk that fails at the n-th operation that changes it; at `Killed` also at all behind it,
    for nobody is left to tidy up."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.fails_at: int | None = None
        self.error: Callable[[], BaseException] = Killed
        self.is_dead = False

    def is_last(self) -> bool:
        return self.operations == self.fails_at

    def count(self) -> None:
        if self.is_dead:
            raise Killed
        fails = self.is_last()
        self.operations += 1
        if fails:
            error = self.error()
            self.is_dead = isinstance(error, Killed)
            raise error

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        if create and path not in self.names:
            self.count()
        file = super().open(path, create=create)
        return CutFile(self, file._inode, path)

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        self.count()
        super().rename(old, new, durable=durable)

    def remove(self, path: str) -> None:
        if path in self.names:
            self.count()
        super().remove(path)

    def sync_directory(self, directory: str) -> None:
        self.count()
        super().sync_directory(directory)


def io_error() -> OSError:
    """Of a disk that dies."""
    return OSError(errno.EIO, "the disk failed")


def no_space() -> OSError:
    """Of a full one."""
    return OSError(errno.ENOSPC, "no space left")
