"""The offset range of a sink's stream, from its chain, checkpoint, pipeline file and brokers.

It decides nothing: the rules are in `settle_start.py` and `exactly_once/start_offsets.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.base.errors import RunError
from pipelines.exactly_once.checkpoint_start import Start
from pipelines.exactly_once.start_offsets import ends, named, no_table
from pipelines.model.pipeline import End, Sink, Source
from pipelines.model.plan import SinkPlan
from pipelines.sources.josefine import SourceKind, Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One source's offset range. `at`: the start offsets; None if the stream finds them by the
    source's `start`. `source`: the source with the offsets of its `stop`."""

    source: Source
    at: TopicOffsets | None
    ends_at: ByPartition


def ways_of(
    sink: SinkPlan,
    kind: SourceKind,
    looked: Mapping[str, Topics],
    start: Start,
    now_ms: int,
) -> list[Way]:
    """The range of each of a sink's sources. `looked`: source → its topics. Raises as `way_of`."""
    found = []
    for source in sink.sources:
        way = way_of(source, sink.sink, kind, looked[source.name], start, now_ms)
        if way.at is not None and len(looked) > 1:
            own = looked[source.name].latest.topic_ids
            ids = {t: each for t, each in way.at.topic_ids.items() if t in own}
            way = replace(way, at=replace(way.at, topic_ids=ids))
        found.append(way)
    return found


def begun_at(ways: Sequence[Way]) -> ByPartition:
    """The start offsets of a sink's streams; empty if one of them finds its own."""
    at = [way.at for way in ways if way.at is not None]
    return {p: end for each in at for p, end in each.ends.items()} if len(at) == len(ways) else {}


def way_of(
    source: Source, sink: Sink, kind: SourceKind, topics: Topics, start: Start, now_ms: int
) -> Way:
    """The range of a source whose sink was settled at `start`, in a run that started at `now_ms`
    since 1970. Raises RunError and SetupError."""
    at = _settled(start, topics)
    if at is None:
        at = _named(source, sink, kind, topics)
    ends_at = _ends(source, kind, topics, now_ms)
    stop = End(offsets=ends_at) if source.stop else None
    return Way(source=replace(source, stop=stop), at=at, ends_at=ends_at)


def _settled(start: Start, topics: Topics) -> TopicOffsets | None:
    """The start offsets of chain and checkpoint; None if neither has any."""
    if start.at is None:
        return None
    ids = start.tip.reached.topic_ids if start.tip else {}
    return TopicOffsets(ends=topics.keep(start.at), topic_ids=ids)


def _named(source: Source, sink: Sink, kind: SourceKind, topics: Topics) -> TopicOffsets | None:
    """The start offsets of a sink without a commit, if `start` names offsets or a group; None: its
    stream finds them. Raises RunError and SetupError."""
    start = source.start
    if start.by_table:
        raise RunError(no_table(sink))
    if not start.is_by_offsets:
        return None
    committed = kind.committed(source, start.group, topics) if start.group else {}
    found = named(start, committed, topics.bounds())
    if isinstance(found, str):
        raise RunError(f"source `{source.name}`: {found}")
    return TopicOffsets(ends=found, topic_ids=topics.latest.topic_ids)


def _ends(source: Source, kind: SourceKind, topics: Topics, now_ms: int) -> ByPartition:
    """The end offsets of this run. Raises RunError and SetupError."""
    stop = source.stop
    if stop is None:
        return topics.latest.ends
    since_ms = stop.time_ms if stop.ago_ms is None else max(0, now_ms - stop.ago_ms)
    asked: ByPartition = {}
    if stop.group:
        asked = kind.committed(source, stop.group, topics)
    elif since_ms is not None:
        asked = kind.at_time(source, since_ms, topics)
    found = ends(stop, asked, topics.bounds())
    if isinstance(found, str):
        raise RunError(f"source `{source.name}`: {found}")
    return found
