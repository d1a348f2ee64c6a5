"""Verification on demand: reads every byte of a log and compares all checksums.

A batch's own CRC32C leaves out its base offset, length and leader epoch. The first two must follow
from the previous batch; all three are covered by the checksum over the whole segment, which is
maintained from append to append and stored with the index.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.log.batch_walk import walk_batches
from josefine_broker.host.log.cleaned_sums import load_sums
from josefine_broker.host.log.recovery import check_offset
from josefine_broker.host.log.segment import LOG_SUFFIX, Segment, stem_of
from josefine_broker.records.batch import verify
from josefine_broker.records.crc import crc32c


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A damaged place: at or after byte `position` of `file`."""

    file: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """The amount read, and every damaged segment."""

    segments: int
    batches: int
    size_bytes: int
    problems: tuple[Problem, ...]


def verify_segments(files: Files, segments: Iterable[Segment], config: LogConfig) -> VerifyReport:
    """Check the segments of an open log. Raises OSError."""
    made = [segment for segment in segments if segment.is_made]
    return _report([_check(files, segment, config, summary_known=True) for segment in made])


def verify_directory(files: Files, directory: str, config: LogConfig) -> VerifyReport:
    """Check the log in a directory that no broker has open; changes nothing.

    A segment with a stored index is compared with it; any other, such as the last one after a
    crash, is judged by its batches alone. Raises OSError.
    """
    checked = []
    for name in files.list(directory):
        base = name.removesuffix(LOG_SUFFIX)
        if base == name or not base.isdigit():
            continue
        segment = Segment.open_indexed(files, directory, int(base))
        summary_known = segment is not None
        if segment is None:
            segment = Segment(files, stem_of(directory, int(base)), int(base))
        checked.append(_check(files, segment, config, summary_known=summary_known))
        segment.close()
    return _report(checked)


class _Checked(NamedTuple):
    batches: int
    size_bytes: int
    problem: Problem | None


def _check(files: Files, segment: Segment, config: LogConfig, *, summary_known: bool) -> _Checked:
    """Read one segment; `summary_known`: its expected content is known, not only the present
    one."""
    size_bytes = segment.file().size()
    batches, position, crc, end_offset = 0, 0, 0, segment.base_offset
    reason = ""
    try:
        for at, header, batch in walk_batches(segment.file(), 0, size_bytes):
            verify(batch, 0, header)
            check_offset(header.base_offset, end_offset, config)
            position, crc = at + len(batch), crc32c(batch, crc)
            end_offset = header.end_offset
            batches += 1
        sums = load_sums(files, segment.stem, size_bytes)
        if sums is not None and (differs := sums.why_not(size_bytes, crc)):
            position, reason = 0, differs
        elif summary_known and size_bytes != segment.size_bytes:
            reason = f"{size_bytes} bytes, expected {segment.size_bytes}"
        elif summary_known and crc != segment.log_crc:
            position = 0
            reason = f"CRC {crc:08x} over all bytes, expected {segment.log_crc:08x}"
        elif summary_known:
            segment.index()
    except CorruptData as error:
        reason = str(error)
    file = f"{segment.stem}{LOG_SUFFIX}"
    problem = Problem(file=file, position=position, reason=reason) if reason else None
    return _Checked(batches, size_bytes, problem)


def _report(checked: Sequence[_Checked]) -> VerifyReport:
    return VerifyReport(
        segments=len(checked),
        batches=sum(each.batches for each in checked),
        size_bytes=sum(each.size_bytes for each in checked),
        problems=tuple(each.problem for each in checked if each.problem is not None),
    )
