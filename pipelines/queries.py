"""The Structured Streaming queries of a run, one for each sink: begun, ended between batches, and
why one has ended."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from pipelines.errors import PipelineError, RunError
from pipelines.messages import clear_reason
from pipelines.model import Pipeline
from pipelines.reporting import Reporter
from pipelines.sink_handle import SinkHandle


class FailedError(Exception):
    """A sink failed for a reason that may pass: Spark's text of it, and the one to tell."""

    def __init__(self, handle: SinkHandle, failure: Exception) -> None:
        super().__init__(handle.plan.name)
        self.handle = handle
        self.failure = failure

    @property
    def told(self) -> PipelineError:
        if isinstance(self.failure, PipelineError):
            return self.failure
        told = RunError(f"sink `{self.handle.plan.name}`: {clear_reason(self.failure)}")
        told.__cause__ = self.failure
        return told


def start(handle: SinkHandle, pipeline: Pipeline, reporter: Reporter) -> None:
    """Of a sink that is prepared."""
    prepared = handle.prepared
    assert prepared is not None
    writer = prepared.stream.writeStream.queryName(f"{pipeline.name}.{handle.plan.name}")
    writer = writer.foreachBatch(handle.process)
    writer = writer.option("checkpointLocation", prepared.files.folder)
    if pipeline.every_ms is None:
        writer = writer.trigger(availableNow=True)
        reporter.begun(handle.plan.name, prepared.records_to_do())
    else:
        writer = writer.trigger(processingTime=f"{pipeline.every_ms} milliseconds")
        reporter.begun(handle.plan.name, None)
    query = handle.query = writer.start()
    reporter.watched(handle.plan.name, prepared.begins(), partial(prepared.latest, query))


def why_ended(handle: SinkHandle) -> Exception | None:
    """Why a query that is not active any more has failed; None where it has not."""
    query = handle.query
    # Its thread may be about to end, and would still have the query's name.
    query.stop()
    failure: Exception | None = handle.error or query.exception()
    # A batch that began after the run was to stop is replayed by the next one.
    is_well = handle.error is None and "InterruptedBatchError" in str(failure)
    return None if is_well else failure


def stop_all(handles: Collection[SinkHandle]) -> None:
    """Let the batches under way finish, then end every query between batches."""
    begun = [handle for handle in handles if handle.query is not None]
    for handle in begun:
        handle.stopping = True
    for handle in begun:
        with handle.lock:
            if handle.query.isActive:
                handle.query.stop()
