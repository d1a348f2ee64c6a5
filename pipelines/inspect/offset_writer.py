"""Writer of a sink's new end: it sets the checkpoint aside, then makes a commit without rows.

After a crash between the two, the next run continues at the table's old end: nothing has moved, and
the same command can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import uuid4

from josefine_spark.base.topic_offsets import ByPartition, nested
from pipelines.base.errors import ChainError, RunError
from pipelines.exactly_once import verdict_messages
from pipelines.exactly_once.checkpoint_start import LETTERS, Unreadable
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.inspect.offset_moves import Move, commit_of, of_dead_letters
from pipelines.inspect.sink_status import Sides
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.plan import SinkPlan, compile_plan
from pipelines.sinks.commits import Link, StoppedError, facts_of
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_tables import letters_folder
from pipelines.sinks.target import SinkChain, TargetRun
from pipelines.sinks.targets import target_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def put(
    pipeline: Pipeline, sides: Sides, move: Move, session: Callable[[], SparkSession]
) -> str | None:
    """Make the shown moves; returns the checkpoint's new folder, None without a checkpoint.

    `session` is called only if a table needs a commit. Raises ChainError if another writer has
    committed since the sides were read, RunError if there is no table.
    """
    version = sides.tip.txn_version if sides.tip else 0
    commit = commit_of(move, version)
    if commit is None:
        return _aside(sides)
    chain = _chain_of(pipeline, sides.sink, session)
    if not chain.is_there():
        raise RunError(f"sink `{sides.sink.name}`: there is no table {sides.table} to put it in")
    found = chain.load()
    if found != sides.tip:
        raise _stopped(pipeline, chain, Verdict.LOST_RACE)
    if isinstance(found, Tip):
        chain.link = replace(chain.link, facts=facts_of(found))
    aside = _aside(sides)
    plan = compile_plan(pipeline).sinks[sides.sink.name]
    if plan.leads:
        letters = _put_dead_letters(session(), pipeline, plan, move)
        chain.link = replace(chain.link, facts={**chain.link.facts, LETTERS: nested(letters)})
    _do(pipeline, chain, lambda: chain.move(commit, set_from=version))
    return aside


def _put_dead_letters(
    spark: SparkSession, pipeline: Pipeline, plan: SinkPlan, move: Move
) -> ByPartition:
    """Commit the dead letters first, as in a batch: their chain must never end before the sink's.
    Returns the new end."""
    name = f"dead_letter.{plan.source.name}"
    path = letters_folder(spark, pipeline)
    if path is None:
        return {}
    dead = _chain(spark, pipeline, path, name)
    found = dead.load() if dead.is_there() else None
    if isinstance(found, Unreadable):
        raise _stopped(pipeline, dead, Verdict.TABLE_UNREADABLE, found.hint)
    if not isinstance(found, Tip):
        return {}
    commit = commit_of(of_dead_letters(move, found.reached), found.txn_version)
    if commit is not None:
        _do(pipeline, dead, lambda: dead.move(commit, set_from=found.txn_version))
    return dead.tip.reached.ends if dead.tip else {}


def _aside(sides: Sides) -> str | None:
    return sides.files.set_aside() if sides.files else None


def _chain_of(pipeline: Pipeline, sink: Sink, session: Callable[[], SparkSession]) -> SinkChain:
    target = target_of(sink)
    link = Link(pipeline=pipeline.name, sink=sink.name, run=uuid4().hex)
    run = TargetRun(session=session, link=link, losses=target.loss_table(pipeline))
    return target.open(run).chain


def _chain(spark: SparkSession, pipeline: Pipeline, path: str, name: str) -> DeltaChain:
    return DeltaChain(spark, path, Link(pipeline=pipeline.name, sink=name, run=uuid4().hex))


def _do(pipeline: Pipeline, chain: SinkChain, commit: Callable[[], None]) -> None:
    try:
        commit()
    except StoppedError as stopped:
        raise _stopped(pipeline, chain, Verdict.LOST_RACE) from stopped


def _stopped(
    pipeline: Pipeline, chain: SinkChain, verdict: Verdict, detail: str = ""
) -> ChainError:
    stop, name = Stop(verdict=verdict, detail=detail), chain.link.name
    return ChainError(
        verdict_messages.stopped_for_others(pipeline.as_arguments, name, chain.path, stop, ())
    )
