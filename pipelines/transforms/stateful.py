"""Stateful transforms: Spark's own stream up to the state, micro-batches after it.

Up to a transform with `watermark` the records are decoded and selected in the stream, because Spark
keeps a state only there. The output of the state is the batch's rows, as a source's rows are for
other sinks. It lacks bad records: a sink that needs them reads the batch's offsets again
(`SourceKind.read`), because in one stream Spark would treat a source that is read twice as two.

Spark writes a batch's state while the rows are computed. So each batch is computed to its last row,
also one that the table has already.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.exactly_once.state_chain import made_by
from pipelines.model.pipeline import Mode, Source, Transform
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.spark.errors import complaint, refusal
from pipelines.transforms import changes, dataframes
from pipelines.transforms.analysis_errors import STATEFUL, analyzed_plan
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.join_bounds import why_without_end

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pipelines.transforms.dataframes import Good

_KEPT = {"Aggregate", "Distinct", "EventTimeWatermark", "Join"}
"""The stateful operators whose state a watermark bounds."""
_NO_END = "without watermark"
"""Part of Spark's error for a group that no watermark closes."""


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
    """Compute a whole batch once, with its state, and cache it until `unpersist`. Nothing stays
    cached after a failure."""
    return held_and_counted(frame, "true")[0]


def held_and_counted(frame: DataFrame, which: str) -> tuple[DataFrame, int]:
    """The same, with the number of rows that match `which`."""
    kept = frame.persist()
    try:
        return kept, kept.where(which).count()
    except BaseException:
        kept.unpersist()
        raise


class LateRows:
    """The rows that Spark dropped as late, by a query's progress. Mutable: the last counted batch.

    Spark counts the inputs of the state: a group's late rows in one task count as one.
    """

    def __init__(self) -> None:
        self._counted = -1

    def of(self, query: Any) -> int:
        """The number in the batches that ended since the last call."""
        found, newest = 0, self._counted
        for progress in reversed(query._jsq.recentProgress()):
            batch = progress.batchId()
            if batch <= self._counted:
                break
            if progress.durationMs().containsKey("addBatch"):  # otherwise the batch had no data
                newest = max(newest, batch)
                found += sum(each.numRowsDroppedByWatermark() for each in progress.stateOperators())
        self._counted = newest
        return found


def state_of(plan: PipelinePlan, sink: SinkPlan, good: Good) -> dict[str, Any] | None:
    """The state's definition for a sink's commits; None without one. `good`: a source's rows."""
    stateful = sink.stateful
    if stateful is None:
        return None
    inputs: Mapping[str, Mapping[str, str]] = {
        name: dataframes.columns(dataframes.rows_of(plan, name, good)) for name in stateful.inputs
    }
    return made_by(stateful, inputs, sink.sink.mode)


def refuse_beyond(plan: PipelinePlan, sink: SinkPlan, good: Good) -> None:
    """Raise ConfigError when a transform of this sink needs more than single rows, but has no state
    that Spark can keep."""
    stateful = sink.stateful
    if stateful is None:
        dataframes.refuse_stateful(plan, sink.sink.input, good)
        return
    for name in stateful.inputs:
        dataframes.refuse_stateful(plan, name, good)
    made = _made(plan, stateful, good)
    if sink.sink.input != stateful.name:
        output = made.sparkSession.createDataFrame([], made.schema)
        dataframes.refuse_stateful(plan, sink.sink.input, output, stateful.name)
        if sink.sink.mode is Mode.UPDATE:
            _refuse_left_out(plan, sink, stateful, output)
    _refuse_no_state(plan, sink, stateful, good)


def _refuse_left_out(
    plan: PipelinePlan, sink: SinkPlan, stateful: Transform, output: DataFrame
) -> None:
    """Raise ConfigError when a transform after the state leaves out some of the changes."""
    made = dataframes.nodes_of(plan, [sink.sink.input], output, stateful.name).made
    above = plan.nodes[stateful.name].transforms
    for name in (name for name in made if name in plan.pipeline.transforms and name not in above):
        said = plan.pipeline.transforms[name].said
        wrong = changes.why_left_out(made[name])
        if wrong:
            raise refusal(said.place, said.path, wrong)


def _refuse_no_state(plan: PipelinePlan, sink: SinkPlan, stateful: Transform, good: Good) -> None:
    """Check with Spark, over a stream with the same columns, whether the query would run."""
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
    if stateful.state is not None:
        other, kinds = None, set()
    if other or len(kinds) > 1 or words.count("Join") > 1:
        what = other or " with ".join(sorted(kinds))
        message = (
            f"{what} has no state that is kept for it: expected one join of two streams, or "
            "windows of time in GROUP BY"
        )
        raise refusal(said.place, said.path, message)
    if "Join" in kinds:
        unbounded = why_without_end(made, [w.column for w in stateful.watermarks])
        if unbounded:
            raise refusal(said.place, said.path, unbounded)
    # Spark refuses such a query only when it starts, and then without the position in the file.
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
    if sink.sink.mode is Mode.UPDATE:
        wrong = changes.why_no_changes(made)
        if wrong:
            raise refusal(said.place, said.path, wrong)


def _made(plan: PipelinePlan, stateful: Transform, good: Good) -> DataFrame:
    return dataframes.nodes_of(plan, [stateful.name], good).made[stateful.name]
