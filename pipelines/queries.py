"""The Structured Streaming queries of a run, one for each sink: begun, ended between batches, and
why one has ended."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Any

from pipelines.errors import PipelineError, RunError
from pipelines.messages import clear_reason
from pipelines.model import Pipeline
from pipelines.reporting import Reporter
from pipelines.work import SinkWork


class FailedError(Exception):
    """A sink failed for a reason that may pass: Spark's text of it, and the one to tell."""

    def __init__(self, work: SinkWork, failure: Exception) -> None:
        super().__init__(work.sink.name)
        self.work = work
        self.failure = failure

    @property
    def told(self) -> PipelineError:
        if isinstance(self.failure, PipelineError):
            return self.failure
        told = RunError(f"sink `{self.work.sink.name}`: {clear_reason(self.failure)}")
        told.__cause__ = self.failure
        return told


def start(work: SinkWork, stream: Any, pipeline: Pipeline, reporter: Reporter) -> None:
    """Of a sink that is prepared."""
    writer = stream.writeStream.queryName(f"{pipeline.name}.{work.sink.name}")
    writer = writer.foreachBatch(work.process)
    writer = writer.option("checkpointLocation", work.checkpoint_folder)
    if pipeline.every_ms is None:
        writer = writer.trigger(availableNow=True)
        reporter.begun(work.sink.name, work.records_to_do())
    else:
        writer = writer.trigger(processingTime=f"{pipeline.every_ms} milliseconds")
        reporter.begun(work.sink.name, None)
    query = work.query = writer.start()
    reporter.watched(work.sink.name, work.begins(), partial(work.latest, query))


def why_ended(work: SinkWork) -> Exception | None:
    """Why a query that is not active any more has failed; None where it has not."""
    query = work.query
    # Its thread may be about to end, and would still have the query's name.
    query.stop()
    failure: Exception | None = work.error or query.exception()
    # A batch that began after the run was to stop is replayed by the next one.
    is_well = work.error is None and "InterruptedBatchError" in str(failure)
    return None if is_well else failure


def stop_all(works: Collection[SinkWork]) -> None:
    """Let the batches under way finish, then end every query between batches."""
    begun = [work for work in works if work.query is not None]
    for work in begun:
        work.stopping = True
    for work in begun:
        with work.lock:
            if work.query.isActive:
                work.query.stop()
