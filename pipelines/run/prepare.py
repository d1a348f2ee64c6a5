"""Preparation of a sink before its first batch: schemas, tables, start offsets, stream.

Every error of the pipeline file stops the run here, before any table is created.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import RunError
from pipelines.dead_letters.left_out import own_chain
from pipelines.dead_letters.store import DeltaLetters, DeltaSinkLetters
from pipelines.dead_letters.writer import SinkLetters
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.dead_letter_chain import Lettering
from pipelines.exactly_once.decode_fingerprint import JUDGED_BY, judgement
from pipelines.exactly_once.deployed import DEPLOYED, replaced_by_deploy
from pipelines.exactly_once.state_chain import STATE, other_state, ways_out
from pipelines.model.column_types import Type
from pipelines.model.meaning import fingerprint
from pipelines.model.pipeline import OnError, Pipeline, Sink, Source
from pipelines.model.plan import PipelinePlan, SinkPlan, SourcePlan
from pipelines.model.retry_policy import Retry
from pipelines.model.schema_evolution import Steps, fields_of
from pipelines.run.batch_input import Decoded, SparkReader
from pipelines.run.consumer_group_offsets import Advice
from pipelines.run.options import Wishes
from pipelines.run.prepared_sink import PreparedSink
from pipelines.run.read_range import Way, begun_at, ways_of
from pipelines.run.settle_start import OfSource, Settling
from pipelines.run.table_start import begun
from pipelines.sinks.commits import Link
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import change_columns, ensure_table
from pipelines.sinks.target import LetterChain, SinkChain, SinkTarget, TableAt, TargetRun
from pipelines.sinks.targets import target_of
from pipelines.sources.josefine import SourceKind, Topics, topics_beside, topics_together
from pipelines.sources.table_stream import refuse_columns
from pipelines.spark.files import HadoopFiles
from pipelines.transforms import dataframes
from pipelines.transforms.analysis_errors import refuse_no_constraint, refuse_no_layout
from pipelines.transforms.decoders import reading_of
from pipelines.transforms.python_state import use_rocksdb
from pipelines.transforms.shared_batches import SharedRows
from pipelines.transforms.stateful import good_of, refuse_beyond, state_of, stream_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pipelines.transforms.dataframes import Good


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """What all sinks of a run share. `now_ms`: the start of the run since 1970. `letterings`:
    source → its dead letters, if an earlier sink has prepared them. `shared`: source → the rows
    that its sinks share."""

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
    """Everything a start reads before it changes anything. `dry`: the plan with empty lookups.
    `good`: empty frames with the columns of the sources' good rows; `stored`: the same of the
    target. `looked`: source → its topics; `topics`: those of all sources."""

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
    is to end. Raises ConfigError for SQL; RunError and ChainError if the sides do not fit.

    The order matters: all checks come before the first table is created, and the offsets are
    settled before columns change, so a refused start leaves the table's schema alone."""
    pipeline, sink = run.plan.pipeline, of.sink
    seen = _look(run, of)
    wants = dataframes.types(seen.stored)
    target = target_of(sink)
    facts = _facts(of, target, wants, pipeline.dead_letters)
    link = _link(run, sink.name, of.source, {**facts, STATE: seen.state} if seen.state else facts)
    target_run = _target_run(run, link, target.loss_table(pipeline), on_retry)
    opened = target.prepare(target_run, seen.stored, seen.topics.latest.topic_ids.values())
    lettered = _lettered(run, of, seen, on_retry)
    own_letters = _own_letters(run, of, seen, on_retry)
    files_of = partial(CheckpointFiles, HadoopFiles(run.spark), parse=run.kind.parse)
    settling = Settling(
        run.plan,
        of,
        opened,
        target_run.losses,
        [*lettered.values()],
        files_of(pipeline.checkpoint_of(sink.name)),
        files_of(pipeline.old_checkpoint_of(sink.name)),
        seen.topics,
        run.wishes,
    )

    # Only `settle` has the metadata of the sink's last commit before this start makes another one.
    def fits(said: Mapping[str, Any]) -> None:
        _refuse_other_state(pipeline, sink, said, seen.state)
        _refuse_replaced(run.plan, of.name, opened.chain, said)
        opened.fit(wants, said)

    start = settling.settle(fits)
    opened.change()
    start = begun(
        run.spark, of.source, opened.chain, settling.files, start, seen.topics, run.now_ms
    )
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
        own_letters=own_letters,
    )
    _announce(run, prepared)
    return prepared


def _look(run: RunContext, of: SinkPlan) -> _Seen:
    """Read schemas and topics. Raises ConfigError, RunError, SetupError."""
    # In a session of its own: a transform's views must not collide with the caller's.
    empty = partial(dataframes.empty_source, run.spark.newSession())
    good = good_of(run.plan, of.sink.input, empty)
    dry = run.plan.with_rows({})
    stored = _stored(dry, of, good)
    dataframes.rows_of(run.plan, of.sink.input, good)
    looked = {one.name: run.kind.look(one) for one in of.sources}
    if of.source.table_stream is not None:
        refuse_columns(run.spark, of.source)
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


def _target_run(
    run: RunContext, link: Link, losses: TableAt, on_retry: Callable[[int, Retry], None]
) -> TargetRun:
    return TargetRun(
        session=lambda: run.spark,
        link=link,
        losses=losses,
        trusts_tables=run.wishes.trust is Trust.TABLE,
        every_ms=run.plan.pipeline.every_ms,
        on_retry=on_retry,
    )


def _lettered(
    run: RunContext, of: SinkPlan, seen: _Seen, on_retry: Callable[[int, Retry], None]
) -> dict[str, OfSource]:
    """Source → its dead letters, of the sink's sources."""
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


def _own_letters(
    run: RunContext, of: SinkPlan, seen: _Seen, on_retry: Callable[[int, Retry], None]
) -> DeltaSinkLetters | None:
    """The dead letters of the sink alone; creates their table if it is missing."""
    if of.sink.on_error is not OnError.DEAD_LETTER:
        return None
    from pipelines.run.failed_record import letters_of

    source = of.source
    none = letters_of(seen.empty(source), (), source.name, of.name)
    path = _dead_table(run.spark, run.plan.pipeline, none)
    link = _link(run, own_chain(source.name, of.name), source, {})
    return DeltaSinkLetters(
        lambda: DeltaChain(run.spark, path, link, on_retry), source.name, of.name
    )


def _announce(run: RunContext, prepared: PreparedSink) -> None:
    """Report the sink's start offsets to the consumer groups and to the sinks of its source."""
    of, tip = prepared.plan, prepared.opened.chain.tip
    run.advice.stands(of, tip.reached.ends if tip else {}, prepared.topics.latest.ends)
    if _shares(run, of):
        run.shared[of.source.name].stands(of.name, prepared.begins())


def _skips_losses(run: RunContext, of: SinkPlan) -> bool:
    return of.source.skips_losses or run.wishes.skip_losses


def _shares(run: RunContext, of: SinkPlan) -> bool:
    """Whether the sinks of the source share its rows. A sink that skips losses must read alone to
    find them; the only sink of a source has no other to share with."""
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
    """An empty frame with the target's columns. Raises ConfigError for errors only Spark finds."""
    refuse_beyond(dry, of, good)
    made = dataframes.rows_of(dry, of.sink.input, good)
    stored = dataframes.stored(target_of(of.sink).rows(dry.pipeline, made))
    refuse_no_layout(of.sink, stored.columns)
    refuse_no_constraint(of.sink, stored)
    dataframes.refuse_checks(dry, of, good)
    return stored


def _facts(
    plan: SinkPlan, target: SinkTarget, columns: Mapping[str, Type], dead_letters: str | None
) -> dict[str, Any]:
    """The metadata about the table's rows that the next run needs."""
    said: dict[str, Any] = {
        "columns": [*columns],
        "mode": plan.sink.mode.value,
        "keys": [*target.keys()],
    }
    if fields := fields_of(columns):
        said["fields"] = fields
    if plan.lettered:
        said["dead_letters"] = dead_letters
    return said


def _refuse_other_state(
    pipeline: Pipeline, sink: Sink, said: Mapping[str, Any], state: Mapping[str, Any] | None
) -> None:
    """Raise RunError if the table's state was made by another definition than the file's."""
    wrong = other_state(said, state)
    if wrong:
        whose = str((state or said[STATE])["transform"])
        lines = [f"sink `{sink.name}`: {sink.told} {wrong}"]
        is_topic = not target_of(sink).has_columns
        ways = ways_out(pipeline.as_arguments, whose, sink.name, is_topic=is_topic)
        raise RunError("\n".join(lines + ways))


def _refuse_replaced(
    plan: PipelinePlan, sink: str, chain: SinkChain, said: Mapping[str, Any]
) -> None:
    """Raise RunError if a deploy has replaced this definition. Each commit repeats which deploy was
    the newest."""
    if DEPLOYED not in said:
        return
    own = fingerprint(plan, sink)
    wrong = replaced_by_deploy(said, own, plan.pipeline.as_arguments, sink)
    if wrong:
        raise RunError(wrong)
    facts = {**chain.link.facts, DEPLOYED: said[DEPLOYED]}
    chain.link = replace(chain.link, facts=facts)


def _stream(
    spark: SparkSession, plan: PipelinePlan, sink: SinkPlan, kind: SourceKind, ways: Sequence[Way]
) -> DataFrame:
    """The sink's stream: its source's, or that of its stateful transform."""
    stateful, of = sink.stateful, {way.source.name: way for way in ways}
    # In a session of its own as well: a query copies the session in which it starts.
    session = spark.newSession() if stateful else spark
    if stateful is not None and stateful.state is not None:
        use_rocksdb(session)

    def opened(source: Source) -> DataFrame:
        way = of[source.name]
        return kind.open(session, plan.pipeline.streamed(way.source), way.at)

    if stateful is None:
        return opened(sink.source)
    return stream_of(plan, sink, stateful, opened)


def _letters(
    dry: PipelinePlan, sink: SinkPlan, source: SourcePlan, empty: DataFrame, good: Good
) -> DataFrame:
    """An empty frame with the columns of the source's dead letters."""
    made, reading = dataframes.nodes_for(dry, sink, good).made, reading_of(source.source)
    return dataframes.dead_letters(source, dataframes.parse(empty, reading), reading, made, {})


def _lettering(
    spark: SparkSession,
    pipeline: Pipeline,
    letters: DataFrame,
    link: Link,
    on_retry: Callable[[int, Retry], None],
) -> Lettering[LetterChain]:
    """The source's dead-letter chain; creates its table if it is missing."""
    path = _dead_table(spark, pipeline, letters)
    return Lettering(DeltaChain(spark, path, link, on_retry), pipeline.dead_letters)


def _dead_table(spark: SparkSession, pipeline: Pipeline, letters: DataFrame) -> str:
    """The path of the dead-letter table, created or extended: `headers` may be a new column, and
    tables of earlier versions lack `sink` and `stage`."""
    from pyspark.sql import functions as F  # noqa: N812

    # Null in the dead letters of `decode`, which belong to no sink.
    nothing = F.lit(None).cast("string")
    letters = letters.withColumns({"sink": nothing, "stage": nothing})
    where, name = pipeline.dead_letter_path, pipeline.dead_letter_table
    assert where or name
    path = ensure_table(spark, where, name, letters.schema)
    there = spark.read.format("delta").load(path).columns
    kinds = dataframes.columns(letters)
    new = [((name,), kind) for name, kind in kinds.items() if name not in there]
    change_columns(spark, path, Steps(add=tuple(new)))
    return path
