"""The stream's offset as Spark stores it in the checkpoint, and the resolution of positions into
offsets.

Rules: Spark compares offsets as text, so the JSON has sorted keys; every partition has the offset
at which this query started to read it; `lost` is present only where a batch skipped a lost range.
Pure: the broker's answers are arguments.

    {"first": {"t": {"0": 0}}, "offsets": {"t": {"0": 42}}, "topic_ids": {"t": "…"}, "v": 1}
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.errors import DataLossError, OptionError
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, flat, nested
from josefine_spark.options.options import MissingStrategy
from josefine_spark.options.positions import EARLIEST_OFFSET, LATEST_OFFSET, Kind, Position

VERSION = 1


def to_dict(offsets: TopicOffsets) -> dict[str, Any]:
    """The JSON object for Spark; equal offsets give equal `json.dumps` text."""
    data: dict[str, Any] = {
        "first": nested(offsets.first),
        "offsets": nested(offsets.ends),
        "topic_ids": dict(sorted(offsets.topic_ids.items())),
        "v": VERSION,
    }
    if offsets.lost:
        lost: dict[str, dict[str, list[int | None]]] = {}
        for (topic, partition), ends in sorted(offsets.lost.items()):
            lost.setdefault(topic, {})[str(partition)] = list(ends)
        data["lost"] = lost
    return data


def parse_offset(data: Mapping[str, Any] | str) -> TopicOffsets:
    """The reverse of `to_dict`, of its text too. Raises OptionError on another version or shape."""
    if isinstance(data, str):
        data = json.loads(data)
    if not isinstance(data, Mapping) or data.get("v") != VERSION:
        raise OptionError(
            f"the checkpoint's offset is not of format {VERSION}: {json.dumps(data)[:200]}; "
            "it was written by another source or a newer josefine"
        )
    try:
        return TopicOffsets(
            ends=flat(data["offsets"]),
            first=flat(data["first"]),
            topic_ids=dict(data["topic_ids"]),
            lost={
                TopicPartition(topic, int(partition)): (int(since), until)
                for topic, partitions in data.get("lost", {}).items()
                for partition, (since, until) in partitions.items()
            },
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise OptionError(f"the checkpoint's offset is damaged: {error!r}") from error


class Bounds(NamedTuple):
    """A partition's available offsets: from `earliest` up to `latest` (exclusive)."""

    earliest: int
    latest: int


def timestamp_queries(
    position: Position, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, int]:
    """The timestamps to look up at the broker in order to resolve `position`: {} when none."""
    if position.kind is Kind.TIMESTAMP:
        return dict.fromkeys(partitions, position.timestamp_ms)
    if position.kind is Kind.TIMESTAMPS:
        _all_named(position, partitions)
        return {tp: position.values[tp] for tp in partitions}
    return {}


def resolve_start(
    position: Position,
    bounds: Mapping[TopicPartition, Bounds],
    found: ByPartition,
    missing: MissingStrategy,
    *,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """Start offsets. `found` answers `timestamp_queries`, -1 where no record is that late.

    Offset JSON must name every partition, as for Spark's Kafka source. An offset of this source
    (with topic ids) may leave partitions out: they start at their earliest record, as partitions do
    that are found later, so a position stored before a topic grew stays usable. Raises OptionError
    and, for named offsets that no longer exist, DataLossError.
    """
    if position.kind is Kind.EARLIEST:
        return {tp: bound.earliest for tp, bound in bounds.items()}
    if position.kind is Kind.LATEST:
        return {tp: bound.latest for tp, bound in bounds.items()}
    if position.kind is Kind.LAST:
        return {tp: max(b.earliest, b.latest - position.count) for tp, b in bounds.items()}
    if position.kind is Kind.OFFSETS:
        _none_unknown(position, bounds)
        if position.topic_ids is None:
            _all_named(position, bounds, " (-2 is its earliest, -1 its latest)")
        return {tp: _named(position, tp, bound, fail_on_data_loss) for tp, bound in bounds.items()}
    # What is left are timestamps. "10m ago" is lenient: without records since then, the end is the
    # right start; for a fixed time it would silently skip everything, so it must be asked for.
    late = [str(tp) for tp in sorted(bounds) if found[tp] < 0]
    if late and missing is MissingStrategy.ERROR and not position.lenient:
        raise OptionError(
            f"{position.option}: no record that late in {', '.join(late)}; to start such "
            "partitions at their end, set startingOffsetsByTimestampStrategy=latest"
        )
    return {tp: found[tp] if found[tp] >= 0 else bound.latest for tp, bound in bounds.items()}


def resolve_group(
    group: str,
    committed: ByPartition,
    bounds: Mapping[TopicPartition, Bounds],
    others: ByPartition | None,
    *,
    fail_on_data_loss: bool,
) -> dict[TopicPartition, int]:
    """Start offsets: those that a consumer group committed, else those of `others`.

    `others` is None when no option covers such partitions. Raises OptionError and, for committed
    offsets that no longer exist, DataLossError.
    """
    absent = ", ".join(str(tp) for tp in sorted(set(bounds) - set(committed)))
    if absent and others is None:
        raise OptionError(
            f"startingGroup: group {group!r} has committed no offset for {absent}; set "
            "startingOffsets as well (earliest, latest …) to define where to start there"
        )
    values = {tp: committed[tp] for tp in bounds if tp in committed}
    position = Position(kind=Kind.OFFSETS, values=values, option=f"startingGroup {group!r}")
    named = {tp: _named(position, tp, bounds[tp], fail_on_data_loss) for tp in values}
    return {tp: named[tp] if tp in named else (others or {})[tp] for tp in bounds}


def resolve_end(
    position: Position, bounds: Mapping[TopicPartition, Bounds], found: ByPartition
) -> dict[TopicPartition, int]:
    """End offsets (exclusive) of a batch read; without a record that late, the partition's end.

    `check_order` then compares them with the start offsets.
    """
    if position.kind is Kind.LATEST:
        return {tp: bound.latest for tp, bound in bounds.items()}
    if position.kind is Kind.OFFSETS:
        _none_unknown(position, bounds)
        _all_named(position, bounds, " (-1 is its latest)")
        for tp, bound in sorted(bounds.items()):
            if position.values[tp] > bound.latest:
                raise OptionError(
                    f"{position.option}: {tp} ends at offset {bound.latest}, "
                    f"before {position.values[tp]}"
                )
        return {
            tp: bound.latest if position.values[tp] == LATEST_OFFSET else position.values[tp]
            for tp, bound in bounds.items()
        }
    return {tp: found[tp] if found[tp] >= 0 else bound.latest for tp, bound in bounds.items()}


def check_order(
    starting: Position, start: ByPartition, ending: Position, end: ByPartition
) -> dict[TopicPartition, int]:
    """The end offsets, none below its start. Raises OptionError when one is before the start that
    was asked for.

    A start that moved past an end because records are lost is not an error: nothing is read there.
    """
    for tp in sorted(end):
        asked = starting.values.get(tp, -1) if starting.kind is Kind.OFFSETS else -1
        asked = min(asked, start[tp]) if asked >= 0 else start[tp]
        if end[tp] < asked:
            raise OptionError(
                f"{ending.option or 'endingOffsets'}: {tp} ends at offset {end[tp]}, before its "
                f"start {asked} ({starting.option or 'startingOffsets'})"
            )
    return {tp: max(end[tp], start[tp]) for tp in end}


def _named(position: Position, tp: TopicPartition, bound: Bounds, fail_on_data_loss: bool) -> int:
    offset = position.values.get(tp, EARLIEST_OFFSET)
    if offset == EARLIEST_OFFSET:
        return bound.earliest
    if offset == LATEST_OFFSET:
        return bound.latest
    if bound.earliest <= offset <= bound.latest:
        return offset
    if offset < bound.earliest:
        lost, instead = f"offsets [{offset}, {bound.earliest}) are gone", bound.earliest
    else:
        lost, instead = f"it ends at offset {bound.latest}", bound.latest
    if fail_on_data_loss:
        raise DataLossError(
            f"{position.option}: {tp} cannot start at {offset}, {lost}; "
            f"set failOnDataLoss=false to start at {instead}"
        )
    return instead


def _none_unknown(position: Position, partitions: Iterable[TopicPartition]) -> None:
    unknown = sorted(set(position.values) - set(partitions))
    if unknown:
        names = ", ".join(str(tp) for tp in unknown)
        raise OptionError(f"{position.option}: not among the partitions to read: {names}")


def _all_named(position: Position, partitions: Iterable[TopicPartition], hint: str = "") -> None:
    absent = sorted(set(partitions) - set(position.values))
    if absent:
        names = ", ".join(str(tp) for tp in absent)
        raise OptionError(
            f"{position.option}: every partition must be named{hint}, missing: {names}"
        )
