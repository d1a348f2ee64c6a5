"""Start offsets of a sink with an empty chain and end offsets of a run, by offset or group. Pure.

The chain takes precedence: `start` is ignored for a sink that has a commit, and a sink past the end
offsets reads nothing. Every partition with records needs an offset. Deleted offsets are an error
here, never skipped: nobody has read them yet, and `start: earliest` skips them explicitly.
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
    """Each partition's start offset, or an error message. `committed`: the offset commits of
    `start.group`, if it is set."""
    said = f"group {start.group}" if start.group else "start.offsets"
    given = committed if start.group else start.offsets
    way_out = f": commit one (`josefine groups reset-offsets {start.group}`), or begin elsewhere"
    wrong = _misfit(said, given, bounds, way_out if start.group else None)
    if wrong:
        return wrong
    # A partition without an offset is empty here (`_misfit`): its end is its start.
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
    """Each partition's exclusive end offset, or an error message. `found`: the offset commits of
    `end.group`, or the first offset at `end`'s time, -1 where no record is that late."""
    if end.group is None and not end.is_by_offsets:
        # -1 is the broker's answer where no record is that late: everything present is wanted.
        late = {p: found.get(p, -1) for p in bounds}
        return {p: late[p] if late[p] >= 0 else bound.latest for p, bound in bounds.items()}
    said = f"stop: group {end.group}" if end.group else "stop.offsets"
    given = found if end.group else end.offsets
    wrong = _misfit(said, given, bounds, "" if end.group else None)
    if wrong:
        return wrong
    for partition, bound in sorted(bounds.items()):
        # A run would wait for records that nobody may ever write.
        if given.get(partition, 0) > bound.latest:
            return f"{said}: {partition} ends at {bound.latest} now, before {given[partition]}"
    return {p: given.get(p, bound.latest) for p, bound in bounds.items()}


def _misfit(
    said: str,
    given: ByPartition,
    bounds: Mapping[TopicPartition, Bounds],
    group_ending: str | None,
) -> str:
    """An error message when a partition with records lacks an offset or an unread one has an
    offset; "" when they match. A group may have other partitions, too; its message ends with
    `group_ending`."""
    unknown = _listed(set(given) - set(bounds))
    if unknown and group_ending is None:
        return f"{said}: no partition {unknown} is read"
    # Of a partition without records no offset can be missed.
    filled = (p for p, bound in bounds.items() if bound.earliest < bound.latest)
    missing = _listed(p for p in filled if p not in given)
    if not missing:
        return ""
    if group_ending is None:
        return f"{said}: expected an offset of each partition; missing: {missing}"
    return f"{said} has committed no offset for {missing}{group_ending}"


def no_table(sink: Sink) -> str:
    """The error for `start: table` of a sink without a commit."""
    where = sink.told or "its table"
    return (
        f"sink `{sink.name}`: `start: table`, but {where} has no commit of this sink: a table that "
        "is new, or gone, is not filled; begin once with another `start`, such as earliest"
    )


def _listed(partitions: Iterable[TopicPartition]) -> str:
    """For a message; sorted, so that equal causes give equal texts."""
    return ", ".join(str(p) for p in sorted(partitions))
