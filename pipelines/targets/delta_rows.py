"""What a Delta table gets of a sink's rows, and how they come into it, by the sink's mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.deduplicating import Span, new_rows, without_copies
from pipelines.historizing import history, identity, versions
from pipelines.merging import Merge, fold, partials
from pipelines.model import Mode, Pipeline, Sink
from pipelines.refusals import refuse_flag, refuse_no_time, refuse_own, refuse_twice
from pipelines.spark_words import complaint, refusal
from pipelines.upserting import latest_rows, upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_REDUCED = {Mode.MERGE: partials, Mode.UPSERT: latest_rows, Mode.SCD2: versions}


def table_rows(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> DataFrame:
    """What goes into the table, given the rows of the sink's input. Raises ConfigError."""
    from pyspark.errors import PySparkException

    names = rows.columns
    if len({name.lower() for name in names}) < len(names):
        refuse_twice(pipeline, sink, names)
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
    missing = sorted(named - set(names))
    path = f"sinks.{sink.name}"
    if missing:
        message = f"no column {', '.join(missing)} in `{sink.input}`; it has: {', '.join(names)}"
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


def merge_of(sink: Sink, schema: StructType, span: Span | None) -> Merge | None:
    """How rows of these columns are merged into the table; None: they are appended."""
    if sink.deduplicate is not None:
        assert span is not None
        return new_rows(sink.deduplicate, schema, span)
    if sink.mode is Mode.APPEND:
        return None
    if sink.mode is Mode.SCD2:
        return history(sink, schema)
    return fold(sink) if sink.merges else upsert(sink, schema)


def row_keys(sink: Sink) -> tuple[str, ...]:
    """What the table has one row for."""
    return identity(sink) if sink.mode is Mode.SCD2 else sink.keys
