"""Status of a sink, without Spark: its table's log, its checkpoint and its topics together.

For tables and checkpoints on this machine and in S3. Writes nothing. The verdicts are those of a
run's start, which uses the same pure modules.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from josefine_spark.read.offsets import parse_offset
from pipelines.base.errors import PipelineError
from pipelines.exactly_once.checkpoint import CheckpointFiles
from pipelines.exactly_once.checkpoint_start import (
    Checkpoint,
    Trust,
    Unreadable,
    dead_letters_gone,
    reconcile,
)
from pipelines.exactly_once.data_loss import losses, standing
from pipelines.exactly_once.family_chain import is_held
from pipelines.exactly_once.legacy_checkpoint import Owner, whose
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName, begins
from pipelines.exactly_once.state_chain import state_stop
from pipelines.model.pipeline import Pipeline, Sink, Source
from pipelines.model.plan import SinkPlan, compile_plan
from pipelines.sinks.delta_log import DeltaLogReader, LogEntry
from pipelines.sinks.target import Seen
from pipelines.sinks.targets import target_of
from pipelines.sources.josefine import Topics, topics_beside, topics_together
from pipelines.storage.folders import Folders, TableFolder, why_left
from pipelines.storage.location import StorageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The state of one sink. `tip` None: the table has no commit of it.

    `stop`: why a run would stop. `unknown`: what could not be inspected, "" if nothing. `files`:
    the location of the checkpoint. `newest`: its newest commit in the rest of the table's log; None
    for a topic.
    """

    sink: Sink
    table: str
    tip: Tip | Unreadable | None = None
    checkpoint: Checkpoint | None = None
    files: CheckpointFiles | None = None
    topics: Topics | None = None
    stop: Stop | None = None
    unknown: str = ""
    newest: LogEntry | None = None


def all_sides(pipeline: Pipeline, look: Callable[[Source], Topics]) -> list[Sides]:
    """Every sink, in file order. `look` raises PipelineError if the topics cannot be queried."""
    looked: dict[str, Topics | str] = {}
    for source in pipeline.sources.values():
        try:
            looked[source.name] = look(source)
        except PipelineError as error:
            looked[source.name] = str(error)
    folders = Folders(pipeline.conf, os.environ)
    return [
        _reached(pipeline, plan, folders, *_of_sources(plan, looked))
        for plan in compile_plan(pipeline).sinks.values()
    ]


Looked = Mapping[str, Topics]
"""Source → the offsets of its topics, for all sources of a sink."""


def _of_sources(
    sink: SinkPlan, looked: Mapping[str, Topics | str]
) -> tuple[Looked | str, Topics | None]:
    """(the offsets of each source of a sink, those of all together), or (the reason, None)."""
    found: dict[str, Topics] = {}
    for source in sink.sources:
        topics = looked[source.name]
        if isinstance(topics, str):
            return topics, None
        found[source.name] = topics
    try:
        return found, topics_together(found)
    except PipelineError as error:
        return str(error), None


def _reached(
    pipeline: Pipeline,
    plan: SinkPlan,
    folders: Folders,
    looked: Looked | str,
    topics: Topics | None,
) -> Sides:
    """A store that fails is reported with its sink: another sink may be in another store."""
    try:
        return _sides(pipeline, plan, folders, looked, topics)
    except StorageError as error:
        return Sides(sink=plan.sink, table=plan.sink.told, unknown=str(error))


def _sides(
    pipeline: Pipeline,
    plan: SinkPlan,
    folders: Folders,
    looked: Looked | str,
    topics: Topics | None,
) -> Sides:
    # The checkpoint is opened first: without it, the table's log is not worth a read.
    sink = plan.sink
    table = sink.told
    name = ChainName(pipeline=pipeline.name, sink=sink.name)
    try:
        is_there = folders.open(pipeline.checkpoint) is not None
        seen = target_of(sink).describe(name, folders.open) if is_there else None
    except PipelineError as error:
        return Sides(sink=sink, table=table, unknown=str(error))
    if seen is None:
        path = sink.path if is_there else pipeline.checkpoint
        why = why_left(path) if path else "Spark's catalog has the place of its table"
        unknown = f"only Spark finds it: {why}"
        return Sides(sink=sink, table=table, unknown=unknown)
    tip = seen.tip
    stop: Stop | None = None
    if tip is None and topics is not None:
        others = seen.others()
        ids = topics.latest.topic_ids
        beginning = begins(name, others, ids, renames={}, new_chains=())
        stop = beginning if isinstance(beginning, Stop) else None
    files = _files_of(pipeline, sink, folders, seen, tip, topics)
    if isinstance(files, Stop):
        stop, files = stop or files, None
    checkpoint = files.read() if files else None
    judged = _judged(plan.source, checkpoint, tip, topics)
    # The state belongs to the query id of its checkpoint; another checkpoint does not have it.
    if plan.stateful:
        here = files or _files(folders, pipeline.checkpoint_of(sink.name))
        query, has_state = here.query_id() if checkpoint else "", here.has_state()
        judged = state_stop(checkpoint, query, tip, has_state=has_state) or judged
    return Sides(
        sink=sink,
        table=table,
        tip=tip,
        checkpoint=checkpoint,
        files=files,
        topics=topics,
        stop=stop or judged or _dead_letters(pipeline, plan, folders, tip, looked),
        unknown=looked if isinstance(looked, str) else "",
        newest=seen.newest,
    )


def _judged(
    source: Source,
    checkpoint: Checkpoint | None,
    tip: Tip | Unreadable | None,
    topics: Topics | None,
) -> Stop | None:
    # With held tables a run starts from the tables (`settle_start`).
    trust = Trust.TABLE if is_held(tip) else Trust.NEITHER
    outcome = reconcile(checkpoint, tip, trust, assigned=source.assigned)
    if isinstance(outcome, Stop) or topics is None:
        return outcome if isinstance(outcome, Stop) else None
    ids = topics.latest.topic_ids
    if outcome.tip is not None and (gone := outcome.tip.reached.recreated(ids)):
        return Stop(verdict=Verdict.TOPIC_RECREATED, detail=", ".join(sorted(gone)))
    lost = losses(standing(outcome, checkpoint), ids, topics.bounds(), skip=False)
    return lost if isinstance(lost, Stop) else None


def _dead_letters(
    pipeline: Pipeline,
    plan: SinkPlan,
    folders: Folders,
    tip: Tip | Unreadable | None,
    looked: Looked | str,
) -> Stop | None:
    path = pipeline.dead_letter_path
    if not isinstance(tip, Tip) or path is None:
        return None
    folder = folders.open(path)
    if folder is None:
        return None
    if isinstance(looked, str) and len(plan.sources) > 1:
        return None  # it is unknown which topics belong to which source
    for source in plan.leads:
        beside = set() if isinstance(looked, str) else topics_beside(source, looked)
        name = ChainName(pipeline=pipeline.name, sink=f"dead_letter.{source.name}")
        found, _ = DeltaLogReader(folder.files, folder.path, name.app_id).last_tip()
        if isinstance(found, Unreadable):
            return Stop(verdict=Verdict.TABLE_UNREADABLE, detail=f"{path}: {found.hint}")
        dead = found if isinstance(found, Tip) else None
        if dead_letters_gone(tip, dead, path, beside):
            return Stop(verdict=Verdict.DEAD_LETTERS_GONE, detail=path)
    return None


def _files_of(
    pipeline: Pipeline,
    sink: Sink,
    folders: Folders,
    seen: Seen,
    tip: Tip | Unreadable | None,
    topics: Topics | None,
) -> CheckpointFiles | Stop | None:
    """The sink's checkpoint, current or in the old place; None if there is none."""
    here = _files(folders, pipeline.checkpoint_of(sink.name))
    if here.read() is not None:
        return here
    files = _files(folders, pipeline.old_checkpoint_of(sink.name))
    found = files.read()
    if found is None or topics is None:
        return None
    owner = whose(found, files.query_id(), tip, seen.queries, topics.latest.topic_ids)
    if owner is Owner.UNKNOWN:
        return Stop(verdict=Verdict.CHECKPOINT_UNNAMED, detail=files.folder)
    return files if owner is Owner.OURS else None


def _files(folders: Folders, path: str) -> CheckpointFiles:
    """A checkpoint of the josefine source."""
    folder: TableFolder | None = folders.open(path)
    assert folder is not None, "the folder above it was opened"
    return CheckpointFiles(folder.files, folder.path, parse_offset)
