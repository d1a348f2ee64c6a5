"""Lag of a sink in seconds: the age of the oldest record that its table lacks.

It costs one fetch of one record batch per partition, for at most PARTITIONS_MAX partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.model.pipeline import Source

PARTITIONS_MAX = 50
"""Partitions of a sink whose first unread record is looked at; the others count as younger."""

FirstMs = Callable[[Source, ByPartition], int | None]
"""The earliest timestamp of the first records at these positions; None if there is no record.
Raises PipelineError."""


def lag_ms(
    sources: Sequence[Source],
    positions: ByPartition,
    *,
    is_behind: bool,
    first_ms: FirstMs,
    now_ms: int,
) -> int | None:
    """The age; 0 if nothing is left to read, None if unknown. Raises PipelineError.

    `positions`: the offsets that the table lacks first; `is_behind`: whether the topics are known
    to have more.
    """
    if any(each.local is not None for each in sources):
        return None if is_behind else 0
    oldest: list[int] = []
    for source in sources:
        own = {
            tp: offset
            for tp, offset in islice(positions.items(), PARTITIONS_MAX)
            if len(sources) == 1 or tp[0] in (source.topics or ())
        }
        found = first_ms(source, own)
        oldest += [] if found is None else [found]
    if not oldest:
        # A batch of control records is no record, and data may follow it.
        return None if is_behind else 0
    return max(0, now_ms - min(oldest))


def lag_ms_after(
    sources: Sequence[Source],
    ends: ByPartition,
    latest: ByPartition,
    first_ms: FirstMs,
    now_ms: int,
) -> int | None:
    """`lag_ms` of a table with these end offsets. `latest`: the topics' ends as last known.

    All partitions are looked at, the most lag first: `latest` may be older than `ends`.
    """
    order = sorted(ends, key=lambda tp: ends[tp] - latest.get(tp, 0))
    is_behind = any(end > ends.get(tp, 0) for tp, end in latest.items())
    positions = {tp: ends[tp] for tp in order}
    return lag_ms(sources, positions, is_behind=is_behind, first_ms=first_ms, now_ms=now_ms)
