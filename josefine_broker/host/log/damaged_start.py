"""Opening a log whose files are damaged beyond what a crash may cause, so that it can be repaired.

Recovery refuses such a log and changes nothing, because a cut would destroy intact data
(`recovery.py`). A log with other replicas is opened all the same: each damaged or missing segment
keeps its place among the others, with the offsets that its neighbours, its index or the synced mark
prove, and is repaired like damage that a read has found. Nothing is removed: until a segment is
repaired, the next start finds the same files.

A log of which no segment file is left has nothing that could be lost: it starts empty, in doubt,
and is copied from its leader.
"""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.cleaned_sums import forget_sums
from josefine_broker.host.log.index import INDEX_SUFFIX, load_summary
from josefine_broker.host.log.intact_tail import find_tail
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.recovery import (
    RecoveryReport,
    Tally,
    cut,
    has_index,
    live_segments,
    recover,
    scan,
)
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment, stem_of


class Suspect(NamedTuple):
    """A segment that is damaged or missing."""

    segment: Segment
    offset: int
    reason: str
    is_checksum_known: bool
    """Whether the checksum over all of its bytes is known, from its index."""
    is_end_known: bool = False
    """Whether intact batches up to the end of its file show that it never reached further."""


def recover_for_repair(
    files: Files,
    directory: str,
    config: LogConfig,
    state: LogState,
    clean_shutdown: bool,
    now_ms: int,
    *,
    is_damaged: bool,
    keeps_tail: bool,
) -> tuple[list[Segment], RecoveryReport, list[Suspect]]:
    """As `recovery.recover`; with `is_damaged` also a log that it refuses, with the damage. Raises
    CorruptData, OSError."""
    where = files, directory, config, state, clean_shutdown, now_ms
    try:
        return *recover(*where, keeps_tail=keeps_tail or is_damaged), []
    except (CorruptData, OSError) as error:
        if not is_damaged or (isinstance(error, OSError) and error.errno != errno.EIO):
            raise
        return _recover_damaged(files, directory, config, state, now_ms)


def _recover_damaged(
    files: Files, directory: str, config: LogConfig, state: LogState, now_ms: int
) -> tuple[list[Segment], RecoveryReport, list[Suspect]]:
    tally = Tally(state, config, keeps_tail=True)
    # A recovery before, possibly the one that has just refused the log, may have cut it.
    tally.completeness = state.completeness()
    log_start_offset = state.log_start_offset()
    segments, suspects = _found(files, directory, log_start_offset, config, tally, now_ms)
    if segments and segments[-1].end_offset <= log_start_offset:
        # All that is left was deleted, the damage, too: no other replica could send it.
        if segments[-1].end_offset < log_start_offset:
            tally.note(Completeness.MISSING)
        for segment in segments:
            segment.delete()
        segments, suspects = [], []
        files.sync_directory(directory)
    # Appends continue in an intact segment, never in one that is being repaired.
    if not segments or any(each.segment is segments[-1] for each in suspects):
        end = segments[-1].end_offset if segments else log_start_offset
        segments.append(Segment.create(files, directory, end))
    elif not has_index(segments[-1]):
        problem = scan(segments[-1], config, tally, now_ms)
        if problem:
            raise CorruptData(f"{directory}: {problem}")
    for segment in segments[:-1]:
        segment.close()
    forget_sums(files, segments[-1].stem, config)
    report = tally.report(directory, segments, log_start_offset, clean_shutdown=False)
    # A hole past the mark stays one that a crash may have left, whatever is synced around it.
    state.synced.is_held = bool(suspects)
    return segments, replace(report, unsynced_from=tally.synced.end), suspects


def _found(
    files: Files,
    directory: str,
    log_start_offset: int,
    config: LogConfig,
    tally: Tally,
    now_ms: int,
) -> tuple[list[Segment], list[Suspect]]:
    """All segments that exist or did, oldest first, and which of them are damaged. Raises
    CorruptData, OSError."""
    segments: list[Segment] = []
    suspects: list[Suspect] = []
    if not any(name.endswith(LOG_SUFFIX) for name in files.list(directory)):
        tally.note(Completeness.MISSING)
        tally.state.synced.lower_to(log_start_offset)
        return segments, suspects
    bases = _bases(files, directory, log_start_offset)
    end = max(log_start_offset, tally.synced.start)
    if bases and bases[0] < end:
        end = bases[0]  # the log start is within the first segment
    # What is certain of a segment's end: its index, the next segment, the synced mark.
    for at, base_offset in enumerate(bases):
        if base_offset < end:
            raise CorruptData(f"{directory}: segment {base_offset} starts before offset {end}")
        if base_offset > end:
            _add_hole(files, directory, end, base_offset, segments, suspects)
        following = bases[at + 1] if at + 1 < len(bases) else None
        found = _open(files, directory, base_offset, following, config, tally, now_ms)
        if isinstance(found, Suspect):
            suspects.append(found)
            found = found.segment
        segments.append(found)
        end = found.end_offset
    # The damage may hide how far the log reached: its end may have been acknowledged.
    is_hidden = bool(suspects) and suspects[-1].segment is segments[-1]
    if end < tally.synced.end or (is_hidden and not suspects[-1].is_end_known):
        tally.note(Completeness.SHORTENED)
    if end < tally.synced.end:
        _add_hole(files, directory, end, tally.synced.end, segments, suspects)
    return segments, suspects


def _bases(files: Files, directory: str, log_start_offset: int) -> list[int]:
    """Base offsets of segments that exist or did: an index is removed before its log is."""
    names = files.list(directory)
    indexed = [int(name.removesuffix(INDEX_SUFFIX)) for name in names if _is_index(name)]
    known = [each for each in indexed if load_summary(files, stem_of(directory, each)) is not None]
    bases = sorted({*live_segments(files, directory, 0), *known})
    while len(bases) > 1 and bases[1] <= log_start_offset:
        bases.pop(0)
    return bases


def _is_index(name: str) -> bool:
    return name.endswith(INDEX_SUFFIX) and name.removesuffix(INDEX_SUFFIX).isdigit()


def _open(
    files: Files,
    directory: str,
    base_offset: int,
    following: int | None,
    config: LogConfig,
    tally: Tally,
    now_ms: int,
) -> Segment | Suspect:
    """A segment as it is, or the suspicion about it. Raises CorruptData, OSError."""
    stem = stem_of(directory, base_offset)
    path = f"{stem}{LOG_SUFFIX}"
    is_there = path.rpartition("/")[2] in files.list(directory)
    if is_there:
        segment = Segment.open_indexed(files, directory, base_offset)
        if segment is not None:
            return segment
    summary = load_summary(files, stem)
    # An index that is older than its log has fewer bytes than the log, never more.
    if summary is not None and summary.base_offset == base_offset:
        is_proven = following == summary.end_offset or (
            following is None and summary.end_offset <= tally.synced.end
        )
        segment = Segment.of_summary(files, directory, summary)
        size = segment.file().size() if is_there else 0
        segment.close()
        if is_proven and size < summary.log_bytes:
            what = f"has {size} bytes, expected {summary.log_bytes}" if is_there else "is missing"
            return Suspect(segment, base_offset, f"{path} {what}", is_checksum_known=True)
    if not is_there:
        raise CorruptData(f"{path} is missing, and its index does not fit the log")
    segment = Segment(files, stem, base_offset)
    try:
        problem = scan(segment, config, tally, now_ms)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        problem = f"byte {segment.size_bytes} of {path}: {error}"
    offset = segment.end_offset
    if not problem and following in (None, offset):
        return segment
    reason = problem or f"{path} is shortened"
    end, is_end_known = following, False
    if following is None:
        tail = find_tail(segment.file(), segment.size_bytes, offset)
        if tail is None and offset >= tally.synced.end:
            # As recovery does: nothing past it is intact, or known to be synced.
            cut(segment, tally, problem)
            return segment
        end = max(tally.synced.end, offset if tail is None else tail.end_offset)
        is_end_known = tail is not None and tail.is_end_known and tail.end_offset >= end
        if tail is not None and tail.end_position < segment.file().size():
            tally.note(Completeness.UNSYNCED)  # as recovery does for what looks unfinished
    assert end is not None
    segment.end_offset = end
    # Reads look for the intact batches after the damage, too: other replicas may need them.
    segment.size_bytes = segment.file().size()
    return Suspect(segment, offset, reason, is_checksum_known=False, is_end_known=is_end_known)


def _add_hole(
    files: Files,
    directory: str,
    start: int,
    end: int,
    segments: list[Segment],
    suspects: list[Suspect],
) -> None:
    """A segment of which nothing is left: neither file nor index."""
    segment = Segment(files, stem_of(directory, start), start)
    segment.end_offset = end
    segments.append(segment)
    reason = f"{segment.stem}{LOG_SUFFIX} is missing"
    suspects.append(Suspect(segment, start, reason, is_checksum_known=False))
