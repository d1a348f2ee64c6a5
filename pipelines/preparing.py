"""One sink before its first batch: schemas looked at, tables there, the start settled, the stream.

Whatever is wrong with the file stops here, before any table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines import frames, writing
from pipelines.checkpoint import CheckpointFiles
from pipelines.constraining import constrain, constraints_due
from pipelines.constraints import Due
from pipelines.delta_chain import DeltaChain, Link
from pipelines.delta_tables import change_columns, cluster, ensure_table
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
from pipelines.sources import SourceKind, Topics, topics_beside, topics_together
from pipelines.state_chain import STATE, other_state, ways_out
from pipelines.stateful import good_of, refuse_beyond, state_of, stream_of
from pipelines.topic_chain import AnyChain, TopicChain
from pipelines.topic_ledger import RowWriter, TopicLedger, topic_id_of
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

    chain: AnyChain
    letterings: Mapping[str, Lettering[DeltaChain]]
    files: CheckpointFiles
    topics: Topics
    looked: Mapping[str, Topics]
    begun_at: ByPartition
    ends_at: ByPartition
    stream: DataFrame
    warnings: Sequence[str]


def prepare(
    spark: SparkSession,
    pipeline: Pipeline,
    sink: Sink,
    kind: SourceKind,
    run_id: str,
    on_retry: Callable[[int, Retry], None],
    wishes: Wishes,
    letterings: Mapping[str, Lettering[DeltaChain]],
    now_ms: int,
) -> Ready:
    """`letterings`: of sources, where a sink before this one has prepared them. Raises ConfigError
    for SQL, RunError and ChainError for what does not fit together."""
    sources = pipeline.sources_of(sink)

    def link_of(name: str, source: Source, facts: Mapping[str, Any]) -> Link:
        said = {**facts, JUDGED_BY: judgement(pipeline, source)}
        return Link(pipeline=pipeline.name, sink=name, run=run_id, facts=said)

    files_of = partial(CheckpointFiles, HadoopFiles(spark), parse=kind.parse)
    # In a session of its own: the views of a transform must not meet the caller's.
    empty = partial(frames.empty_source, spark.newSession())
    good = good_of(pipeline, sink.input, empty)
    dry = pipeline.with_rows({})
    refuse_beyond(dry, sink, good)
    stored = frames.stored(frames.sink_rows(dry, sink, good))
    refuse_no_cluster(sink, stored.columns)
    refuse_no_constraint(sink, stored)
    frames.refuse_checks(dry, sink, good)
    frames.rows_of(pipeline, sink.input, good)
    looked = {one.name: kind.look(one) for one in sources}
    topics = topics_together(looked)
    wants, state = frames.columns(stored), state_of(dry, sink, good)
    facts = writing.facts(pipeline, sink, wants)
    link = link_of(sink.name, sources[0], {**facts, STATE: state} if state else facts)
    chain = _chain_of(spark, sink, stored, link, topics, on_retry)
    own: dict[str, OfSource] = {}
    for source in filter(pipeline.has_dead_letters, sources):
        there, leads = letterings.get(source.name), source.name not in letterings
        if there is None:
            letters = _letters(dry, sink, source, empty(source), good)
            # A dot is in no sink's name, so this chain collides with none.
            dead_link = link_of(f"dead_letter.{source.name}", source, {})
            there = _lettering(spark, pipeline, letters, dead_link, on_retry)
        own[source.name] = OfSource(there, leads, topics_beside(source, looked))
    files, old = pipeline.checkpoint_of(sink.name), pipeline.old_checkpoint_of(sink.name)
    both = files_of(files), files_of(old)
    settling = Settling(spark, pipeline, sink, chain, [*own.values()], *both, topics, wishes)
    steps = Steps()

    def fits(said: Mapping[str, Any]) -> None:
        nonlocal steps
        _refuse_other_state(pipeline, sink, said, state)
        steps = writing.steps(spark, sink, chain.path, wants, said)

    constraints = constraints_due(spark, sink, chain.path)
    start = settling.settle(fits)
    _change_table(spark, sink, chain.path, steps, constraints)
    ways = ways_of(pipeline, sink, kind, looked, start, now_ms)
    return Ready(
        chain=chain,
        letterings={name: each.lettering for name, each in own.items()},
        files=settling.files,
        topics=topics,
        looked=looked,
        begun_at=begun_at(ways),
        ends_at={p: end for way in ways for p, end in way.ends_at.items()},
        stream=_stream(spark, pipeline, sink, kind, ways),
        warnings=settling.warnings,
    )


def _change_table(
    spark: SparkSession, sink: Sink, path: str, steps: Steps, constraints: Due
) -> None:
    """Columns first: a constraint may be over a new one. What a crash leaves out is due again."""
    change_columns(spark, path, steps)
    constrain(spark, sink, path, constraints)
    if sink.cluster_by:
        cluster(spark, path, sink.cluster_by)


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
    spark: SparkSession, pipeline: Pipeline, sink: Sink, kind: SourceKind, ways: Sequence[Way]
) -> DataFrame:
    """The sink's stream: its source's, or one of a state's rows."""
    stateful, of = pipeline.stateful_of(sink), {way.source.name: way for way in ways}
    # In a session of its own, too: a query has a copy of the one that it begins in.
    session = spark.newSession() if stateful else spark

    def opened(source: Source) -> DataFrame:
        way = of[source.name]
        return kind.open(session, pipeline.streamed(way.source), way.at)

    if stateful is None:
        return opened(pipeline.source_of(sink))
    return stream_of(pipeline, sink, stateful, opened)


def _chain_of(
    spark: SparkSession,
    sink: Sink,
    stored: DataFrame,
    link: Link,
    topics: Topics,
    on_retry: Callable[[int, Retry], None],
) -> AnyChain:
    """A table is made here, a topic is there or SetupError says so. RunError: the source reads
    it."""
    from josefine_spark.options.environment import settle_environment

    target = sink.topic
    if target is None:
        path = ensure_table(spark, sink.path, sink.table, stored.schema)
        return DeltaChain(spark, path, link, on_retry)
    topic_id = topic_id_of(sink, target)
    if topic_id and topic_id in topics.latest.topic_ids.values():
        raise RunError(
            f"sink `{sink.name}`: its source reads topic {target.topic}: its rows would come round "
            "for ever"
        )
    settle_environment(spark)
    return TopicChain(target, topic_id, link, TopicLedger(target), RowWriter(target), on_retry)


def _letters(dry: Pipeline, sink: Sink, source: Source, empty: DataFrame, good: Good) -> DataFrame:
    """Of an empty batch, with their columns."""
    made, reading = frames.nodes_for(dry, sink, good).made, reading_of(source)
    return frames.dead_letters(dry, source, frames.parse(empty, reading), reading, made, {})


def _lettering(
    spark: SparkSession,
    pipeline: Pipeline,
    letters: DataFrame,
    link: Link,
    on_retry: Callable[[int, Retry], None],
) -> Lettering[DeltaChain]:
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
