"""Where a sink begins whose chain is empty, and where a run ends, by offsets or a group. Pure.

Rules: the chain comes first, so no start counts for a sink that has a commit, and one that is
beyond the end reads nothing; every partition is named, or has no record; what is gone is never
passed over here, for nobody has read it yet and another word of `start` says so plainly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from josefine_spark.read.offsets import Bounds
from pipelines.model.pipeline import End, Sink, Start


def named(
    start: Start, committed: ByPartition, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int] | str:
    """The offset at which each partition of `bounds` begins, or why that cannot be. `committed`: by
    the group of `start`, if it has one."""
    said = f"group {start.group}" if start.group else "start.offsets"
    given = committed if start.group else start.offsets
    way_out = f": commit one (`josefine groups reset-offsets {start.group}`), or begin elsewhere"
    wrong = _misfit(said, given, bounds, way_out if start.group else None)
    if wrong:
        return wrong
    begins = {p: given.get(p, bound.latest) for p, bound in bounds.items()}
    for partition, offset in sorted(begins.items()):
        bound = bounds[partition]
        if not bound.earliest <= offset <= bound.latest:
            has = f"[{bound.earliest}, {bound.latest})"
            what = "is gone" if offset < bound.earliest else "is beyond its end"
            return f"{said}: offset {offset} of {partition} {what}: it has offsets {has} now"
    return begins


def ends(
    end: End, found: ByPartition, bounds: Mapping[TopicPartition, Bounds]
) -> dict[TopicPartition, int] | str:
    """The exclusive end of each partition of `bounds`, or why there is none. `found`: what the
    group of `end` committed, or the first offset of its time, -1 where no record is that late."""
    if end.group is None and not end.is_by_offsets:
        late = {p: found.get(p, -1) for p in bounds}
        return {p: late[p] if late[p] >= 0 else bound.latest for p, bound in bounds.items()}
    said = f"stop: group {end.group}" if end.group else "stop.offsets"
    given = found if end.group else end.offsets
    wrong = _misfit(said, given, bounds, "" if end.group else None)
    if wrong:
        return wrong
    for partition, bound in sorted(bounds.items()):
        if given.get(partition, 0) > bound.latest:
            return f"{said}: {partition} ends at {bound.latest} now, before {given[partition]}"
    return {p: given.get(p, bound.latest) for p, bound in bounds.items()}


def _misfit(
    said: str,
    given: ByPartition,
    bounds: Mapping[TopicPartition, Bounds],
    group_ending: str | None,
) -> str:
    """Why not each partition with records has its offset, or others have; empty: all is well. Of a
    group, which may have other partitions too, the sentence has that ending."""
    unknown = _listed(set(given) - set(bounds))
    if unknown and group_ending is None:
        return f"{said}: no partition {unknown} is read"
    filled = (p for p, bound in bounds.items() if bound.earliest < bound.latest)
    missing = _listed(p for p in filled if p not in given)
    if not missing:
        return ""
    if group_ending is None:
        return f"{said}: expected an offset of each partition; missing: {missing}"
    return f"{said} has committed no offset for {missing}{group_ending}"


def no_table(sink: Sink) -> str:
    """Why `start: table` begins nowhere for a sink without a commit."""
    where = sink.told or "its table"
    return (
        f"sink `{sink.name}`: `start: table`, but {where} has no commit of this sink: a table that "
        "is new, or gone, is not filled; begin once with another `start`, such as earliest"
    )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(p) for p in sorted(partitions))
