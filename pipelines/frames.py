"""A pipeline's DataFrames: from a source's rows, through the transforms, to a sink's rows.

The same code builds them over an empty frame (`plan`: schemas without a broker) and over each
micro-batch. Every complaint of Spark about SQL or columns becomes a ConfigError with the line of
the file. Transforms must be stateless: a batch is cut by chance, so grouping, joining, sorting or
limiting within one would mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import ByPartition
from pipelines import checking, decode, functions, lookups
from pipelines.decode import Reading
from pipelines.deduplicating import without_copies
from pipelines.errors import RunError
from pipelines.frame_columns import columns_ddl
from pipelines.historizing import versions
from pipelines.joins import JOIN, beyond_rows
from pipelines.merging import partials
from pipelines.model import Action, Mode, OnError, Pipeline, Sink, Source, Transform
from pipelines.refusals import (
    refuse_flag,
    refuse_no_condition,
    refuse_no_time,
    refuse_own,
    refuse_twice,
)
from pipelines.spark_words import complaint, refusal
from pipelines.topic_rows import topic_rows
from pipelines.upserting import HIDDEN, latest_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Good = DataFrame | Mapping[str, DataFrame]
    """A source's good rows, or those of each source that is joined, by its name."""


NOTHING_BESIDE: Mapping[str, DataFrame] = {}


def empty_source(spark: SparkSession, source: Source) -> DataFrame:
    """A source's columns without rows."""
    return spark.createDataFrame([], columns_ddl(headers=source.headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Nodes:
    """A batch's rows at each node that was asked for and what it is made of.

    `made`: as its transform makes them; `rows`: without those that the node's own checks leave out.
    """

    made: Mapping[str, DataFrame]
    rows: Mapping[str, DataFrame]


def sink_rows(pipeline: Pipeline, sink: Sink, good: Good) -> DataFrame:
    """What goes into the sink's table, given its source's good rows."""
    return table_rows(pipeline, sink, rows_of(pipeline, sink.input, good))


def table_rows(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> DataFrame:
    """What goes into the sink's table, given the rows of its input."""
    from pyspark.errors import PySparkException

    refuse_twice(pipeline, sink, rows.columns)
    if sink.topic is not None:
        return topic_rows(sink, sink.topic, rows)
    if sink.deduplicate is not None:
        refuse_no_time(sink, sink.deduplicate, rows)
        try:
            return without_copies(rows, sink.deduplicate)
        except PySparkException as error:
            path = f"sinks.{sink.name}.deduplicate"
            raise complaint(sink.deduplicate.key_places[0], path, error) from error
    if sink.mode is Mode.APPEND:
        return rows
    order = sink.latest.columns if sink.latest else ()
    named = {*sink.keys, *order, *(a.argument for a in sink.aggregates if a.argument)}
    missing = sorted(named - set(rows.columns))
    path = f"sinks.{sink.name}"
    if missing:
        have = ", ".join(rows.columns)
        message = f"no column {', '.join(missing)} in `{sink.input}`; it has: {have}"
        raise refusal(sink.place, path, message)
    if sink.mode is Mode.SCD2:
        refuse_own(sink, rows)
    if sink.latest is not None:
        refuse_flag(sink, rows)
    try:
        reduced = _REDUCED[sink.mode](rows, sink)
        _ = reduced.schema
    except PySparkException as error:
        raise complaint(sink.place, path, error) from error
    return reduced


_REDUCED = {Mode.MERGE: partials, Mode.UPSERT: latest_rows, Mode.SCD2: versions}


def stored(rows: DataFrame) -> DataFrame:
    """Of a sink's rows, what its table has."""
    return rows.drop(HIDDEN)


def first_rows(rows: DataFrame) -> DataFrame:
    """What an empty table has after these rows of a sink."""
    return stored(rows.where(f"NOT {HIDDEN}") if HIDDEN in rows.columns else rows)


def refuse_checks(pipeline: Pipeline, sink: Sink, good: Good) -> None:
    """Raise ConfigError when a check that judges this sink's batches is no condition there, or
    sends dead letters that it cannot."""
    checks = pipeline.checks_of(sink)
    made = nodes_of(pipeline, {check.on for check in checks}, good).made
    for check in checks:
        rows, expr = made[check.on], check.expr
        steps = refuse_no_condition(expr, rows).partition("\n")[0]
        wrong = checking.why_not_steady(check, steps)
        if wrong:
            raise refusal(expr.place, expr.path, wrong)
        kinds = dict(rows.dtypes)
        wrong = checking.why_no_letters(check, rows.columns)
        columns = checking.record_columns(rows.columns)
        others = [
            f"`{column}` is {kinds[column].upper()}, not {checking.RECORD[name].upper()}"
            for name, column in columns.items()
            if kinds[column] != checking.RECORD[name]
        ]
        if not wrong and others and check.action is Action.DEAD_LETTER:
            wrong = f"`{check.on}` does not say which record a row is of: {', '.join(others)}"
        if wrong:
            raise refusal(check.on_place, f"checks.{check.name}.on", wrong)


def rows_of(pipeline: Pipeline, node: str, good: Good, at: str | None = None) -> DataFrame:
    """A source's or transform's rows, without those that checks leave out."""
    return nodes_of(pipeline, [node], good, at).rows[node]


def nodes_for(
    pipeline: Pipeline,
    sink: Sink,
    good: Good,
    at: str | None = None,
    beside: Mapping[str, DataFrame] = NOTHING_BESIDE,
) -> Nodes:
    """What a sink's rows, the checks of its batches and its sources' dead letters are made of.
    `at`: as in `nodes_of`; `beside`: the good rows of sources that were read beside that state, for
    the checks that send letters of theirs."""
    sending = {s.name: pipeline.checks_sending(s) for s in pipeline.sources_of(sink)}
    apart = dict.fromkeys(check.on for each in sending.values() for check in each)
    own = dict.fromkeys([sink.input, *(check.on for check in pipeline.checks_of(sink))])
    if at is None:
        return nodes_of(pipeline, own | apart, good)
    found = [nodes_of(pipeline, [node for node in own if node not in apart], good, at)]
    for name, rows in beside.items():
        wanted = dict.fromkeys(check.on for check in sending[name])
        if wanted:
            found.append(nodes_of(pipeline, wanted, rows))
    return Nodes(
        made={node: rows for each in found for node, rows in each.made.items()},
        rows={node: rows for each in found for node, rows in each.rows.items()},
    )


def nodes_of(pipeline: Pipeline, wanted: Iterable[str], good: Good, at: str | None = None) -> Nodes:
    """The rows of several nodes of one source. Views live in the batch's own session, one per
    query. `at`: the node that `good` has the rows of, where it is not the source."""
    lineages = [pipeline.lineage(node) for node in wanted]
    made = _begun(good, [name for sources, _ in lineages for name in sources], at)
    some = next(iter(good.values())) if isinstance(good, Mapping) else good
    session = some.sparkSession
    rows = {name: _kept(pipeline, name, frame) for name, frame in made.items()}
    tables: dict[str, DataFrame] = {}
    above = {*pipeline.lineage(at)[1]} if at else set()
    names = dict.fromkeys(name for _, transforms in lineages for name in transforms)
    for name in (name for name in names if name not in above):
        transform = pipeline.transforms[name]
        for other in (*rows, *pipeline.lookups):
            session.catalog.dropTempView(other)
        for one in transform.inputs:
            if one in pipeline.lookups and one not in tables:
                tables[one] = lookups.rows_of(session, pipeline.lookups[one])
            frame = (tables if one in pipeline.lookups else rows)[one]
            _timed(transform, one, frame).createOrReplaceTempView(one)
        if transform.function:
            made[name] = functions.rows_of(transform, [session.table(n) for n in transform.inputs])
        else:
            made[name] = _selected(session, transform)
        rows[name] = _kept(pipeline, name, made[name])
    return Nodes(made=made, rows=rows)


def _begun(good: Good, sources: Iterable[str], at: str | None) -> dict[str, DataFrame]:
    """Where the rows of nodes begin: at the sources, or in the midst."""
    if isinstance(good, Mapping):
        return dict(good)
    return {at: good} if at else dict.fromkeys(sources, good)


def _timed(transform: Transform, name: str, frame: DataFrame) -> DataFrame:
    """An input's rows with the watermark that the file says. Of a batch it means nothing: no row of
    one is late, and each of its windows is closed."""
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
    """What a SELECT makes of its inputs' views."""
    from pyspark.errors import PySparkException

    said = transform.said
    try:
        made = session.sql(said.text)
        _ = made.schema
    except PySparkException as error:
        raise complaint(said.place, said.path, error, transform.inputs) from error
    return made


def _kept(pipeline: Pipeline, node: str, frame: DataFrame) -> DataFrame:
    """A node's rows; raises ConfigError where a check is no condition over its columns."""
    from pyspark.errors import PySparkException

    for check in pipeline.checks_on([node]):
        try:
            frame = checking.kept(frame, [check])
        except PySparkException as error:
            refuse_no_condition(check.expr, frame)  # which says it more plainly
            raise complaint(check.expr.place, check.expr.path, error) from error
    return frame


def refuse_stateful(pipeline: Pipeline, node: str, good: Good, at: str | None = None) -> None:
    """Raise ConfigError when a transform of a node looks beyond single rows of `good`, which is the
    source's rows, or those of `at`."""
    used = [name for name in pipeline.lookups if name in pipeline.inputs_of(node)]
    word = beyond_rows(rows_of(pipeline, node, good, at), used)
    if word is None:
        return
    transform = pipeline.transforms[pipeline.lineage(node)[1][-1]]
    message = (
        f"{word} needs more than one batch's rows to mean anything; a transform may only look "
        "at single rows (to aggregate, use a sink with mode merge, or windows with a `watermark`)"
    )
    if used and word == JOIN:
        tables = " and ".join(f"`{name}`" for name in used)
        message = (
            f"{tables} may only add to each row of the stream, or leave it out: by an inner or "
            "cross join, or one that is outer, semi or anti on the stream's side"
        )
    raise refusal(transform.said.place, transform.said.path, message)


def parse(frame: DataFrame, reading: Reading | None, *, is_kept: bool = False) -> DataFrame:
    """A source's rows, parsed and marked good or bad; as they are when nothing is decoded.
    `is_kept`: as in `decode.parsed`."""
    return frame if reading is None else decode.parsed(frame, reading, is_kept=is_kept)


def persisted(frame: DataFrame, reading: Reading | None) -> DataFrame:
    """The same, which Spark keeps from the first look on until `unpersist`."""
    return parse(frame, reading, is_kept=True).persist()


def good_rows(parsed: DataFrame, reading: Reading | None) -> DataFrame:
    """The good rows, decoded."""
    return parsed if reading is None else decode.good_rows(parsed, reading)


def dead_letters(
    pipeline: Pipeline,
    source: Source,
    parsed: DataFrame,
    reading: Reading | None,
    made: Mapping[str, DataFrame],
    skip_below: ByPartition,
    there: DataFrame | None = None,
) -> DataFrame:
    """The dead letters of a batch, of a source and of checks, without those that are there.

    `made`: the nodes' rows as `nodes_of` has them. `there`: the letters that the table has; without
    it, it has all below these offsets.
    """
    from pyspark.sql import functions as F  # noqa: N812

    decodes = source.has_on_error(OnError.DEAD_LETTER)
    found = letters_of(pipeline, source, parsed, reading if decodes else None, made)
    assert found is not None, "only who has some writes dead letters"
    below = F.lit(False)
    for (topic, partition), offset in sorted(skip_below.items()):
        at = (F.col("topic") == topic) & (F.col("partition") == partition)
        below |= at & (F.col("offset") < offset)
    if there is None:
        return found.where(~below) if skip_below else found
    missing = found.where(below).join(there, ["topic", "partition", "offset"], "left_anti")
    return found.where(~below).unionByName(missing)


def letters_of(
    pipeline: Pipeline,
    source: Source,
    parsed: DataFrame,
    reading: Reading | None,
    made: Mapping[str, DataFrame],
) -> DataFrame | None:
    """The records that checks send away and, with a reading, those that it does not take."""
    found = checking.letters(made, pipeline.checks_sending(source), parsed, source.name)
    if reading is None:
        return found
    bad = decode.bad_rows(parsed, reading, source.name)
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
