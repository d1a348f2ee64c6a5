"""The Structured Streaming queries of a run, one for each sink: start, stop between batches, and
the reason of an end."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from functools import partial

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base.errors import PipelineError, RunError
from pipelines.base.plurals import counted
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import Mode, Pipeline, Sink
from pipelines.report.events import Reporter
from pipelines.run.sink_handle import SinkHandle
from pipelines.sources.josefine import first_record_ms
from pipelines.sources.lag_age import lag_ms_after
from pipelines.sources.table_refusals import why_table_failed
from pipelines.transforms.python_state import why_class_failed

HELD_SHOWN_MAX = 20


class FailedError(Exception):
    """A failure of a sink that may be temporary. `failure`: the original;
    `as_error`: for the user."""

    def __init__(self, handle: SinkHandle, failure: Exception) -> None:
        super().__init__(handle.plan.name)
        self.handle = handle
        self.failure = failure

    @property
    def as_error(self) -> PipelineError:
        if isinstance(self.failure, PipelineError):
            return self.failure
        stateful = self.handle.plan.stateful
        why = why_class_failed(stateful, self.failure) if stateful else ""
        why = why or why_table_failed(self.handle.plan.source, self.failure)
        told = RunError(f"sink `{self.handle.plan.name}`: {why or clear_reason(self.failure)}")
        told.__cause__ = self.failure
        return told


def start(handle: SinkHandle, pipeline: Pipeline, reporter: Reporter) -> None:
    """Start the query of a prepared sink."""
    prepared = handle.prepared
    assert prepared is not None
    writer = prepared.stream.writeStream.queryName(f"{pipeline.name}.{handle.plan.name}")
    writer = writer.foreachBatch(handle.process)
    if handle.plan.sink.mode is Mode.UPDATE:
        writer = writer.outputMode("update")
    writer = writer.option("checkpointLocation", prepared.files.folder)
    if pipeline.every_ms is None:
        writer = writer.trigger(availableNow=True)
        reporter.begun(handle.plan.name, prepared.records_to_do())
    else:
        writer = writer.trigger(processingTime=f"{pipeline.every_ms} milliseconds")
        reporter.begun(handle.plan.name, None)
    query = handle.query = writer.start()
    latest = partial(prepared.latest, query)

    def lag_ms(ends: ByPartition) -> int | None:
        now_ms = time.time_ns() // 1_000_000
        return lag_ms_after(handle.plan.sources, ends, latest(), first_record_ms, now_ms)

    reporter.watched(handle.plan.name, prepared.begins(), latest, lag_ms)


def why_ended(handle: SinkHandle) -> Exception | None:
    """The failure of a query that is not active any more; None if it ended well."""
    query = handle.query
    # Its thread may still be ending; until then Spark refuses a new query of the same name.
    query.stop()
    failure: Exception | None = handle.error or query.exception()
    # A batch that started after the stop request is replayed by the next run: no failure.
    is_well = handle.error is None and "InterruptedBatchError" in str(failure)
    return None if is_well else failure


def held_tables(sink: Sink, held: Mapping[str, str]) -> RunError | None:
    """The failure of a family of which tables are held; None if none is."""
    if not held:
        return None
    lines = [f"  `{name}`: {why}" for name, why in sorted(held.items())[:HELD_SHOWN_MAX]]
    if len(held) > len(lines):
        lines.append(f"  and {len(held) - len(lines)} more")
    first = (
        f"sink `{sink.name}`: {counted(len(held), 'table')} of {sink.told} cannot be written; the "
        "others have all rows. Fix the cause and run again: the next run writes the missing rows"
    )
    return RunError("\n".join([first, *lines]))


def stop_all(handles: Collection[SinkHandle]) -> None:
    """Let the running batches finish, then stop every query between two batches."""
    begun = [handle for handle in handles if handle.query is not None]
    for handle in begun:
        handle.stopping = True
    for handle in begun:
        with handle.lock:
            if handle.query.isActive:
                handle.query.stop()
