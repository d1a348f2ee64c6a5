"""The places of the records of a read: an archive below the local log start, brokers above it.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from josefine_broker.base.ids import TopicPartition

LINES_MAX = 8


def origins(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
    local: Mapping[TopicPartition, int],
) -> list[str]:
    """A line for each partition whose read starts in its archive; none for the others. `ends` are
    exclusive, None: without end. `local`: the first offsets that brokers have themselves; a
    partition may be missing."""
    lines = list(_origins(starts, ends, local))
    if len(lines) > LINES_MAX:
        more = len(lines) - LINES_MAX + 1
        lines[LINES_MAX - 1 :] = [f"{more} more partitions are read from archives too"]
    return lines


def _origins(
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int | None],
    local: Mapping[TopicPartition, int],
) -> Iterator[str]:
    for tp, start in sorted(starts.items()):
        seam, end = local.get(tp, 0), ends.get(tp)
        if start >= seam or (end is not None and start >= end):
            continue
        last = seam if end is None else min(end, seam)
        rest = f", from {seam} on from brokers" if end is None or end > seam else ""
        yield f"{tp}: offsets {start} to {last - 1} come from the archive{rest}"
