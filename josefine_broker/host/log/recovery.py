"""Recovery of a partition's segments after a clean or unclean stop, and the report about it.

Rules: a segment whose stored index fits its log was synced and is used as it is. Any other is read
from its first byte, every checksum and leader epoch verified, and cut at the first byte that is not
part of a complete, valid batch. Unsynced segments after a cut, or after a missing first segment,
are removed, because a log has no holes. Where the cut, or a missing file, would remove data that is
known to have been synced (a synced segment follows, or the mark in `disk/synced_mark.py` is past
it), a crash cannot be the cause: opening is refused and nothing is changed. Offsets below the
stored log start never come back.

The report states what may still be believed of the log (`metadata/log_completeness.py`). Only a log
without other replicas may be cut without a doubt, where its end looks like the unfinished write of
a killed process: a shortened file looks the same, and another replica may have what it had. Any
other cut is recorded in the directory first, durably: after a crash the shortened log must not look
complete.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.synced_mark import SYNCED_MARK_FILE, SyncedRange
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.cleaned_sums import forget_sums
from josefine_broker.host.log.epoch_witness import EpochWitness
from josefine_broker.host.log.index import INDEX_SUFFIX, SUMS_SUFFIX, TIME_INDEX_SUFFIX
from josefine_broker.host.log.intact_tail import find_tail, starts_intact
from josefine_broker.host.log.isolated_batch import check_not_overtaken, read_around
from josefine_broker.host.log.log_state import NEW_PARTITION_FILE, LogState
from josefine_broker.host.log.segment import (
    LOG_SUFFIX,
    RELATIVE_OFFSET_MAX,
    Segment,
    stem_of,
)
from josefine_broker.host.log.segment_swap import end_swaps
from josefine_broker.records.batch import is_torn, verify

_OFFSET_DIGITS = 20
"""Kafka's file names: the base offset with leading zeros, so that names sort as offsets."""
_TEMPORARY_SUFFIX = ".tmp"
"""Of a file that is written before a rename. Without the rename it never counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The work that opening a log took. `line` is None when nothing was recovered."""

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
    completeness: Completeness = Completeness.COMPLETE
    """As far as the files show; the high watermark and the machine's boot may show more."""
    unsynced_from: int = 2**63 - 1
    """With a hole: nothing from this offset on was known to be synced."""

    @property
    def may_lack(self) -> bool:
        """Whether this recovery found the log shorter than the records that may have been
        confirmed. An unfinished write alone is a reason to ask, not to alert anybody."""
        return not self.completeness.may_lead

    @property
    def line(self) -> str | None:
        """One line for the log."""
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


class Tally:
    """The mutable counters of one recovery."""

    def __init__(self, state: LogState, config: LogConfig, *, keeps_tail: bool = False) -> None:
        self.state = state
        self.keeps_tail = keeps_tail
        """Settled before anything is synced."""
        self.witness = EpochWitness(state, may_have_holes=config.may_have_holes)
        self.synced = state.synced.read()
        self.segments_scanned = 0
        self.batches_scanned = 0
        self.bytes_scanned = 0
        self.bytes_cut = 0
        self.cut_at = ""
        self.segments_removed = 0
        self.unsealed: list[Segment] = []
        """Read to their end, and followed by another: sealed unless recovery is refused."""
        self.completeness = Completeness.COMPLETE

    def note(self, found: Completeness) -> None:
        """Call before a cut that may remove confirmed records. Raises OSError."""
        self.completeness = self.completeness.or_worse(found)
        self.state.settle()
        self.state.store_completeness(self.completeness)

    def report(
        self,
        directory: str,
        segments: Sequence[Segment],
        log_start_offset: int,
        *,
        clean_shutdown: bool,
    ) -> RecoveryReport:
        """The counters, and the offsets of the recovered segments; at least one."""
        return RecoveryReport(
            directory=directory,
            clean_shutdown=clean_shutdown,
            log_start_offset=max(log_start_offset, segments[0].base_offset),
            log_end_offset=segments[-1].end_offset,
            segments_scanned=self.segments_scanned,
            batches_scanned=self.batches_scanned,
            bytes_scanned=self.bytes_scanned,
            bytes_cut=self.bytes_cut,
            cut_at=self.cut_at,
            segments_removed=self.segments_removed,
            completeness=self.completeness,
        )


def recover(
    files: Files,
    directory: str,
    config: LogConfig,
    state: LogState,
    clean_shutdown: bool,
    now_ms: int,
    *,
    keeps_tail: bool = False,
) -> tuple[list[Segment], RecoveryReport]:
    """All segments of a log in order, at least one, the last one ready for appends.

    Raises CorruptData, with nothing changed on disk, for damage beyond an unsynced tail; with
    `keeps_tail` also for damage that intact batches follow, synced or not.
    """
    # First: a swap that a crash interrupted decides which segment files count at all.
    end_swaps(files, directory)
    tally = Tally(state, config, keeps_tail=keeps_tail)
    # A previous recovery may have recorded a loss that no fetch has repaired since.
    tally.completeness = state.completeness()
    log_start_offset = state.log_start_offset()
    # A new partition has only its marker. An empty directory of an old one has lost everything.
    is_new = set(files.list(directory)) <= {NEW_PARTITION_FILE}
    _remove_behind_lost_start(files, directory, log_start_offset, tally)
    segments = _recover_segments(files, directory, config, log_start_offset, now_ms, tally)
    # After the scan, because only now are both ends of what is left known.
    _refuse_missing(directory, segments, log_start_offset, tally.synced)
    for segment in tally.unsealed:
        if segment is not segments[-1]:  # it became the last one because a hole follows
            # An unsealed segment is valid up to its end: only its index was not stored.
            state.settle()
            segment.seal()
            segment.cool()
    _tidy(files, directory, log_start_offset)
    if not segments or segments[-1].end_offset < log_start_offset:
        # A power loss took records below the log start: their offsets must not be assigned again.
        if log_start_offset or not is_new:
            tally.note(Completeness.MISSING)
        for segment in segments:
            segment.delete()
        segments = [Segment.create(files, directory, log_start_offset)]
        if not is_new:  # otherwise a power loss may take it and leave its successor
            files.sync_directory(directory)
    forget_sums(files, segments[-1].stem, config)
    if segments[0].base_offset > max(log_start_offset, tally.synced.start):
        tally.note(Completeness.MISSING)  # the log start is stored before its segments are removed
        # Its next sync proves nothing about the lost part.
        state.synced.begin_at(segments[0].base_offset)
    return segments, tally.report(
        directory, segments, log_start_offset, clean_shutdown=clean_shutdown
    )


def _recover_segments(
    files: Files,
    directory: str,
    config: LogConfig,
    log_start_offset: int,
    now_ms: int,
    tally: Tally,
) -> list[Segment]:
    """The segments up to the first problem, oldest first, and the log cut there. Raises CorruptData
    before anything is removed."""
    segments: list[Segment] = []
    # Before anything is removed, both refusals must pass: no synced segment may follow the
    # problem, and the cut may not be below the synced mark. Then the loss is recorded first.
    base_offsets = live_segments(files, directory, log_start_offset)
    for at, base_offset in enumerate(base_offsets):
        later = base_offsets[at + 1 :]
        # Two segments that do not meet: a file between them is gone, so the later ones are no
        # continuation of this log.
        if segments:
            problem = _misfit(segments[-1], base_offset)
            if problem:
                end_offset = max(segments[-1].end_offset, log_start_offset)
                _refuse_synced(files, directory, base_offsets[at:], problem)
                _refuse_cut(directory, end_offset, problem, tally.synced)
                _refuse_intact(files, directory, None, base_offsets[at:], problem, tally)
                tally.note(Completeness.SHORTENED)
                _remove_behind(files, directory, base_offsets[at:], tally)
                break
        segment = Segment.open_indexed(files, directory, base_offset)
        if segment is None:
            segment = Segment(files, stem_of(directory, base_offset), base_offset)
            problem = scan(segment, config, tally, now_ms)
            if problem:
                _refuse_synced(files, directory, later, problem)
                _refuse_cut(directory, segment.end_offset, problem, tally.synced)
                _refuse_intact(files, directory, segment, later, problem, tally)
                # With segments after it, more than a torn write is lost: they held whole batches.
                if later:
                    tally.note(Completeness.SHORTENED)
                cut(segment, tally, problem)
                _remove_behind(files, directory, later, tally)
                segments.append(segment)
                break
            if later:
                tally.unsealed.append(segment)
        # Only the last segment is appended to: the others release their file descriptors.
        elif later:
            segment.cool()
        segments.append(segment)
    # The summary fits the log's size, but the index entries are damaged: they are rebuilt from the
    # log.
    if segments and not has_index(segments[-1]):
        problem = scan(segments[-1], config, tally, now_ms)
        if problem:
            _refuse_cut(directory, segments[-1].end_offset, problem, tally.synced)
            _refuse_intact(files, directory, segments[-1], [], problem, tally)
            cut(segments[-1], tally, problem)
    return segments


def scan(segment: Segment, config: LogConfig, tally: Tally, now_ms: int) -> str:
    """Read a whole segment again, verify every batch, rebuild its index; returns the problem after
    the last valid batch, empty if there is none.

    The log does not store when batches were appended: they count as appended now.
    """
    segment.reset()
    segment.first_append_ms = segment.last_append_ms = now_ms
    file = segment.file()
    size = file.size()
    if size:
        tally.segments_scanned += 1
    problem = ""
    try:
        for position, header, batch in walk_batches(file, 0, size):
            # The checksum covers neither offset nor epoch: the checks after it do.
            verify(batch, 0, header)
            check_follows(segment, header.base_offset, header.leader_epoch, config)
            if header.base_offset != segment.end_offset:  # after a hole, which may be none
                check_not_overtaken(file, position + header.size_bytes, header.end_offset)
            tally.witness.check(header, segment.last_leader_epoch if segment.size_bytes else None)
            segment.account(
                batch, header.base_offset, header.leader_epoch, header, config.index_interval_bytes
            )
            tally.batches_scanned += 1
    # Not raised: whether a cut here is allowed depends on what follows, which the caller knows.
    except CorruptData as error:
        problem = (
            f"byte {segment.size_bytes} of {segment.stem}{LOG_SUFFIX}, "
            f"offset {segment.end_offset} ({error})"
        )
    tally.bytes_scanned += segment.size_bytes
    return problem


def cut(segment: Segment, tally: Tally, problem: str) -> None:
    """End the log before the first invalid byte, durably."""
    file = segment.file()
    # Zeros for what the disk cannot read: no unfinished write looks like that.
    size = file.size() - segment.size_bytes
    tail = read_around(file, segment.size_bytes, size)
    if len(tail) != size or not is_torn(memoryview(tail)):
        tally.note(Completeness.SHORTENED)
    # A write that was never finished was never acknowledged. But a killed process rarely leaves
    # one, and a file that somebody has shortened looks the same: other replicas may have more.
    elif tally.keeps_tail:
        tally.note(Completeness.UNSYNCED)
    else:
        tally.state.settle()
    # The report needs the size before the cut.
    tally.bytes_cut += file.size() - segment.size_bytes
    tally.cut_at = problem
    file.truncate(segment.size_bytes)
    file.sync()


def check_follows(segment: Segment, base_offset: int, leader_epoch: int, config: LogConfig) -> None:
    """Check that a batch follows its predecessor: its checksum covers neither offset nor epoch.

    Raises CorruptData.
    """
    check_offset(base_offset, segment.end_offset, config)
    if base_offset - segment.base_offset > RELATIVE_OFFSET_MAX:
        raise CorruptData(f"a batch with base offset {base_offset}, which no segment reaches")
    if leader_epoch < segment.last_leader_epoch:
        raise CorruptData(
            f"a batch of leader epoch {leader_epoch} after one of {segment.last_leader_epoch}"
        )


def check_offset(base_offset: int, expected: int, config: LogConfig) -> None:
    """Only compaction leaves holes. Raises CorruptData."""
    if base_offset != expected and not (base_offset > expected and config.may_have_holes):
        raise CorruptData(f"a batch with base offset {base_offset}, expected {expected}")


def reindex(files: Files, segment: Segment, config: LogConfig) -> None:
    """Rebuild and store the damaged index of a sealed segment, whose log must be valid.

    Raises CorruptData, with nothing changed on disk, when the log is damaged too.
    """
    expected = segment.summary()
    # Into a copy: a reader must not see a segment that ends where the damage starts.
    copy = Segment(files, segment.stem, segment.base_offset)
    for _, header, batch in walk_batches(segment.file(), 0, segment.size_bytes):
        verify(batch, 0, header)
        check_follows(copy, header.base_offset, header.leader_epoch, config)
        copy.account(
            batch, header.base_offset, header.leader_epoch, header, config.index_interval_bytes
        )
    # The times cannot be read from the log: they are carried over.
    copy.first_append_ms, copy.last_append_ms = expected.first_append_ms, expected.last_append_ms
    # The old summary has a checksum over the whole log: with it, a batch that is valid in itself
    # but was exchanged is found, too.
    if copy.summary() != expected:
        raise CorruptData(f"{segment.stem}{LOG_SUFFIX} does not match the summary of its index")
    segment.take_index(copy)
    segment.seal()


def _remove_behind_lost_start(
    files: Files, directory: str, log_start_offset: int, tally: Tally
) -> None:
    """A power loss may remove the name of the first segment and leave those of later ones. If none
    of the rest is known to have been synced, it follows a hole like any other such segment and is
    removed; synced data is kept, in doubt, or refused."""
    base_offsets = live_segments(files, directory, log_start_offset)
    expected = max(log_start_offset, tally.synced.start)
    if not base_offsets or base_offsets[0] <= expected or tally.synced.end > expected:
        return
    for base_offset in base_offsets:
        segment = Segment.open_indexed(files, directory, base_offset)
        if segment is not None:
            segment.close()
            return
    tally.note(Completeness.MISSING)
    _remove_behind(files, directory, base_offsets, tally)


def live_segments(files: Files, directory: str, log_start_offset: int) -> list[int]:
    """Base offsets of the present segments, ascending, from the one with the log start."""
    base_offsets = _segments_found(files.list(directory))
    # The log start may lie within a segment: that one stays.
    while len(base_offsets) > 1 and base_offsets[1] <= log_start_offset:
        base_offsets.pop(0)
    return base_offsets


def _segments_found(names: Sequence[str]) -> list[int]:
    """Base offsets of all `.log` files, ascending; other names are ignored, such as `.swap`."""
    stems = (name[:_OFFSET_DIGITS] for name in names if name.endswith(LOG_SUFFIX))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def _tidy(files: Files, directory: str, log_start_offset: int) -> None:
    """Remove segments below the log start, whose deletion had started (a power loss may bring any
    of them back), half-written files, and indexes without a log."""
    names = files.list(directory)
    live = live_segments(files, directory, log_start_offset)
    for base_offset in _segments_found(names):
        if live and base_offset < live[0]:
            files.remove(stem_of(directory, base_offset) + LOG_SUFFIX)
    stems = {f"{base_offset:0{_OFFSET_DIGITS}d}" for base_offset in live}
    for name in names:
        is_index = name.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX, SUMS_SUFFIX))
        if name.endswith(_TEMPORARY_SUFFIX) or (is_index and name[:_OFFSET_DIGITS] not in stems):
            files.remove(f"{directory}/{name}")


def has_index(segment: Segment) -> bool:
    """The last segment is appended to, so its index must be in memory."""
    try:
        segment.index()
    except CorruptData:
        segment.close()
        return False
    return True


def _misfit(segment: Segment, next_base_offset: int) -> str:
    """Why the next segment does not follow `segment`, empty when it does: compaction leaves holes
    within segments, never between two."""
    end_offset = segment.end_offset
    if next_base_offset == end_offset:
        return ""
    return (
        f"offset {end_offset}, where {segment.stem}{LOG_SUFFIX} ends and the next segment "
        f"starts at {next_base_offset}"
    )


def _refuse_synced(files: Files, directory: str, later: list[int], problem: str) -> None:
    """Segments are synced in order, so a synced one after a problem proves that no crash caused it:
    a file was damaged or removed, and a cut here would destroy intact data."""
    for base_offset in later:
        segment = Segment.open_indexed(files, directory, base_offset)
        if segment is not None:
            segment.close()
            raise CorruptData(
                f"the log is damaged at {problem}, and synced data follows at offset "
                f"{base_offset}: {_way_out(directory, 'the segments after it and ')}"
            )


def _refuse_cut(directory: str, end_offset: int, problem: str, synced: SyncedRange) -> None:
    """Refuse a cut below the offset that is known to have been synced."""
    if end_offset < synced.end:
        raise CorruptData(
            f"the log is damaged at {problem}, and had been synced up to offset {synced.end}: "
            f"{_way_out(directory)}"
        )


def _refuse_intact(
    files: Files,
    directory: str,
    damaged: Segment | None,
    later: list[int],
    problem: str,
    tally: Tally,
) -> None:
    """Other replicas may need the intact batches after the damage: they are not cut off."""
    if not tally.keeps_tail:
        return
    found = None
    if damaged is not None:
        found = find_tail(damaged.file(), damaged.size_bytes, damaged.end_offset)
    if found is not None or any(starts_intact(files, directory, each) for each in later):
        raise CorruptData(f"the log is damaged at {problem}, and intact batches follow")


def _refuse_missing(
    directory: str, segments: list[Segment], log_start_offset: int, synced: SyncedRange
) -> None:
    """Refuse when files of the synced range are missing at either end."""
    expected = max(log_start_offset, synced.start)
    start = segments[0].base_offset if segments else expected
    end = segments[-1].end_offset if segments else expected
    if synced.end > expected and (start > expected or end < synced.end):
        raise CorruptData(
            f"the log in {directory} has offsets {start} to {end}, and had been synced from "
            f"{expected} to {synced.end}: {_way_out(directory)}"
        )


def _way_out(directory: str, also: str = "") -> str:
    """What an operator can do; the same three ways for every refusal."""
    return (
        f"restore the file, or remove {directory} to have it copied from another replica, or "
        f"remove {also}{directory}/{SYNCED_MARK_FILE} to continue without the lost data"
    )


def _remove_behind(files: Files, directory: str, base_offsets: list[int], tally: Tally) -> None:
    """Remove segments after a cut, newest first: a crash in between leaves no hole."""
    for base_offset in reversed(base_offsets):
        segment = Segment(files, stem_of(directory, base_offset), base_offset)
        tally.bytes_cut += segment.file().size()
        tally.cut_at = tally.cut_at or f"offset {base_offset} (a hole before it)"
        tally.segments_removed += 1
        segment.delete()
    if base_offsets:
        files.sync_directory(directory)
