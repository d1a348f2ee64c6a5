"""Which logs are worth cleaning, and which of their segments: pure decisions.

Rules, as Kafka has them: only full segments are cleaned, wholly below the last stable offset (so
of a transaction that is open, or whose marker is not confirmed, nothing is) and older than
`min.compaction.lag.ms`; what lies behind the offset that the last pass came to is dirty; a log is
cleaned when more of it than `min.cleanable.dirty.ratio` is, or when something has been dirty for
`max.compaction.lag.ms`; the dirtiest goes first, one that is overdue before all others.

Small neighbours are cleaned into one segment, so that a log does not fall into crumbs. A segment
ends where the next one begins, before and after: the last batch of each stays, if only its header.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from josefine_broker.engine.metadata.log_config import LogConfig

GROUP_SEGMENTS_MAX = 16
"""Cleaned into one: each has a file open meanwhile."""

RELATIVE_OFFSET_MAX = 2**31 - 1
"""What an index has room for, and Kafka's tools take."""

K = TypeVar("K")


class SegmentFacts(NamedTuple):
    """What must be known of a full segment, oldest first."""

    base_offset: int
    end_offset: int
    size_bytes: int
    newest_ms: int
    """Its newest record's timestamp, or when it was last appended to if its records have none."""
    first_append_ms: int


class Dirt(NamedTuple):
    """What there is to clean in a log."""

    first_dirty: int
    """Where the dirty part begins,"""
    end: int
    """and where it ends."""
    segments: int
    """So many of the oldest are below that."""
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
    """What could be cleaned of a log's full segments; None: nothing. `cleaned_to` is what the last
    pass came to, `end_offset_max` the last stable offset."""
    first_dirty = max(log_start_offset, cleaned_to)
    clean_bytes = dirty_bytes = count = 0
    oldest_ms = now_ms
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
    """Whether that is enough for a pass over the log."""
    return dirt.is_overdue or dirt.ratio > config.min_cleanable_dirty_ratio


def filthiest(dirts: Iterable[tuple[K, Dirt]]) -> K | None:
    """The log to be cleaned next, of those that are due."""
    best = max(dirts, key=lambda each: (each[1].is_overdue, each[1].ratio), default=None)
    return None if best is None else best[0]


def groups(segments: Sequence[SegmentFacts], config: LogConfig) -> list[range]:
    """Which segments are cleaned into one, by their places: neighbours that fit into one together,
    also when nothing of them goes."""
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
