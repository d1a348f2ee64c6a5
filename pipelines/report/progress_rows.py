"""Rows of the metric table (`metrics.table`): one for each finished batch. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.report.events import BatchDone

KEEP_DAYS = 30
"""Days that rows are kept: with one batch per second of one sink, 2.6 million rows."""


def row_of(
    pipeline: str, done: BatchDone, latest: ByPartition | None, now_s: float
) -> dict[str, Any] | None:
    """The row; None for a batch that an earlier run had committed, which wrote the row.

    `latest`: the end offsets of the topics at Spark's last trigger; None if unknown. `now_s`:
    since 1970.
    """
    if done.already_there:
        return None
    at = datetime.fromtimestamp(now_s, UTC)
    return {
        "day": at.date(),
        "at": at,
        "pipeline": pipeline,
        "sink": done.sink,
        "version": done.version,
        "batch": done.batch,
        "offsets": ranges(done.starts, done.ends),
        "records": done.records,
        "rows": done.rows,
        "dead_letters": done.dead_letters,
        "copies": done.copies,
        "failed": [(name, each.failed) for name, each in done.checked.items()],
        "seconds": done.seconds,
        "seconds_of": [*done.parts.items()],
        "lag": None if latest is None else lag(latest, done.ends),
    }


def ranges(starts: ByPartition, ends: ByPartition) -> list[dict[str, Any]]:
    """The offset range of each partition in a batch, `end` exclusive; without empty ranges."""
    return [
        {"topic": where.topic, "partition": where.partition, "start": start, "end": ends[where]}
        for where, start in sorted(starts.items())
        if ends.get(where, start) > start
    ]


def lag(latest: ByPartition, ends: ByPartition) -> int:
    """The lag of a table in offsets."""
    return sum(max(0, end - ends.get(partition, 0)) for partition, end in latest.items())


def first_day_kept(now_s: float) -> str:
    """The first day whose rows are kept."""
    return (datetime.fromtimestamp(now_s, UTC) - timedelta(days=KEEP_DAYS)).date().isoformat()
