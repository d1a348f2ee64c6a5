"""How a sink's rows come into its table, in a run and in a replay of dead letters alike.

What a commit says of the rows is said here too, for the next one has to fit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines import frames
from pipelines.chain import Commit
from pipelines.constraining import told_when_broken
from pipelines.deduplicating import Span, new_rows
from pipelines.delta_chain import DeltaChain
from pipelines.errors import RunError
from pipelines.evolution import Steps, fit, other_rows
from pipelines.historizing import history, identity
from pipelines.lettering import LettersDue
from pipelines.merging import Merge, fold
from pipelines.model import Mode, Pipeline, Sink, Source
from pipelines.topic_chain import AnyChain
from pipelines.upserting import upsert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pipelines.delta_log import LogEntry

NO_STEPS = Steps()


def facts(pipeline: Pipeline, sink: Sink, columns: Mapping[str, str]) -> dict[str, Any]:
    """What the next run has to know of the table's rows."""
    said: dict[str, Any] = {
        "columns": [*columns],
        "mode": sink.mode.value,
        "keys": [*_row_keys(sink)],
    }
    if any(map(pipeline.has_dead_letters, pipeline.sources_of(sink))):
        said["dead_letters"] = pipeline.dead_letters
    return said


def steps(
    spark: SparkSession, sink: Sink, path: str, wants: Mapping[str, str], said: Mapping[str, Any]
) -> Steps:
    """What to change in a table that was there before. `said`: by its last commit. Raises
    RunError."""
    if sink.topic is not None:
        return NO_STEPS
    due: Steps | str = other_rows(said, sink.mode.value, _row_keys(sink))
    if not due:
        have = frames.columns(spark.read.format("delta").load(path))
        due = fit(have, wants, said.get("columns", ()), sink.evolution, merges=sink.merges)
    if isinstance(due, str):
        raise RunError(f"sink `{sink.name}`: {sink.told} {due}")
    return due


def write(
    chain: AnyChain,
    sink: Sink,
    rows: DataFrame,
    commit: Commit,
    batch_id: int,
    more: Mapping[str, Any] | None,
    span: Span | None,
) -> LogEntry:
    """Commit a sink's rows. `span`: of the rows before copies were left out, where some are.
    Raises RunError where the table refuses one."""
    how = _how(sink, rows.schema, span)
    with told_when_broken(sink, chain.path, commit, batch_id):
        if how is None:
            return chain.append(rows, commit, batch_id, more)
        assert isinstance(chain, DeltaChain), "a topic only grows"
        return chain.merge(rows, how, commit, batch_id, more)


def missing_letters(
    spark: SparkSession,
    chain: DeltaChain,
    source: Source,
    letters: Callable[[ByPartition, DataFrame], DataFrame],
    due: LettersDue,
) -> tuple[DataFrame, Commit | None]:
    """Of a batch of which `chain` has passed all or some offsets: the letters that its table has
    not, and the commit for them. None where there are none, and none is due."""
    tip, commit = chain.tip, due.commit
    assert tip is not None
    assert due.look_below is not None
    table = spark.read.format("delta").load(chain.path)
    there = table.where(table["source"] == source.name).select("topic", "partition", "offset")
    missing = letters(due.look_below, there)
    if commit is None and not missing.isEmpty():
        ends = tip.reached
        commit = Commit(start=ends.ends, end=ends, txn_version=tip.txn_version + 1)
    return missing, commit


def rows_written(sink: Sink, entry: LogEntry) -> int:
    """How many rows of the table a commit made, changed or deleted."""
    metrics = entry.metrics
    if sink.mode is Mode.APPEND and sink.deduplicate is None:
        return metrics.get("numOutputRows", 0)
    return sum(metrics.get(f"numTargetRows{w}", 0) for w in ("Inserted", "Updated", "Deleted"))


def _how(sink: Sink, schema: StructType, span: Span | None) -> Merge | None:
    """None: they are appended."""
    if sink.deduplicate is not None:
        assert span is not None
        return new_rows(sink.deduplicate, schema, span)
    if sink.mode is Mode.APPEND:
        return None
    if sink.mode is Mode.SCD2:
        return history(sink, schema)
    return fold(sink) if sink.merges else upsert(sink, schema)


def _row_keys(sink: Sink) -> tuple[str, ...]:
    """What the table has one row for."""
    return identity(sink) if sink.mode is Mode.SCD2 else sink.keys
