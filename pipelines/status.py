"""How far a pipeline's sinks are, and whether a run would stop: by logs, checkpoints and topics.

Without Spark, for tables and checkpoints on this machine. Writes nothing. The judgements are those
that a run makes when it starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from josefine_spark.offsets import parse_offset
from josefine_spark.topic_offsets import ByPartition, nested
from pipelines.chain import Stop, Tip, Verdict
from pipelines.checkpoint import CheckpointFiles
from pipelines.delta_log import DeltaLogReader
from pipelines.errors import PipelineError
from pipelines.losses import losses, standing
from pipelines.model import Pipeline, Sink, Source
from pipelines.old_checkpoint import Owner, whose
from pipelines.other_chains import ChainName, begins
from pipelines.paths import local_folder
from pipelines.reconcile import Checkpoint, Unreadable, reconcile
from pipelines.sources import Topics
from pipelines.table_end import FolderFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus:
    """One sink. `behind`: offsets that its topics have beyond the table, None where nobody knows;
    `stops`: why a run would stop, "" when it would go on; `unknown`: what nobody could look at."""

    sink: str
    table: str
    ends: ByPartition = field(default_factory=dict)
    behind: int | None = None
    stops: str = ""
    unknown: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "sink": self.sink,
            "table": self.table,
            "ends": nested(self.ends),
            "behind": self.behind,
            "stops": self.stops,
            "unknown": self.unknown,
        }


def status(pipeline: Pipeline, look: Callable[[Source], Topics]) -> list[SinkStatus]:
    """Every sink, in file order. `look` raises PipelineError where the topics cannot be asked."""
    looked: dict[str, Topics | str] = {}
    for source in pipeline.sources.values():
        try:
            looked[source.name] = look(source)
        except PipelineError as error:
            looked[source.name] = str(error)
    return [
        _sink_status(pipeline, sink, looked[pipeline.source_of(sink).name])
        for sink in pipeline.sinks.values()
    ]


def _sink_status(pipeline: Pipeline, sink: Sink, looked: Topics | str) -> SinkStatus:
    table = str(sink.path or sink.table)
    folder = local_folder(sink.path) if sink.path else None
    checkpoints = local_folder(pipeline.checkpoint)
    if folder is None or checkpoints is None:
        unknown = "only Spark finds it: the table or the checkpoint is not on this machine"
        return SinkStatus(sink=sink.name, table=table, unknown=unknown)
    name = ChainName(pipeline=pipeline.name, sink=sink.name)
    reader = DeltaLogReader(FolderFiles(), folder, name.app_id)
    found, _ = reader.last_tip()
    tip = found if isinstance(found, (Tip, Unreadable)) else None
    topics = looked if isinstance(looked, Topics) else None
    stop: Stop | None = None
    if tip is None and topics is not None:
        others = [other for other in reader.other_chains().values() if other]
        ids = topics.latest.topic_ids
        beginning = begins(name, others, ids, renames={}, new_chains=())
        stop = beginning if isinstance(beginning, Stop) else None
    if stop is None:
        stop = _would_stop(pipeline, sink, reader, tip, topics)
    ends = tip.reached.ends if isinstance(tip, Tip) else {}
    detail = f"; {stop.detail}" if stop and stop.detail else ""
    return SinkStatus(
        sink=sink.name,
        table=table,
        ends=ends,
        behind=None if topics is None or isinstance(tip, Unreadable) else _behind(topics, ends),
        stops=f"{stop.verdict.value}{detail}" if stop else "",
        unknown="" if topics is not None else str(looked),
    )


def _behind(topics: Topics, ends: ByPartition) -> int:
    return sum(
        max(0, end - ends.get(tp, topics.earliest.get(tp, 0)))
        for tp, end in topics.latest.ends.items()
    )


def _would_stop(
    pipeline: Pipeline,
    sink: Sink,
    reader: DeltaLogReader,
    tip: Tip | Unreadable | None,
    topics: Topics | None,
) -> Stop | None:
    checkpoint = _checkpoint(pipeline, sink, reader, tip, topics)
    if isinstance(checkpoint, Stop):
        return checkpoint
    outcome = reconcile(checkpoint, tip)
    if isinstance(outcome, Stop) or topics is None:
        return outcome if isinstance(outcome, Stop) else None
    ids = topics.latest.topic_ids
    if outcome.tip is not None and (gone := outcome.tip.reached.recreated(ids)):
        return Stop(verdict=Verdict.TOPIC_RECREATED, detail=", ".join(sorted(gone)))
    lost = losses(standing(outcome, checkpoint), ids, topics.bounds(), skip=False)
    return lost if isinstance(lost, Stop) else None


def _checkpoint(
    pipeline: Pipeline,
    sink: Sink,
    reader: DeltaLogReader,
    tip: Tip | Unreadable | None,
    topics: Topics | None,
) -> Checkpoint | Stop | None:
    here = _files(pipeline.checkpoint_of(sink.name)).read()
    if here is not None:
        return here
    files = _files(pipeline.old_checkpoint_of(sink.name))
    found = files.read()
    if found is None or topics is None:
        return None
    owner = whose(found, files.query_id(), tip, reader.queries, topics.latest.topic_ids)
    if owner is Owner.UNKNOWN:
        return Stop(verdict=Verdict.CHECKPOINT_UNNAMED, detail=files.folder)
    return found if owner is Owner.OURS else None


def _files(folder: str) -> CheckpointFiles:
    return CheckpointFiles(FolderFiles(), str(local_folder(folder)), parse_offset)
