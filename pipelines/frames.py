"""A pipeline's DataFrames: from a source's rows, through the transforms, to a sink's rows.

The same code builds them over an empty frame (`plan`: schemas without a broker) and over each
micro-batch. Every complaint of Spark about SQL or columns becomes a ConfigError with the line of
the file. Transforms must be stateless: a batch is cut by chance, so grouping, joining, sorting or
limiting within one would mean nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from josefine_spark.topic_offsets import ByPartition
from pipelines import decode
from pipelines.errors import ConfigError, Place, Problem, RunError
from pipelines.merging import partials
from pipelines.model import Pipeline, Sink, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SOURCE_DDL = (
    "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP, "
    "timestampType INT"
)
HEADERS_DDL = ", headers ARRAY<STRUCT<key: STRING, value: BINARY>>"

_STATEFUL = re.compile(
    r"^[\s:+|-]*(?:'|\*\(\d+\) )?"
    r"(Aggregate|Window|WindowGroupLimit|Distinct|Deduplicate|GlobalLimit|LocalLimit|Tail|Offset"
    r"|Sort|Join|LateralJoin|AsOfJoin|Intersect|Except|Sample|Pivot)\b",
    re.MULTILINE,
)

_NO_TABLE = re.compile(r"^\[TABLE_OR_VIEW_NOT_FOUND\] The table or view (`\S+`) cannot be found")
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_SENTENCE_END = re.compile(r"\.\s+(?=[A-Z])")


def value_schema(spark: SparkSession, source: Source) -> StructType | None:
    """The schema that a source's values are decoded with; None: they stay bytes."""
    from pyspark.errors import PySparkException
    from pyspark.sql.types import StructType

    if source.decode is None:
        return None
    placed = source.decode.schema
    try:
        schema = StructType.fromDDL(placed.text)
        assert isinstance(schema, StructType)
    except PySparkException as error:
        raise _complaint(placed.place, placed.path, error) from error
    names = [name.lower() for name in schema.names]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise _problem(placed.place, placed.path, f"column {', '.join(twice)} is there twice")
    return schema


def empty_source(spark: SparkSession, source: Source) -> DataFrame:
    """A source's columns without rows."""
    return spark.createDataFrame([], SOURCE_DDL + (HEADERS_DDL if source.headers else ""))


def sink_rows(pipeline: Pipeline, sink: Sink, good: DataFrame) -> DataFrame:
    """What goes into the sink's table, given its source's good rows."""
    from pyspark.errors import PySparkException

    rows = _transformed(pipeline, sink, good)
    _refuse_twice(pipeline, sink, rows.columns)
    if not sink.merges:
        return rows
    missing = sorted(
        {*sink.keys, *(a.argument for a in sink.aggregates if a.argument)} - set(rows.columns)
    )
    path = f"sinks.{sink.name}"
    if missing:
        have = ", ".join(rows.columns)
        message = f"no column {', '.join(missing)} in `{sink.input}`; it has: {have}"
        raise _problem(sink.place, path, message)
    try:
        reduced = partials(rows, sink)
        _ = reduced.schema
    except PySparkException as error:
        raise _complaint(sink.place, path, error) from error
    return reduced


def _refuse_twice(pipeline: Pipeline, sink: Sink, names: list[str]) -> None:
    lower = [name.lower() for name in names]
    twice = sorted({name for name in lower if lower.count(name) > 1})
    if not twice:
        return
    made = pipeline.transforms.get(sink.input)
    place, path = (made.sql.place, made.sql.path) if made else (sink.place, f"sinks.{sink.name}")
    raise _problem(place, path, f"column {', '.join(twice)} is there twice")


def _transformed(pipeline: Pipeline, sink: Sink, good: DataFrame) -> DataFrame:
    """The rows of the sink's input. Views live in the batch's own session, one per query."""
    from pyspark.errors import PySparkException

    session = good.sparkSession
    sources, transforms = pipeline.lineage(sink.input)
    frames = {sources[0]: good}
    for name in transforms:
        transform = pipeline.transforms[name]
        for other in frames:
            session.catalog.dropTempView(other)
        for wanted in transform.inputs:
            frames[wanted].createOrReplaceTempView(wanted)
        try:
            frames[name] = session.sql(transform.sql.text)
            _ = frames[name].schema
        except PySparkException as error:
            sql = transform.sql
            raise _complaint(sql.place, sql.path, error, transform.inputs) from error
    return frames[sink.input]


def refuse_stateful(pipeline: Pipeline, good: DataFrame, sink: Sink) -> None:
    """Raise ConfigError when a transform of this sink looks beyond single rows."""
    frame: Any = _transformed(pipeline, sink, good)
    match = _STATEFUL.search(frame._jdf.queryExecution().analyzed().treeString())
    if match is None:
        return
    transform = pipeline.transforms[pipeline.lineage(sink.input)[1][-1]]
    message = (
        f"{match[1]} needs more than one batch's rows to mean anything; a transform may only look "
        "at single rows (to aggregate, use a sink with mode merge)"
    )
    raise _problem(transform.sql.place, transform.sql.path, message)


def parse(frame: DataFrame, source: Source, schema: StructType | None) -> DataFrame:
    """The source's rows, parsed and marked good or bad; as they are when nothing is decoded."""
    if schema is None or source.decode is None:
        return frame
    return decode.parsed(frame, schema, strict=source.decode.strict)


def good_rows(parsed: DataFrame, schema: StructType | None) -> DataFrame:
    """The good rows, `value` decoded."""
    return parsed if schema is None else decode.good_rows(parsed, schema)


def bad_rows(
    parsed: DataFrame, source: Source, schema: StructType | None, skip_below: ByPartition
) -> DataFrame:
    """The bad rows as dead letters, without those that the table has already."""
    assert schema is not None
    assert source.decode is not None
    bad = decode.bad_rows(parsed, schema, source.name, strict=source.decode.strict)
    for (topic, partition), offset in sorted(skip_below.items()):
        there = (bad["topic"] == topic) & (bad["partition"] == partition)
        bad = bad.where(~(there & (bad["offset"] < offset)))
    return bad


def fail_on_bad(parsed: DataFrame, source: Source, schema: StructType | None) -> None:
    """Raise RunError naming the first bad record, if any (on_error: fail)."""
    bad = bad_rows(parsed, source, schema, {})
    first = bad.orderBy("topic", "partition", "offset").first()
    if first is not None:
        raise RunError(
            f"source `{source.name}`: {first.topic}-{first.partition} offset {first.offset}: "
            f"{first.reason}; nothing of this batch was written (on_error: fail)"
        )


def columns(frame: DataFrame) -> dict[str, str]:
    """Column → its type as in SQL."""
    return {field.name: field.dataType.simpleString() for field in frame.schema.fields}


def _complaint(
    place: Place, path: str, error: Exception, tables: tuple[str, ...] = ()
) -> ConfigError:
    return _problem(place, path, _in_short(str(error), tables))


def _in_short(text: str, tables: tuple[str, ...]) -> str:
    """What Spark says, without its pages, codes and advice: one sentence and its suggestion."""
    text = " ".join(re.split(r"\nJVM stacktrace|; line |\n\n== SQL", text)[0].split())
    missing = _NO_TABLE.search(text)
    if missing and tables:
        there = ", ".join(f"`{name}`" for name in tables)
        return f"no table {missing[1]}; there {'is' if len(tables) == 1 else 'are'} {there}"
    text = _CONDITION.sub("", text.split(" SQLSTATE: ")[0])
    first, *more = _SENTENCE_END.split(text)
    suggestion = next((one for one in more if one.startswith("Did you mean")), "")
    return (f"{first}. {suggestion}" if suggestion else first).rstrip(";. ")


def _problem(place: Place, path: str, message: str) -> ConfigError:
    return ConfigError([Problem(place=place, path=path, message=message)])
