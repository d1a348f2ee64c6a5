"""One sink before its first batch: schemas looked at, tables there, the start settled, the stream.

Whatever is wrong with the file stops here, before any table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_spark.topic_offsets import ByPartition
from pipelines import frames
from pipelines.checkpoint import CheckpointFiles
from pipelines.delta_chain import DeltaChain, Link
from pipelines.delta_tables import change_columns, ensure_table
from pipelines.errors import RunError
from pipelines.evolution import Steps
from pipelines.hadoop import HadoopFiles
from pipelines.judgement import JUDGED_BY, judgement
from pipelines.lettering import Lettering
from pipelines.model import Pipeline, Sink, Source
from pipelines.readings import reading_of
from pipelines.refusals import refuse_no_cluster, refuse_no_constraint
from pipelines.retries import Retry
from pipelines.settling import OfSource, Settling
from pipelines.sink_plan import PipelinePlan, SinkPlan, SourcePlan
from pipelines.sources import SourceKind, Topics, topics_beside, topics_together
from pipelines.state_chain import STATE, other_state, ways_out
from pipelines.stateful import good_of, refuse_beyond, state_of, stream_of
from pipelines.targets.delta_rows import row_keys
from pipelines.targets.table import target_of
from pipelines.targets.target import LetterChain, OpenTarget, TargetRun
from pipelines.way import Way, begun_at, ways_of
from pipelines.wishes import Wishes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.frames import Good


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """What a sink's batches need. `letterings`: of its sources with dead letters, by name.
    `topics`: of all its sources, `looked`: of each. `begun_at`: empty where the source's `start`
    says it. `ends_at`: where this run ends. `warnings`: what the start passed over as it was told.
    """

    opened: OpenTarget
    letterings: Mapping[str, Lettering[LetterChain]]
    files: CheckpointFiles
    topics: Topics
    looked: Mapping[str, Topics]
    begun_at: ByPartition
    ends_at: ByPartition
    stream: DataFrame
    warnings: Sequence[str]


def prepare(
    spark: SparkSession,
    plan: PipelinePlan,
    of: SinkPlan,
    kind: SourceKind,
    run_id: str,
    on_retry: Callable[[int, Retry], None],
    wishes: Wishes,
    letterings: Mapping[str, Lettering[LetterChain]],
    now_ms: int,
) -> Ready:
    """`letterings`: of sources, where a sink before this one has prepared them. Raises ConfigError
    for SQL, RunError and ChainError for what does not fit together."""
    pipeline, sink, sources = plan.pipeline, of.sink, of.sources

    def link_of(name: str, source: Source, facts: Mapping[str, Any]) -> Link:
        said = {**facts, JUDGED_BY: judgement(plan.sources[source.name])}
        return Link(pipeline=pipeline.name, sink=name, run=run_id, facts=said)

    files_of = partial(CheckpointFiles, HadoopFiles(spark), parse=kind.parse)
    # In a session of its own: the views of a transform must not meet the caller's.
    empty = partial(frames.empty_source, spark.newSession())
    good = good_of(plan, sink.input, empty)
    dry = plan.with_rows({})
    stored = _stored(dry, of, good)
    frames.rows_of(plan, sink.input, good)
    looked = {one.name: kind.look(one) for one in sources}
    topics = topics_together(looked)
    wants, state = frames.columns(stored), state_of(dry, of, good)
    facts = _facts(of, wants, pipeline.dead_letters)
    link = link_of(sink.name, sources[0], {**facts, STATE: state} if state else facts)
    target = target_of(sink)
    losses = target.loss_table(pipeline)
    run = TargetRun(session=lambda: spark, link=link, losses=losses, on_retry=on_retry)
    opened = target.prepare(run, stored, topics.latest.topic_ids.values())
    own: dict[str, OfSource] = {}
    for lettered in of.lettered:
        source = lettered.source
        there, leads = letterings.get(source.name), source.name not in letterings
        if there is None:
            letters = _letters(dry, of, lettered, empty(source), good)
            # A dot is in no sink's name, so this chain collides with none.
            dead_link = link_of(f"dead_letter.{source.name}", source, {})
            there = _lettering(spark, pipeline, letters, dead_link, on_retry)
        own[source.name] = OfSource(there, leads, topics_beside(source, looked))
    files, old = pipeline.checkpoint_of(sink.name), pipeline.old_checkpoint_of(sink.name)
    both = files_of(files), files_of(old)
    settling = Settling(plan, of, opened, losses, [*own.values()], *both, topics, wishes)

    def fits(said: Mapping[str, Any]) -> None:
        _refuse_other_state(pipeline, sink, said, state)
        opened.fit(wants, said)

    start = settling.settle(fits)
    opened.change()
    ways = ways_of(of, kind, looked, start, now_ms)
    return Ready(
        opened=opened,
        letterings={name: each.lettering for name, each in own.items()},
        files=settling.files,
        topics=topics,
        looked=looked,
        begun_at=begun_at(ways),
        ends_at={p: end for way in ways for p, end in way.ends_at.items()},
        stream=_stream(spark, plan, of, kind, ways),
        warnings=settling.warnings,
    )


def _stored(dry: PipelinePlan, of: SinkPlan, good: Good) -> DataFrame:
    """What the sink's table has of no records. Raises ConfigError for what only Spark finds."""
    refuse_beyond(dry, of, good)
    made = frames.rows_of(dry, of.sink.input, good)
    stored = frames.stored(target_of(of.sink).rows(dry.pipeline, made))
    refuse_no_cluster(of.sink, stored.columns)
    refuse_no_constraint(of.sink, stored)
    frames.refuse_checks(dry, of, good)
    return stored


def _facts(plan: SinkPlan, columns: Mapping[str, str], dead_letters: str | None) -> dict[str, Any]:
    """What the next run has to know of the table's rows."""
    said: dict[str, Any] = {
        "columns": [*columns],
        "mode": plan.sink.mode.value,
        "keys": [*row_keys(plan.sink)],
    }
    if plan.lettered:
        said["dead_letters"] = dead_letters
    return said


def _refuse_other_state(
    pipeline: Pipeline, sink: Sink, said: Mapping[str, Any], state: Mapping[str, Any] | None
) -> None:
    """Raise RunError when the table's state was made by other words than the file's."""
    wrong = other_state(said, state)
    if wrong:
        whose = str((state or said[STATE])["transform"])
        lines = [f"sink `{sink.name}`: {sink.told} {wrong}"]
        raise RunError("\n".join(lines + ways_out(pipeline.as_arguments, whose, sink.name)))


def _stream(
    spark: SparkSession, plan: PipelinePlan, sink: SinkPlan, kind: SourceKind, ways: Sequence[Way]
) -> DataFrame:
    """The sink's stream: its source's, or one of a state's rows."""
    stateful, of = sink.stateful, {way.source.name: way for way in ways}
    # In a session of its own, too: a query has a copy of the one that it begins in.
    session = spark.newSession() if stateful else spark

    def opened(source: Source) -> DataFrame:
        way = of[source.name]
        return kind.open(session, plan.pipeline.streamed(way.source), way.at)

    if stateful is None:
        return opened(sink.source)
    return stream_of(plan, sink, stateful, opened)


def _letters(
    dry: PipelinePlan, sink: SinkPlan, source: SourcePlan, empty: DataFrame, good: Good
) -> DataFrame:
    """Of an empty batch, with their columns."""
    made, reading = frames.nodes_for(dry, sink, good).made, reading_of(source.source)
    return frames.dead_letters(source, frames.parse(empty, reading), reading, made, {})


def _lettering(
    spark: SparkSession,
    pipeline: Pipeline,
    letters: DataFrame,
    link: Link,
    on_retry: Callable[[int, Retry], None],
) -> Lettering[LetterChain]:
    """With a table for such letters."""
    path = _dead_table(spark, pipeline, letters)
    return Lettering(DeltaChain(spark, path, link, on_retry), pipeline.dead_letters)


def _dead_table(spark: SparkSession, pipeline: Pipeline, letters: DataFrame) -> str:
    """The dead letters' table, with all columns of these letters: `headers` may come later."""
    where, name = pipeline.dead_letter_path, pipeline.dead_letter_table
    assert where or name
    path = ensure_table(spark, where, name, letters.schema)
    there = spark.read.format("delta").load(path).columns
    new = [(name, kind) for name, kind in frames.columns(letters).items() if name not in there]
    change_columns(spark, path, Steps(add=tuple(new)))
    return path
