"""One sink before its first batch: schemas looked at, tables there, the start settled, the stream.

Whatever is wrong with the file stops here, before any table is made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines import frames
from pipelines.advice import Advice
from pipelines.batch_rows import Decoded, SparkReader
from pipelines.checkpoint import CheckpointFiles
from pipelines.delta_chain import DeltaChain, Link
from pipelines.delta_tables import change_columns, ensure_table
from pipelines.errors import RunError
from pipelines.evolution import Steps
from pipelines.hadoop import HadoopFiles
from pipelines.judgement import JUDGED_BY, judgement
from pipelines.letter_store import DeltaLetters
from pipelines.lettering import Lettering
from pipelines.model import Pipeline, Sink, Source
from pipelines.prepared_sink import PreparedSink
from pipelines.readings import reading_of
from pipelines.refusals import refuse_no_cluster, refuse_no_constraint
from pipelines.retries import Retry
from pipelines.settling import OfSource, Settling
from pipelines.shared_rows import SharedRows
from pipelines.sink_letters import SinkLetters
from pipelines.sink_plan import PipelinePlan, SinkPlan, SourcePlan
from pipelines.sources import SourceKind, Topics, topics_beside, topics_together
from pipelines.state_chain import STATE, other_state, ways_out
from pipelines.stateful import good_of, refuse_beyond, state_of, stream_of
from pipelines.targets.table import target_of
from pipelines.targets.target import LetterChain, SinkTarget, TargetRun
from pipelines.way import Way, begun_at, ways_of
from pipelines.wishes import Wishes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.frames import Good


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The run of a sink's start. `now_ms`: the start of the run since 1970. `letterings`: source →
    its dead letters, if an earlier sink has prepared them. `shared`: source → the rows that its
    sinks share."""

    spark: SparkSession
    plan: PipelinePlan
    kind: SourceKind
    run_id: str
    wishes: Wishes
    now_ms: int
    letterings: dict[str, Lettering[LetterChain]]
    shared: Mapping[str, SharedRows[Decoded]]
    advice: Advice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What a start reads before it changes anything. `dry`: the plan with empty lookups. `good`:
    empty frames with the columns of the sources' good rows; `stored`: the same of the target.
    `looked`: source → its topics; `topics`: those of all sources."""

    dry: PipelinePlan
    empty: Callable[[Source], DataFrame]
    good: Good
    stored: DataFrame
    state: Mapping[str, Any] | None
    looked: Mapping[str, Topics]
    topics: Topics


def prepare(
    run: RunContext,
    of: SinkPlan,
    on_retry: Callable[[int, Retry], None],
    stopping: Callable[[], bool],
) -> PreparedSink:
    """Check schemas, create missing tables, settle the start offsets. `stopping`: whether the run
    is to end. Raises ConfigError for SQL; RunError and ChainError if the sides do not fit."""
    pipeline, sink = run.plan.pipeline, of.sink
    seen = _look(run, of)
    wants = frames.columns(seen.stored)
    target = target_of(sink)
    facts = _facts(of, target, wants, pipeline.dead_letters)
    link = _link(run, sink.name, of.source, {**facts, STATE: seen.state} if seen.state else facts)
    losses = target.loss_table(pipeline)
    target_run = TargetRun(session=lambda: run.spark, link=link, losses=losses, on_retry=on_retry)
    opened = target.prepare(target_run, seen.stored, seen.topics.latest.topic_ids.values())
    lettered = _lettered(run, of, seen, on_retry)
    files_of = partial(CheckpointFiles, HadoopFiles(run.spark), parse=run.kind.parse)
    settling = Settling(
        run.plan,
        of,
        opened,
        losses,
        [*lettered.values()],
        files_of(pipeline.checkpoint_of(sink.name)),
        files_of(pipeline.old_checkpoint_of(sink.name)),
        seen.topics,
        run.wishes,
    )

    def fits(said: Mapping[str, Any]) -> None:
        _refuse_other_state(pipeline, sink, said, seen.state)
        opened.fit(wants, said)

    start = settling.settle(fits)
    opened.change()
    ways = ways_of(of, run.kind, seen.looked, start, run.now_ms)
    topics_of = partial(_topics_of, run.kind, seen.looked)
    letterings = {name: each.lettering for name, each in lettered.items()}
    letters = SinkLetters(
        run.plan, of, opened.chain, letterings, DeltaLetters(run.spark), topics_of
    )
    prepared = PreparedSink(
        file=pipeline.as_arguments,
        plan=of,
        opened=opened,
        letters=letters,
        files=settling.files,
        reader=_reader(run, of, target, letters, topics_of),
        advice=run.advice,
        keeper=opened.keeper(stopping),
        topics=seen.topics,
        begun_at=begun_at(ways),
        ends_at={p: end for way in ways for p, end in way.ends_at.items()},
        stream=_stream(run.spark, run.plan, of, run.kind, ways),
        parse=run.kind.parse,
        warnings=settling.warnings,
    )
    _announce(run, prepared)
    return prepared


def _look(run: RunContext, of: SinkPlan) -> _Seen:
    """Raises ConfigError, RunError, SetupError."""
    # In a session of its own: the views of a transform must not meet the caller's.
    empty = partial(frames.empty_source, run.spark.newSession())
    good = good_of(run.plan, of.sink.input, empty)
    dry = run.plan.with_rows({})
    stored = _stored(dry, of, good)
    frames.rows_of(run.plan, of.sink.input, good)
    looked = {one.name: run.kind.look(one) for one in of.sources}
    return _Seen(
        dry=dry,
        empty=empty,
        good=good,
        stored=stored,
        state=state_of(dry, of, good),
        looked=looked,
        topics=topics_together(looked),
    )


def _link(run: RunContext, name: str, source: Source, facts: Mapping[str, Any]) -> Link:
    said = {**facts, JUDGED_BY: judgement(run.plan.sources[source.name])}
    return Link(pipeline=run.plan.pipeline.name, sink=name, run=run.run_id, facts=said)


def _lettered(
    run: RunContext, of: SinkPlan, seen: _Seen, on_retry: Callable[[int, Retry], None]
) -> dict[str, OfSource]:
    """The dead letters of the sink's sources, by their names."""
    found: dict[str, OfSource] = {}
    for each in of.lettered:
        source = each.source
        there, leads = run.letterings.get(source.name), source.name not in run.letterings
        if there is None:
            letters = _letters(seen.dry, of, each, seen.empty(source), seen.good)
            # A dot is in no sink's name, so this chain collides with none.
            link = _link(run, f"dead_letter.{source.name}", source, {})
            there = _lettering(run.spark, run.plan.pipeline, letters, link, on_retry)
        found[source.name] = OfSource(there, leads, topics_beside(source, seen.looked))
    return found


def _announce(run: RunContext, prepared: PreparedSink) -> None:
    """Report the sink's start offsets to the consumer groups and to the sinks of its source."""
    of, tip = prepared.plan, prepared.opened.chain.tip
    run.advice.stands(of, tip.reached.ends if tip else {}, prepared.topics.latest.ends)
    if _shares(run, of):
        run.shared[of.source.name].stands(of.name, prepared.begins())


def _skips_losses(run: RunContext, of: SinkPlan) -> bool:
    return of.source.skips_losses or run.wishes.skip_losses


def _shares(run: RunContext, of: SinkPlan) -> bool:
    """Whether its source's sinks share their rows. A sink that skips losses must read for itself to
    find them; the only sink of a source has nobody to share with."""
    is_alone = len(run.plan.sources[of.source.name].sinks) == 1
    return not (of.stateful or is_alone or _skips_losses(run, of))


def _reader(
    run: RunContext,
    of: SinkPlan,
    target: SinkTarget,
    letters: SinkLetters,
    topics_of: Callable[[Source], Collection[str]],
) -> SparkReader:
    return SparkReader(
        plan=run.plan,
        sink=of,
        kind=run.kind,
        target=target,
        letters=letters,
        readings={each.name: reading_of(each) for each in of.sources},
        shared=run.shared[of.source.name] if _shares(run, of) else None,
        is_to_skip=_skips_losses(run, of) and of.stateful is None,
        topics_of=topics_of,
    )


def _topics_of(kind: SourceKind, looked: Mapping[str, Topics], source: Source) -> Collection[str]:
    """The topics of a source: those of the file, or (for folders) those that exist."""
    if source.topics:
        return source.topics
    began, now = looked[source.name], kind.look(source)
    return {*began.latest.topic_ids, *now.latest.topic_ids}


def _stored(dry: PipelinePlan, of: SinkPlan, good: Good) -> DataFrame:
    """An empty frame with the target's columns. Raises ConfigError for what only Spark finds."""
    refuse_beyond(dry, of, good)
    made = frames.rows_of(dry, of.sink.input, good)
    stored = frames.stored(target_of(of.sink).rows(dry.pipeline, made))
    refuse_no_cluster(of.sink, stored.columns)
    refuse_no_constraint(of.sink, stored)
    frames.refuse_checks(dry, of, good)
    return stored


def _facts(
    plan: SinkPlan, target: SinkTarget, columns: Mapping[str, str], dead_letters: str | None
) -> dict[str, Any]:
    """What the next run has to know of the table's rows."""
    said: dict[str, Any] = {
        "columns": [*columns],
        "mode": plan.sink.mode.value,
        "keys": [*target.keys()],
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
