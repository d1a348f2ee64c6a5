"""Status of a pipeline's sinks: their progress, and whether a run would stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import time_ns
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.base.errors import PipelineError
from pipelines.base.plurals import counted
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.family_chain import family_said
from pipelines.exactly_once.offset_chain import Tip, Verdict
from pipelines.exactly_once.verdict_messages import Losing, dead_letters_gone, stopped_at_start
from pipelines.inspect.sink_status import Sides, all_sides
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import SinkPlan, compile_plan
from pipelines.model.table_family import name_of
from pipelines.run.failure_notes import FailureNote, noted
from pipelines.sources.josefine import Topics
from pipelines.sources.lag_age import FirstMs, lag_ms

RECORD = "record"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table of a family. `number`: the transaction version of its last commit; `held`: why it
    is not written, "" if it is; `lag`: in the sink's unit, None if unknown or by a column."""

    name: str
    path: str
    number: int
    held: str = ""
    lag: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "path": self.path,
            "transaction": self.number,
            "held": self.held,
            "lag": self.lag,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """One sink. `behind`: its lag, None if unknown, in `unit`s; `lag_ms`: the age of the oldest
    record that the table lacks, 0 if it has all, None if unknown; `fresh_ms`: its target, None if
    the file has none; `stops`: why a run would stop, ""
    if it would continue; `unknown`: what could not be inspected; `version`, `committed_ms` and
    `engine`, what made it: of its newest commit in a Delta table, None if there is none;
    `failed`: why the last run continued or ended without it, "" if it did not fail, and
    `failed_ms`: when;
    `settles`: the message with which a run would stop, with the commands that settle it."""

    sink: str
    table: str
    ends: ByPartition = field(default_factory=dict)
    behind: int | None = None
    lag_ms: int | None = None
    fresh_ms: int | None = None
    unit: str = RECORD
    stops: str = ""
    unknown: str = ""
    version: int | None = None
    committed_ms: int | None = None
    engine: str | None = None
    failed: str = ""
    failed_ms: int | None = None
    settles: str = ""
    unread: ByPartition = field(default_factory=dict)
    """The first offset that it lacks, in the partitions where it lags."""
    tables: tuple[TableStatus, ...] = ()
    """With a template in `path`: its tables."""

    @property
    def is_fresh(self) -> bool | None:
        """Whether the target is held; None without a target, or if the age is unknown."""
        if self.fresh_ms is None or self.lag_ms is None:
            return None
        return self.lag_ms <= self.fresh_ms

    @property
    def in_short(self) -> str:
        """A line for a graph."""
        if self.stops:
            return "a run would stop"
        if self.failed:
            return "it failed"
        if self.behind is None:
            return "lag not known"
        return f"{counted(self.behind, self.unit)} behind"

    @property
    def ends_in_words(self) -> str:
        """`orders 0:12 1:9`: each partition with its end offset."""
        return "; ".join(
            " ".join([topic, *(f"{partition}:{end}" for partition, end in ends.items())])
            for topic, ends in nested(self.ends).items()
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "sink": self.sink,
            "table": self.table,
            "ends": nested(self.ends),
            "behind": self.behind,
            "lag_s": None if self.lag_ms is None else round(self.lag_ms / 1000, 1),
            "fresh_s": None if self.fresh_ms is None else self.fresh_ms / 1000,
            "is_fresh": self.is_fresh,
            "unit": self.unit,
            "stops": self.stops,
            "unknown": self.unknown,
            "version": self.version,
            "committed_ms": self.committed_ms,
            "engine": self.engine,
            "failed": self.failed,
            "failed_ms": self.failed_ms,
            **({"tables": [each.to_json() for each in self.tables]} if self.tables else {}),
        }


def status(
    pipeline: Pipeline, look: Callable[[Source], Topics], first_ms: FirstMs | None = None
) -> list[SinkStatus]:
    """Every sink, in file order. `look` raises PipelineError if the topics cannot be queried.
    `first_ms` gives the age of the lag; None: it stays unknown."""
    plans = compile_plan(pipeline).sinks
    found = [
        _sink_status(
            sides,
            noted(pipeline, sides.sink.name),
            _unit(plans[sides.sink.name]),
            _settles(pipeline, plans[sides.sink.name], sides),
        )
        for sides in all_sides(pipeline, look)
    ]
    sinks = pipeline.sinks
    found = [replace(each, fresh_ms=sinks[each.sink].fresh_ms) for each in found]
    if first_ms is None:
        return found
    return [
        replace(each, lag_ms=_lag_ms(plans[each.sink].sources, each, first_ms)) for each in found
    ]


def _lag_ms(sources: Sequence[Source], status: SinkStatus, first_ms: FirstMs) -> int | None:
    if status.behind is None:
        return None
    if not status.unread:
        return 0
    now_ms = time_ns() // 1_000_000
    try:
        return lag_ms(sources, status.unread, is_behind=True, first_ms=first_ms, now_ms=now_ms)
    except PipelineError:
        return None  # the topics answered a moment ago: the next look has the reason


def _settles(pipeline: Pipeline, plan: SinkPlan, sides: Sides) -> str:
    """The message of a run that stops for this sink."""
    if sides.stop is None:
        return ""
    file = pipeline.as_arguments
    # What these two need beyond the verdict is known to the command alone.
    if sides.stop.verdict in (Verdict.OTHER_CHAIN, Verdict.CHECKPOINT_UNNAMED):
        return f"josefine pipeline offsets reconcile {file}"
    if sides.stop.verdict is Verdict.DEAD_LETTERS_GONE:
        return dead_letters_gone(file, sides.sink.name, pipeline.dead_letters or "", sides.stop)
    topics = sides.topics.latest.topic_ids if sides.topics is not None else {}
    return stopped_at_start(
        file,
        sides.sink.name,
        sides.table,
        sides.files.folder if sides.files else pipeline.checkpoint_of(sides.sink.name),
        sides.stop,
        sides.checkpoint,
        sides.tip,
        Losing(table=f"{sides.table}_lost", topics=sorted(topics), bootstrap=plan.source.bootstrap),
        plan.stateful.name if plan.stateful else "",
    )


def _unit(plan: SinkPlan) -> str:
    """What its offsets count: a source of files has bytes, all others have records."""
    units = {
        "byte" if source.local is not None and source.local.type == "file" else RECORD
        for source in plan.sources
    }
    return units.pop() if len(units) == 1 else "offset"


def _sink_status(sides: Sides, failure: FailureNote | None, unit: str, settles: str) -> SinkStatus:
    topics, tip, stop = sides.topics, sides.tip, sides.stop
    ends = tip.reached.ends if isinstance(tip, Tip) else {}
    detail = f"; {stop.detail}" if stop and stop.detail else ""
    return SinkStatus(
        sink=sides.sink.name,
        table=sides.table,
        ends=ends,
        behind=None if topics is None or isinstance(tip, Unreadable) else _behind(topics, ends),
        unit=unit,
        stops=f"{stop.verdict.value}{detail}" if stop else "",
        unknown=sides.unknown,
        version=None if sides.newest is None else sides.newest.version,
        committed_ms=None if sides.newest is None else sides.newest.at_ms,
        engine=None if sides.newest is None else sides.newest.engine,
        failed=failure.reason if failure else "",
        failed_ms=failure.at_ms if failure else None,
        settles=settles,
        unread={} if topics is None or isinstance(tip, Unreadable) else _unread(topics, ends),
        tables=_tables(sides),
    )


def _tables(sides: Sides) -> tuple[TableStatus, ...]:
    """By the registry's last commit alone: a thousand tables' logs are not read."""
    of, tip, topics = sides.sink.family, sides.tip, sides.topics
    if of is None or not isinstance(tip, Tip):
        return ()
    found, lags = family_said(tip.said), dict[str, int]()
    if of.by_topic and topics is not None:
        for partition, end in topics.latest.ends.items():
            name, first = name_of(partition.topic), topics.earliest.get(partition, 0)
            if name is not None:
                lag = max(0, end - tip.reached.ends.get(partition, first))
                lags[name] = lags.get(name, 0) + lag
    return tuple(
        TableStatus(
            name=name,
            path=of.path_of(name),
            number=number,
            held=found.held.get(name, ""),
            lag=lags.get(name),
        )
        for name, number in sorted(found.tables.items())
    )


def _unread(topics: Topics, ends: ByPartition) -> ByPartition:
    begins = {tp: ends.get(tp, topics.earliest.get(tp, 0)) for tp in topics.latest.ends}
    return {tp: begin for tp, begin in begins.items() if begin < topics.latest.ends[tp]}


def _behind(topics: Topics, ends: ByPartition) -> int:
    return sum(
        max(0, end - ends.get(tp, topics.earliest.get(tp, 0)))
        for tp, end in topics.latest.ends.items()
    )
