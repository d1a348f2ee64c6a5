"""Brings a partition's segments back after a stop, clean or not, and reports what that took.

Rules: a segment whose stored index fits its log was synced and is taken as it is. Any other is read
from its first byte, every checksum verified, and cut at the first byte that is not part of a whole,
right batch; segments behind a cut are removed, for a log has no holes. Offsets that were handed
out never come back: an emptied log starts again at the recorded log start.
"""

from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.core.log_config import LogConfig
from josefine_broker.records.batch import verify
from josefine_broker.shell.index import INDEX_SUFFIX, TIME_INDEX_SUFFIX
from josefine_broker.shell.segment import LOG_SUFFIX, Segment, stem_of, walk_batches

_OFFSET_DIGITS = 20
_TEMPORARY_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """What opening a log had to do. `line` is None when there was nothing to recover."""

    directory: str
    clean_shutdown: bool
    log_start_offset: int
    log_end_offset: int
    segments_scanned: int = 0
    batches_scanned: int = 0
    bytes_scanned: int = 0
    bytes_cut: int = 0
    cut_at: str = ""
    """File, byte and reason of the cut; empty when nothing was cut."""
    segments_removed: int = 0

    @property
    def line(self) -> str | None:
        if not (self.bytes_cut or self.segments_removed or self.segments_scanned):
            return None
        parts = [
            f"{self.directory}: read {self.segments_scanned} segments, {self.batches_scanned} "
            f"batches, {self.bytes_scanned} bytes after "
            f"{'a clean' if self.clean_shutdown else 'an unclean'} shutdown"
        ]
        if self.bytes_cut:
            parts.append(f"cut {self.bytes_cut} bytes at {self.cut_at}")
        if self.segments_removed:
            parts.append(f"removed {self.segments_removed} later segments")
        parts.append(f"offsets {self.log_start_offset} to {self.log_end_offset}")
        return "; ".join(parts)


class _Tally:
    """The one mutable count of a recovery."""

    def __init__(self) -> None:
        self.segments_scanned = 0
        self.batches_scanned = 0
        self.bytes_scanned = 0
        self.bytes_cut = 0
        self.cut_at = ""
        self.segments_removed = 0


def recover(
    files: Files, directory: str, config: LogConfig, log_start_offset: int, clean_shutdown: bool
) -> tuple[list[Segment], RecoveryReport]:
    """All segments of a log in order, at least one, the last one ready for appends."""
    tally = _Tally()
    segments: list[Segment] = []
    base_offsets = _tidy(files, directory)
    for at, base_offset in enumerate(base_offsets):
        later = base_offsets[at + 1 :]
        if segments and base_offset < segments[-1].end_offset:
            raise CorruptData(
                f"{directory}: segment {base_offset} begins within the one before, "
                f"which ends at {segments[-1].end_offset}"
            )
        segment = Segment.open_indexed(files, directory, base_offset)
        if segment is not None and (later or _has_index(segment)):
            _refuse_hole(segment, later, config)
            segments.append(segment)
            if later:
                segment.cool()
            continue
        segment = Segment(files, stem_of(directory, base_offset), base_offset)
        segments.append(segment)
        if not scan(segment, config, tally) or _has_hole(segment, later, config):
            _remove_behind(files, directory, later, tally)
            break
        if later:
            segment.seal()
            segment.cool()
    segments = _drop_below_start(segments, log_start_offset)
    if not segments:
        segments = [Segment.create(files, directory, log_start_offset)]
        files.sync_directory(directory)
    report = RecoveryReport(
        directory=directory,
        clean_shutdown=clean_shutdown,
        log_start_offset=max(log_start_offset, segments[0].base_offset),
        log_end_offset=segments[-1].end_offset,
        segments_scanned=tally.segments_scanned,
        batches_scanned=tally.batches_scanned,
        bytes_scanned=tally.bytes_scanned,
        bytes_cut=tally.bytes_cut,
        cut_at=tally.cut_at,
        segments_removed=tally.segments_removed,
    )
    return segments, report


def scan(segment: Segment, config: LogConfig, tally: _Tally) -> bool:
    """Read a whole segment anew, verify every batch, rebuild its index; False when it was cut."""
    segment.reset()
    file = segment.file()
    size = file.size()
    if size:
        tally.segments_scanned += 1
    reason = ""
    try:
        for _, header, batch in walk_batches(file, 0, size):
            verify(batch, 0, header)
            check_follows(segment, header.base_offset, header.leader_epoch, config)
            segment.account(
                batch, header.base_offset, header.leader_epoch, header, config.index_interval_bytes
            )
            tally.batches_scanned += 1
    except CorruptData as error:
        reason = str(error)
    tally.bytes_scanned += segment.size_bytes
    if segment.size_bytes == size:
        return True
    tally.bytes_cut += size - segment.size_bytes
    tally.cut_at = (
        f"byte {segment.size_bytes} of {segment.stem}{LOG_SUFFIX}, offset {segment.end_offset} "
        f"({reason})"
    )
    file.truncate(segment.size_bytes)
    file.sync()
    return False


def check_follows(segment: Segment, base_offset: int, leader_epoch: int, config: LogConfig) -> None:
    """Offset and leader epoch lie outside a batch's checksum: they must follow what is before.

    Raises CorruptData.
    """
    check_offset(base_offset, segment.end_offset, config)
    if leader_epoch < segment.last_leader_epoch:
        raise CorruptData(
            f"a batch of leader epoch {leader_epoch} behind one of {segment.last_leader_epoch}"
        )


def check_offset(base_offset: int, expected: int, config: LogConfig) -> None:
    """Only compaction leaves holes. Raises CorruptData."""
    if base_offset != expected and not (base_offset > expected and config.compacts):
        raise CorruptData(f"a batch with base offset {base_offset}, expected {expected}")


def reindex(segment: Segment, config: LogConfig) -> None:
    """Rebuild and store the damaged index of a sealed segment, whose log must be right.

    Raises CorruptData, with nothing changed on disk, when the log is damaged too.
    """
    end, first_ms, last_ms = segment.size_bytes, segment.first_append_ms, segment.last_append_ms
    expected = segment.summary()
    segment.reset()
    for _, header, batch in walk_batches(segment.file(), 0, end):
        verify(batch, 0, header)
        check_follows(segment, header.base_offset, header.leader_epoch, config)
        segment.account(
            batch, header.base_offset, header.leader_epoch, header, config.index_interval_bytes
        )
    segment.first_append_ms, segment.last_append_ms = first_ms, last_ms
    if segment.summary() != expected:
        raise CorruptData(f"{segment.stem}{LOG_SUFFIX} is not what its index was made from")
    segment.seal()


def _tidy(files: Files, directory: str) -> list[int]:
    """Base offsets of the segments there, ascending; half-written files and indexes without a
    log are removed."""
    names = files.list(directory)
    logs = {
        name[:_OFFSET_DIGITS]
        for name in names
        if name.endswith(LOG_SUFFIX) and name[:_OFFSET_DIGITS].isdigit()
    }
    for name in names:
        orphan = (
            name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and name[:_OFFSET_DIGITS] not in logs
        )
        if orphan or name.endswith(_TEMPORARY_SUFFIX):
            files.remove(f"{directory}/{name}")
    return sorted(map(int, logs))


def _has_index(segment: Segment) -> bool:
    """The last segment is appended to, so its index must be in memory."""
    try:
        segment.index()
    except CorruptData:
        segment.close()
        return False
    return True


def _has_hole(segment: Segment, later: list[int], config: LogConfig) -> bool:
    return bool(later) and later[0] > segment.end_offset and not config.compacts


def _refuse_hole(segment: Segment, later: list[int], config: LogConfig) -> None:
    """A synced segment cannot have lost its end: somebody took a file away, so touch nothing."""
    if _has_hole(segment, later, config):
        raise CorruptData(
            f"{segment.stem}{LOG_SUFFIX} ends at offset {segment.end_offset}, the next segment "
            f"begins at {later[0]}: a segment file between them is missing"
        )


def _remove_behind(files: Files, directory: str, base_offsets: list[int], tally: _Tally) -> None:
    """Segments behind a cut, newest first: a crash on the way leaves no hole."""
    for base_offset in reversed(base_offsets):
        segment = Segment(files, stem_of(directory, base_offset), base_offset)
        tally.bytes_cut += segment.file().size()
        tally.cut_at = tally.cut_at or f"segment {segment.stem}{LOG_SUFFIX} (a hole before it)"
        tally.segments_removed += 1
        segment.delete()
    if base_offsets:
        files.sync_directory(directory)


def _drop_below_start(segments: list[Segment], log_start_offset: int) -> list[Segment]:
    """Without the segments that a deletion had passed but not yet removed. An emptied last one
    stays when it ends at the log start: it is where offsets go on."""
    kept = list(segments)
    while len(kept) > 1 and kept[0].end_offset <= log_start_offset:
        kept.pop(0).delete()
    if kept and kept[0].end_offset < log_start_offset:
        kept.pop(0).delete()
    return kept
