"""The rows that a batch begins with: its source's, or those that a state gave for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pipelines import frames
from pipelines.chain import Batch
from pipelines.decode import Reading
from pipelines.kept_rows import keep, let_go
from pipelines.model import Sink, Source, Transform
from pipelines.readings import reading_of
from pipelines.shared_rows import Persisted, SharedRows, in_session
from pipelines.sink_plan import PipelinePlan, SinkPlan
from pipelines.stateful import held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsIn:
    """`parsed`: each source's rows by its name, where their bad records are looked at; `good`:
    those that are, or the rows of `node`; `bad`: how many a reading does not take, None where
    nobody has counted; `kept`: in memory until `free`, which also calls `give_back`."""

    parsed: Mapping[str, DataFrame]
    good: DataFrame
    node: str | None = None
    bad: int | None = None
    kept: tuple[Persisted, ...] = ()
    give_back: Callable[[], None] | None = None

    def free(self) -> None:
        for each in self.kept:
            each.unpersist()
        if self.give_back is not None:
            self.give_back()


def nodes_of(plan: PipelinePlan, sink: SinkPlan, rows_in: RowsIn) -> frames.Nodes:
    """What a sink's rows, checks and dead letters are made of."""
    if rows_in.node is None:
        return frames.nodes_for(plan, sink, rows_in.good)
    beside = {
        name: frames.good_rows(parsed, reading_of(plan.pipeline.sources[name]))
        for name, parsed in rows_in.parsed.items()
    }
    return frames.nodes_for(plan, sink, rows_in.good, rows_in.node, beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """A batch's rows, parsed and in memory; `bad` as in `RowsIn`."""

    rows: DataFrame
    bad: int | None

    def unpersist(self) -> None:
        let_go(self.rows)


def decoded(frame: DataFrame, reading: Reading | None) -> Decoded:
    """Read and parse a batch, all of it. Nothing is kept where that fails."""
    parsed = frames.parse(frame, reading, is_kept=True)
    rows, bad = keep(parsed, "true" if reading is None else "not _good")
    return Decoded(rows=rows, bad=None if reading is None else bad)


def rows_of_source(frame: DataFrame, source: Source, *, keeps: bool, counts: bool) -> RowsIn:
    """`keeps`: the batch is looked at several times (good rows, counts): decode it once; `counts`:
    at once, for how many are bad decides."""
    reading, bad = reading_of(source), None
    kept: tuple[Persisted, ...]
    if counts:
        made = decoded(frame, reading)
        parsed, bad, kept = made.rows, made.bad, (made,)
    else:
        parsed = (frames.persisted if keeps else frames.parse)(frame, reading)
        kept = (parsed,) if keeps else ()
    good = frames.good_rows(parsed, reading)
    return RowsIn(parsed={source.name: parsed}, good=good, bad=bad, kept=kept)


def rows_shared(
    frame: DataFrame, sink: Sink, source: Source, batch: Batch, shared: SharedRows[Decoded]
) -> RowsIn | None:
    """The same, decoded once for all sinks that come to this batch; None: read for yourself."""
    reading = reading_of(source)
    made = shared.take(sink.name, batch, lambda: decoded(frame, reading))
    if made is None:
        return None
    give_back = partial(shared.give_back, sink.name)
    try:
        parsed = in_session(made.rows, frame.sparkSession)
        good = frames.good_rows(parsed, reading)
    except BaseException:
        give_back()
        raise
    return RowsIn(parsed={source.name: parsed}, good=good, bad=made.bad, give_back=give_back)


def rows_of_state(
    frame: DataFrame,
    stateful: Transform,
    sources: Iterable[Source],
    read: Callable[[Source], DataFrame],
) -> RowsIn:
    """`sources`: those whose bad records are looked at; `read`: a batch's records once more."""
    good = held(frame)
    parsed: dict[str, DataFrame] = {}
    try:
        for one in sources:
            parsed[one.name] = frames.persisted(read(one), reading_of(one))
    except BaseException:
        good.unpersist()
        for each in parsed.values():
            each.unpersist()
        raise
    return RowsIn(parsed=parsed, good=good, node=stateful.name, kept=(good, *parsed.values()))
