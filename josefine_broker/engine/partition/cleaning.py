"""The log cleaner's plan: which logs to clean, and which of their segments.

Rules, as in Kafka: only full segments are cleaned, and only if they lie as a whole below the last
stable offset (so no part of a transaction that is open, or whose marker is not committed) and are
older than `min.compaction.lag.ms`. Segments past the end offset of the last pass are dirty. A log
is cleaned when its dirty ratio exceeds `min.cleanable.dirty.ratio`, or when something has been
dirty for `max.compaction.lag.ms`. The dirtiest log comes first, overdue ones before all others.

Small neighbours are merged into one segment, so that a log does not fragment. A cleaned segment
ends where the next one starts, because the last batch of each stays, if only as a header.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from josefine_broker.engine.metadata.log_config import LogConfig

GROUP_SEGMENTS_MAX = 16
"""Segments merged into one; each has a file open during the pass."""

RELATIVE_OFFSET_MAX = 2**31 - 1
"""The largest relative offset that an index entry can hold and Kafka's tools accept."""

K = TypeVar("K")


class SegmentFacts(NamedTuple):
    """What the cleaner needs to know about a full segment; oldest first."""

    base_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int
    """Its newest record's timestamp, or the time of its last append if its records have none."""
    first_append_ms: int


class Dirt(NamedTuple):
    """The part of a log that can be cleaned."""

    first_dirty: int
    """Start offset of the dirty part,"""
    end: int
    """and its end offset."""
    segments: int
    """How many of the oldest segments are below that end."""
    ratio: float
    is_overdue: bool


def dirt_of(
    segments: Sequence[SegmentFacts],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    cleaned_to: int,
    end_offset_max: int,
) -> Dirt | None:
    """The part of a log's full segments that could be cleaned; None: nothing. `cleaned_to` is the
    end offset of the last pass, `end_offset_max` the last stable offset."""
    first_dirty = max(log_start_offset, cleaned_to)
    clean_bytes = dirty_bytes = count = 0
    oldest_ms = now_ms
    # The first segment that may not be cleaned ends the search: a pass works on a prefix, so that
    # the offset map of the dirty part holds for every segment before it.
    for segment in segments:
        is_dirty = segment.end_offset > first_dirty
        too_young = is_dirty and now_ms - segment.newest_ms < config.min_compaction_lag_ms
        if segment.end_offset > end_offset_max or too_young:
            break
        if is_dirty:
            dirty_bytes += segment.size_bytes
            oldest_ms = min(oldest_ms, segment.first_append_ms)
        else:
            clean_bytes += segment.size_bytes
        count += 1
    if not dirty_bytes:
        return None
    lag_max_ms = config.max_compaction_lag_ms
    return Dirt(
        first_dirty=first_dirty,
        end=segments[count - 1].end_offset,
        segments=count,
        ratio=dirty_bytes / (clean_bytes + dirty_bytes),
        is_overdue=lag_max_ms is not None and now_ms - oldest_ms >= lag_max_ms,
    )


def is_due(dirt: Dirt, config: LogConfig) -> bool:
    """Whether the dirty part is large or old enough for a pass over the log."""
    return dirt.is_overdue or dirt.ratio > config.min_cleanable_dirty_ratio


def filthiest(dirts: Iterable[tuple[K, Dirt]]) -> K | None:
    """The log to clean next, out of those that are due."""
    best = max(dirts, key=lambda each: (each[1].is_overdue, each[1].ratio), default=None)
    return None if best is None else best[0]


def groups(segments: Sequence[SegmentFacts], config: LogConfig) -> list[range]:
    """Which segments are merged into one, as ranges of indexes: neighbours whose sizes fit into one
    segment together, before anything is removed."""
    found: list[range] = []
    begin = size_bytes = 0
    for at, segment in enumerate(segments):
        span = segment.end_offset - segments[begin].base_offset
        is_full = (
            size_bytes + segment.size_bytes > config.segment_bytes
            or span > RELATIVE_OFFSET_MAX
            or at - begin >= GROUP_SEGMENTS_MAX
        )
        if at > begin and is_full:
            found.append(range(begin, at))
            begin, size_bytes = at, 0
        size_bytes += segment.size_bytes
    if segments:
        found.append(range(begin, len(segments)))
    return found
