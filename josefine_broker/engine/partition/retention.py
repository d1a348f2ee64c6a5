"""The retention decision: which of a log's oldest segments are deleted.

Rules: only a prefix of the log is deleted, so that offsets have no holes; nothing at or above
`end_offset_max` (the high watermark) is deleted; a limit of None keeps everything.
"""

from collections.abc import Sequence
from typing import NamedTuple


class SegmentAge(NamedTuple):
    """What retention needs to know about a segment. `newest_ms`: its newest record's timestamp, or
    the time of its last append if its records have none."""

    end_offset: int
    size_bytes: int
    newest_ms: int


def expired_prefix(
    segments: Sequence[SegmentAge],
    *,
    now_ms: int,
    log_start_offset: int,
    end_offset_max: int,
    retention_ms: int | None,
    retention_bytes: int | None,
) -> int:
    """How many of the oldest segments to delete, oldest first.

    As in Kafka: a segment is deleted when it lies below the log start offset as a whole, when its
    newest record is older than `retention_ms`, or when the rest still has `retention_bytes`.
    """
    count = 0
    excess_bytes = 0
    if retention_bytes is not None:
        excess_bytes = sum(segment.size_bytes for segment in segments) - retention_bytes
    for segment in segments:
        if segment.end_offset > end_offset_max:
            break
        below_start = segment.end_offset <= log_start_offset
        too_old = retention_ms is not None and now_ms - segment.newest_ms > retention_ms
        too_much = retention_bytes is not None and excess_bytes >= segment.size_bytes
        if not (below_start or too_old or too_much):
            break
        excess_bytes -= segment.size_bytes
        count += 1
    return count
