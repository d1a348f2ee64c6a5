"""Rows that come through a state: of Spark's own stream up to it, of batches behind it.

In front of a transform with `watermark` the records are decoded and selected in the stream, for
only there Spark keeps a state. What the state gives is a batch's rows, as another sink has its
source's. Records that nothing can be made of are not in them: who has to look at these reads the
batch's offsets once more (`SourceKind.read`), for in one stream Spark would take a source that is
read twice for two.

A batch's state is written while its rows are made: each batch is made to its last row, also one
that the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.exactly_once.state_chain import made_by
from pipelines.model.pipeline import Source, Transform
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.spark.errors import complaint, refusal
from pipelines.transforms import dataframes
from pipelines.transforms.analysis_errors import STATEFUL, analyzed_plan
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.joins import why_without_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.transforms.dataframes import Good

_KEPT = {"Aggregate", "Distinct", "EventTimeWatermark", "Join"}
"""Of what looks beyond single rows, what has a state with an end."""
_NO_END = "without watermark"
"""How Spark complains of a group that no watermark closes."""


def good_of(
    plan: PipelinePlan, node: str, rows: Callable[[Source], DataFrame]
) -> dict[str, DataFrame]:
    """The good rows of each source of a node, by its name. `rows`: the records of one."""
    good = {}
    for name in plan.nodes[node].sources:
        source = plan.pipeline.sources[name]
        reading = reading_of(source)
        good[name] = dataframes.good_rows(dataframes.parse(rows(source), reading), reading)
    return good


def stream_of(
    plan: PipelinePlan, sink: SinkPlan, stateful: Transform, opened: Callable[[Source], DataFrame]
) -> DataFrame:
    """The sources' streams up to the state. `opened`: all in one session."""
    return _made(plan, stateful, good_of(plan, sink.sink.input, opened))


def held(frame: DataFrame) -> DataFrame:
    """Make a batch, with its state, once and all of it; kept until it is unpersisted. Nothing is
    kept where that fails."""
    return held_and_counted(frame, "true")[0]


def held_and_counted(frame: DataFrame, which: str) -> tuple[DataFrame, int]:
    """The same, and how many of its rows are so."""
    kept = frame.persist()
    try:
        return kept, kept.where(which).count()
    except BaseException:
        kept.unpersist()
        raise


class LateRows:
    """What Spark has left out behind the watermark, by a query's own progress. Mutable: the last
    batch that was counted.

    Spark counts what comes to a state: of a group's late rows in one task it counts one.
    """

    def __init__(self) -> None:
        self._counted = -1

    def of(self, query: Any) -> int:
        """In the batches that ended since the last call."""
        found, newest = 0, self._counted
        for progress in reversed(query._jsq.recentProgress()):
            batch = progress.batchId()
            if batch <= self._counted:
                break
            if progress.durationMs().containsKey("addBatch"):  # else nothing was there to do
                newest = max(newest, batch)
                found += sum(each.numRowsDroppedByWatermark() for each in progress.stateOperators())
        self._counted = newest
        return found


def state_of(plan: PipelinePlan, sink: SinkPlan, good: Good) -> dict[str, Any] | None:
    """What its commits say of the state; None without one. `good`: a source's rows."""
    stateful = sink.stateful
    if stateful is None:
        return None
    inputs: Mapping[str, Mapping[str, str]] = {
        name: dataframes.columns(dataframes.rows_of(plan, name, good)) for name in stateful.inputs
    }
    return made_by(stateful, inputs)


def refuse_beyond(plan: PipelinePlan, sink: SinkPlan, good: Good) -> None:
    """Raise ConfigError when a transform of this sink looks beyond single rows, and has no state
    that Spark could keep for it."""
    stateful = sink.stateful
    if stateful is None:
        dataframes.refuse_stateful(plan, sink.sink.input, good)
        return
    for name in stateful.inputs:
        dataframes.refuse_stateful(plan, name, good)
    made = _made(plan, stateful, good)
    if sink.sink.input != stateful.name:
        behind = made.sparkSession.createDataFrame([], made.schema)
        dataframes.refuse_stateful(plan, sink.sink.input, behind, stateful.name)
    _refuse_no_state(plan, stateful, good)


def _refuse_no_state(plan: PipelinePlan, stateful: Transform, good: Good) -> None:
    """Ask Spark, by a stream of the same columns, whether it would run."""
    from pyspark.errors import PySparkException
    from pyspark.sql import functions as F  # noqa: N812

    said = stateful.said
    session = _made(plan, stateful, good).sparkSession

    def stream(like: DataFrame) -> DataFrame:
        nothing = [F.lit(None).cast(f.dataType).alias(f.name) for f in like.schema.fields]
        return session.readStream.format("rate").load().select(*nothing)

    assert isinstance(good, Mapping)
    made: Any = _made(plan, stateful, {name: stream(each) for name, each in good.items()})
    words = [match[1] for match in STATEFUL.finditer(analyzed_plan(made))]
    other = next((word for word in words if word not in _KEPT), None)
    kinds = {word for word in words if word in ("Aggregate", "Join")}
    if other or len(kinds) > 1 or words.count("Join") > 1:
        what = other or " beside ".join(sorted(kinds))
        message = (
            f"{what} has no state that is kept for it: expected one join of two streams, or "
            "windows of time in GROUP BY"
        )
        raise refusal(said.place, said.path, message)
    if "Join" in kinds:
        unbounded = why_without_end(made, [w.column for w in stateful.watermarks])
        if unbounded:
            raise refusal(said.place, said.path, unbounded)
    jvm: Any = session._jvm
    append = jvm.org.apache.spark.sql.streaming.OutputMode.Append()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(made._jdf.queryExecution().analyzed(), append)
    except PySparkException as error:
        if _NO_END not in str(error):
            raise complaint(said.place, said.path, error) from error
        columns = " or ".join(f"`{w.column}`" for w in stateful.watermarks)
        message = (
            f"nothing that it groups by is a window of {columns}, the column of its watermark: no "
            "group would ever be complete"
        )
        raise refusal(said.place, said.path, message) from error


def _made(plan: PipelinePlan, stateful: Transform, good: Good) -> DataFrame:
    return dataframes.nodes_of(plan, [stateful.name], good).made[stateful.name]
