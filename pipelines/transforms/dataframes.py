"""DataFrames of a pipeline: from a source's rows, through the transforms, to a sink's rows.

The same code builds them over an empty frame (`plan`: schemas without a broker) and over each
micro-batch. Every error of Spark about SQL or columns becomes a ConfigError with the line of the
file. Transforms must be stateless: batch boundaries are arbitrary, so grouping, joining, sorting or
limiting within one batch has no meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import RunError
from pipelines.formats import decode
from pipelines.formats.decode import Reading
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Action, Source, Transform
from pipelines.model.plan import Lineage, PipelinePlan, SinkPlan, SourcePlan
from pipelines.sources.columns import columns_ddl
from pipelines.spark.errors import complaint, refusal
from pipelines.transforms import checks, lookups, python_function, python_state, row_by_row
from pipelines.transforms.analysis_errors import (
    refuse_no_condition,
)
from pipelines.transforms.ordering import PRIVATE
from pipelines.transforms.upsert import HIDDEN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Good = DataFrame | Mapping[str, DataFrame]
    """A source's good rows, or those of each source that is joined, by its name."""


NOTHING_READ: Mapping[str, DataFrame] = {}


def empty_source(spark: SparkSession, source: Source) -> DataFrame:
    """A source's columns without rows."""
    stream = source.table_stream
    ddl = columns_ddl(headers=source.headers) if stream is None else stream.ddl
    return spark.createDataFrame([], ddl)


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """A batch's rows at each requested node and at the nodes that it depends on.

    `made`: as the node's transform makes them; `rows`: without those that its checks leave out.
    """

    made: Mapping[str, DataFrame]
    rows: Mapping[str, DataFrame]


def stored(rows: DataFrame) -> DataFrame:
    """A sink's rows with the table's columns only."""
    return rows.drop(*(name for name in rows.columns if name.startswith(PRIVATE)))


def first_rows(rows: DataFrame) -> DataFrame:
    """The contents of an empty table after these rows of a sink."""
    return stored(rows.where(f"NOT {HIDDEN}") if HIDDEN in rows.columns else rows)


def refuse_checks(plan: PipelinePlan, sink: SinkPlan, good: Good) -> None:
    """Raise ConfigError when a check of this sink's batches is not a condition over its node, or
    cannot send the dead letters that it should."""
    made = nodes_of(plan, {check.on for check in sink.checks}, good).made
    for check in sink.checks:
        rows, expr = made[check.on], check.expr
        steps = refuse_no_condition(expr, rows).partition("\n")[0]
        wrong = checks.why_not_steady(check, steps)
        if wrong:
            raise refusal(expr.place, expr.path, wrong)
        kinds = dict(rows.dtypes)
        wrong = checks.why_no_letters(check, rows.columns)
        columns = checks.record_columns(rows.columns)
        others = [
            f"`{column}` is {kinds[column].upper()}, not {checks.RECORD[name].upper()}"
            for name, column in columns.items()
            if kinds[column] != checks.RECORD[name]
        ]
        if not wrong and others and check.action is Action.DEAD_LETTER:
            wrong = f"`{check.on}` does not name the record of a row: {', '.join(others)}"
        if wrong:
            raise refusal(check.on_place, f"checks.{check.name}.on", wrong)


def rows_of(plan: PipelinePlan, node: str, good: Good, at: str | None = None) -> DataFrame:
    """A source's or transform's rows, without those that checks leave out."""
    return nodes_of(plan, [node], good, at).rows[node]


def nodes_for(
    plan: PipelinePlan,
    sink: SinkPlan,
    good: Good,
    at: str | None = None,
    read_again: Mapping[str, DataFrame] = NOTHING_READ,
) -> Nodes:
    """The nodes of a sink's rows, of its batches' checks and of its sources' dead letters. `at`: as
    in `nodes_of`; `read_again`: source → its good rows, read apart from the state at `at`, for the
    checks that send dead letters."""
    if at is None:
        return _built(plan, sink.build, good, at)
    own = [node for node in sink.nodes if node not in sink.letter_nodes]
    found = [nodes_of(plan, own, good, at)]
    for name, rows in read_again.items():
        wanted = dict.fromkeys(check.on for check in plan.sources[name].sending)
        if wanted:
            found.append(nodes_of(plan, wanted, rows))
    return Nodes(
        made={node: rows for each in found for node, rows in each.made.items()},
        rows={node: rows for each in found for node, rows in each.rows.items()},
    )


def nodes_of(plan: PipelinePlan, wanted: Iterable[str], good: Good, at: str | None = None) -> Nodes:
    """The rows of several nodes of one source. `at`: the node whose rows `good` has, if it is not
    the source."""
    return _built(plan, plan.together(wanted), good, at)


def _built(plan: PipelinePlan, build: Lineage, good: Good, at: str | None) -> Nodes:
    """Build the nodes in order, each over views of its inputs, in the query's own session.

    Before each transform the views of all others are dropped: SQL that reads a table which is not
    among its `inputs` must fail, not read a view of the same name."""
    pipeline = plan.pipeline
    made = _begun(good, build.sources, at)
    some = next(iter(good.values())) if isinstance(good, Mapping) else good
    session = some.sparkSession
    rows = {name: _kept(plan, name, frame) for name, frame in made.items()}
    tables: dict[str, DataFrame] = {}
    above = plan.nodes[at].transforms if at else ()
    for name in build.transforms:
        if name in above:
            continue
        transform = pipeline.transforms[name]
        for other in (*rows, *pipeline.lookups):
            session.catalog.dropTempView(other)
        for one in transform.inputs:
            # A table is read once a batch, so that all transforms see the same version of it.
            if one in pipeline.lookups and one not in tables:
                tables[one] = lookups.rows_of(session, pipeline.lookups[one])
            frame = (tables if one in pipeline.lookups else rows)[one]
            _timed(transform, one, frame).createOrReplaceTempView(one)
        if transform.state is not None:
            made[name] = python_state.rows_of(transform, session.table(transform.inputs[0]))
        elif transform.function:
            made[name] = python_function.rows_of(
                transform, [session.table(n) for n in transform.inputs]
            )
        else:
            made[name] = _selected(session, transform)
        rows[name] = _kept(plan, name, made[name])
    return Nodes(made=made, rows=rows)


def _begun(good: Good, sources: Iterable[str], at: str | None) -> dict[str, DataFrame]:
    """The given rows: of the sources, or of the node `at`."""
    if isinstance(good, Mapping):
        return dict(good)
    return {at: good} if at else dict.fromkeys(sources, good)


def _timed(transform: Transform, name: str, frame: DataFrame) -> DataFrame:
    """An input's rows with the watermark of the file. In a batch it has no effect: no row is late,
    and each window is closed."""
    from pyspark.errors import PySparkException

    for mark in transform.watermarks:
        if mark.input == name:
            try:
                frame = frame.withWatermark(mark.column, f"{mark.delay_ms} milliseconds")
                _ = frame.schema
            except PySparkException as error:
                raise complaint(mark.place, mark.path, error) from error
    return frame


def _selected(session: SparkSession, transform: Transform) -> DataFrame:
    """The rows of a transform's SELECT over its inputs' views."""
    from pyspark.errors import PySparkException

    said = transform.said
    try:
        made = session.sql(said.bound)
        _ = made.schema
    except PySparkException as error:
        raise complaint(said.place, said.path, error, transform.inputs) from error
    return made


def _kept(plan: PipelinePlan, node: str, frame: DataFrame) -> DataFrame:
    """A node's rows. Raises ConfigError if a check is not a condition over its columns."""
    from pyspark.errors import PySparkException

    for check in plan.checks_on.get(node, ()):
        try:
            frame = checks.kept(frame, [check])
        except PySparkException as error:
            refuse_no_condition(check.expr, frame)  # has the clearer error
            raise complaint(check.expr.place, check.expr.path, error) from error
    return frame


def refuse_stateful(plan: PipelinePlan, node: str, good: Good, at: str | None = None) -> None:
    """Raise ConfigError when a transform of a node looks beyond single rows of `good`, which is the
    source's rows, or those of `at`."""
    pipeline = plan.pipeline
    above = plan.nodes[at].transforms if at else ()
    made = nodes_of(plan, [node], good, at).made
    for name in plan.nodes[node].transforms:
        if name in above:
            continue
        transform = pipeline.transforms[name]
        tables = [one for one in transform.inputs if one in pipeline.lookups]
        streams = {*transform.inputs} - {*tables}
        # A function can make literal rows of what it collected from its inputs.
        is_sql = transform.function is None
        part = row_by_row.refused_part(made[name], streams, tables, has_constants=is_sql)
        if part:
            message = row_by_row.why_refused(part, tables)
            raise refusal(transform.said.place, transform.said.path, message)


def parse(frame: DataFrame, reading: Reading | None, *, is_kept: bool = False) -> DataFrame:
    """A source's rows, parsed and marked good or bad; as they are when nothing is decoded.
    `is_kept`: as in `decode.parsed`."""
    return frame if reading is None else decode.parsed(frame, reading, is_kept=is_kept)


def persisted(frame: DataFrame, reading: Reading | None) -> DataFrame:
    """The same, cached from the first use until `unpersist`."""
    return parse(frame, reading, is_kept=True).persist()


def good_rows(parsed: DataFrame, reading: Reading | None) -> DataFrame:
    """The good rows, decoded."""
    return parsed if reading is None else decode.good_rows(parsed, reading)


def dead_letters(
    plan: SourcePlan,
    parsed: DataFrame,
    reading: Reading | None,
    made: Mapping[str, DataFrame],
    skip_below: ByPartition,
    there: DataFrame | None = None,
) -> DataFrame:
    """The dead letters of a batch, by `decode` and checks, without those that the table has.

    `made`: the nodes' rows from `nodes_of`. `there`: the dead letters in the table; without it, the
    table has all of them below these offsets.
    """
    from pyspark.sql import functions as F  # noqa: N812

    found = letters_of(plan, parsed, reading if plan.decodes_letters else None, made)
    assert found is not None, "only who has some writes dead letters"
    below = F.lit(False)
    for (topic, partition), offset in sorted(skip_below.items()):
        at = (F.col("topic") == topic) & (F.col("partition") == partition)
        below |= at & (F.col("offset") < offset)
    if there is None:
        return found.where(~below) if skip_below else found
    place = ["topic", "partition", "offset"]
    if plan.source.decode is not None and plan.source.decode.explodes:
        # A record has a dead letter for each bad element, whose value is that element.
        place.append("value")
    found, there = found.alias("found"), there.alias("there")
    same = [F.col(f"found.{name}").eqNullSafe(F.col(f"there.{name}")) for name in place]
    missing = found.where(below).join(there, reduce(and_, same), "left_anti")
    return found.where(~below).unionByName(missing)


def letters_of(
    plan: SourcePlan,
    parsed: DataFrame,
    reading: Reading | None,
    made: Mapping[str, DataFrame],
) -> DataFrame | None:
    """The records that checks send to dead letters and, with a reading, those that do not fit."""
    name = plan.source.name
    found = checks.letters(made, plan.sending, parsed, name) if plan.sending else None
    if reading is None:
        return found
    bad = decode.bad_rows(parsed, reading, name)
    return bad if found is None else bad.unionByName(found)


def fail_on_bad(parsed: DataFrame, source: Source, reading: Reading | None) -> None:
    """Raise RunError naming the first bad record, if any (on_error: fail)."""
    assert reading is not None
    bad = decode.bad_rows(parsed, reading, source.name)
    first = bad.orderBy("topic", "partition", "offset").first()
    if first is not None:
        raise RunError(
            f"source `{source.name}`: {first.topic}-{first.partition} offset {first.offset}: "
            f"{first.reason}; nothing of this batch was written (on_error: fail)"
        )


def columns(frame: DataFrame) -> dict[str, str]:
    """Column → its type as in SQL."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def types(frame: DataFrame) -> dict[str, Type]:
    """Column → its type, with all of its parts."""
    return {field["name"]: field["type"] for field in frame.schema.jsonValue()["fields"]}
