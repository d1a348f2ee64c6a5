"""Reads a log's every byte on demand and compares it with its checksums.

A batch's own CRC32C leaves out its base offset, length and leader epoch. The first two must follow
from the batch before; all three are covered by the checksum over the whole segment, which is kept
from append to append and stored with the index.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from josefine_broker.base.errors import CorruptData
from josefine_broker.core.log_config import LogConfig
from josefine_broker.records.batch import verify
from josefine_broker.records.crc import crc32c
from josefine_broker.shell.recovery import check_offset
from josefine_broker.shell.segment import LOG_SUFFIX, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A place that is not what was written: at or behind byte `position` of `file`."""

    file: str
    position: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyReport:
    """What was read, and every segment that is wrong."""

    segments: int
    batches: int
    size_bytes: int
    problems: tuple[Problem, ...]


def verify_segments(segments: Sequence[Segment], config: LogConfig) -> VerifyReport:
    """Check whole segments. Raises OSError."""
    batches = 0
    problems = []
    for segment in segments:
        position, crc, end_offset = 0, 0, segment.base_offset
        reason = ""
        try:
            for at, header, batch in segment.batches():
                verify(batch, 0, header)
                check_offset(header.base_offset, end_offset, config)
                position, crc = at + len(batch), crc32c(batch, crc)
                end_offset = header.end_offset
                batches += 1
            if segment.file().size() != segment.size_bytes:
                reason = f"{segment.file().size()} bytes, expected {segment.size_bytes}"
            elif crc != segment.log_crc:
                position = 0
                reason = f"CRC {crc:08x} over all bytes, expected {segment.log_crc:08x}"
            segment.index()
        except CorruptData as error:
            reason = str(error)
        if reason:
            file = f"{segment.stem}{LOG_SUFFIX}"
            problems.append(Problem(file=file, position=position, reason=reason))
    return VerifyReport(
        segments=len(segments),
        batches=batches,
        size_bytes=sum(segment.size_bytes for segment in segments),
        problems=tuple(problems),
    )
