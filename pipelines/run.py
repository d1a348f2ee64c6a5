"""Runs a pipeline: one Structured Streaming query per sink, until the input or the user ends it.

Rules: a run ends between batches, never inside one (a stop request waits for the batch under way;
what Spark has planned by then is replayed by the next run); one failing sink ends the run or, where
`retries` says that another start is worth it, begins all of it again behind the last commits; the
error that a user sees is ours, not Spark's pages around it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from josefine_spark.topic_offsets import ByPartition
from pipelines.advice import Advice
from pipelines.checking import Checked, added
from pipelines.errors import PipelineError, RunError, SetupError
from pipelines.jvm import watched
from pipelines.lettering import Lettering
from pipelines.messages import clear_reason
from pipelines.model import Pipeline
from pipelines.reconcile import Trust
from pipelines.reporting import BatchDone, Reporter
from pipelines.retries import Starts
from pipelines.source_kinds import ANY_KIND
from pipelines.sources import SourceKind
from pipelines.threshold import Recent
from pipelines.variables import hidden
from pipelines.wishes import NO_WISHES, Wishes
from pipelines.work import SinkWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.05


@dataclass(slots=True, kw_only=True)
class SinkTotals:
    """What one sink did in this run; grows batch by batch."""

    records: int = 0
    rows: int = 0
    dead_letters: int = 0
    batches: int = 0
    seconds: float = 0.0
    ends: ByPartition = field(default_factory=dict)
    checked: dict[str, Checked] = field(default_factory=dict)
    copies: int = 0
    late: int = 0
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """A run that ended well, by itself or (`interrupted`) on request."""

    sinks: dict[str, SinkTotals]
    seconds: float
    interrupted: bool


def run_pipeline(
    spark: SparkSession,
    pipeline: Pipeline,
    reporter: Reporter,
    *,
    wishes: Wishes = NO_WISHES,
    kind: SourceKind | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Run to the end of the input (available_now) or until `stop` is set. Raises PipelineError."""
    with watched(spark):
        return _Run(spark, pipeline, reporter, kind or ANY_KIND, stop).run(wishes)


class _FailedError(Exception):
    """A sink failed for a reason that is not ours: Spark's text of it, and the one to tell."""

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


class _Run:
    """One run: the only place that knows queries and their works together."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        reporter: Reporter,
        kind: SourceKind,
        stop: threading.Event | None,
    ) -> None:
        self.spark = spark
        self.pipeline = pipeline
        self.reporter = reporter
        self.stop = stop or threading.Event()
        self.totals = {name: SinkTotals() for name in pipeline.sinks}
        self.run_id = uuid4().hex
        self.now_ms = time.time_ns() // 1_000_000
        self.begun_s = 0.0
        self.first_s = 0.0
        self.kind = kind
        self.starts = Starts(pipeline.restart)
        self.recent: dict[str, Recent] = {}
        self.settled = False
        self.works: list[SinkWork] = []
        self.queries: list[Any] = []

    def run(self, wishes: Wishes) -> RunResult:
        while (failed := self._attempt(wishes)) is not None:
            retry = self.starts.next(
                failed.failure,
                hidden(clear_reason(failed.failure), self.pipeline.secrets),
                skips_losses=failed.work.source.skips_losses or wishes.skip_losses,
                begun_s=self.begun_s,
                now_s=time.monotonic(),
            )
            if retry is None:
                raise failed.told
            self.reporter.restarting(failed.work.sink.name, retry)
            if self.stop.wait(retry.pause_s):
                break
            if self.settled:
                wishes = replace(wishes, trust=Trust.NEITHER)
        seconds = time.monotonic() - (self.first_s or self.begun_s)
        interrupted = self.stop.is_set()
        return RunResult(sinks=self.totals, seconds=seconds, interrupted=interrupted)

    def _attempt(self, wishes: Wishes) -> _FailedError | None:
        """One start and what came of it; None: it ended well."""
        self.begun_s = time.monotonic()
        try:
            self._go(wishes)
        except _FailedError as failed:
            return failed
        return None

    def _go(self, wishes: Wishes) -> None:
        """From the preparation of all sinks to their end."""
        self.queries = []
        letterings: dict[str, Lettering] = {}
        advice = Advice(self.pipeline, self.kind.advise, self._group_failed)
        self.works = [
            SinkWork(
                self.spark,
                self.pipeline,
                sink,
                self.kind,
                self.run_id,
                self._batch_done,
                self.reporter.retrying,
                self._upkeep_failed,
                letterings,
                advice,
            )
            for sink in self.pipeline.sinks.values()
        ]
        # All sinks are settled before the first one writes: a stop of the second is then harmless.
        streams = [self._prepared(work, wishes) for work in self.works]
        self.settled = True
        self.begun_s = time.monotonic()
        self.first_s = self.first_s or self.begun_s
        try:
            for work, stream in zip(self.works, streams, strict=True):
                self._begin(work, stream)
            self._wait()
        finally:
            self._stop_all()
        for work in self.works:
            self.totals[work.sink.name].late += work.late_rows()
        self._raise_failure()

    def _prepared(self, work: SinkWork, wishes: Wishes) -> Any:
        self.reporter.starting(f"sink {work.sink.name}")
        try:
            stream = work.prepare(wishes, self.now_ms)
        except SetupError as error:
            # Brokers that are away may come back.
            raise _FailedError(work, error) from error
        except PipelineError:
            raise
        except Exception as error:
            raise _FailedError(work, error) from error
        self.totals[work.sink.name].path = work.chain.path
        return stream

    def _begin(self, work: SinkWork, stream: Any) -> None:
        pipeline = self.pipeline
        writer = stream.writeStream.queryName(f"{pipeline.name}.{work.sink.name}")
        writer = writer.foreachBatch(work.process)
        writer = writer.option("checkpointLocation", work.checkpoint_folder)
        if pipeline.every_ms is None:
            writer = writer.trigger(availableNow=True)
            self.reporter.begun(work.sink.name, work.records_to_do())
        else:
            writer = writer.trigger(processingTime=f"{pipeline.every_ms} milliseconds")
            self.reporter.begun(work.sink.name, None)
        query = work.query = writer.start()
        self.queries.append(query)
        self.reporter.watched(work.sink.name, work.begins(), partial(work.latest, query))

    def _upkeep_failed(self, sink: str, line: str) -> None:
        # Spark's reasons may quote settings.
        self.reporter.upkeep_failed(sink, hidden(line, self.pipeline.secrets))

    def _group_failed(self, source: str, line: str) -> None:
        self.reporter.group_failed(source, hidden(line, self.pipeline.secrets))

    def _batch_done(self, done: BatchDone) -> None:
        totals = self.totals[done.sink]
        totals.records += done.records
        totals.rows += done.rows
        totals.dead_letters += done.dead_letters
        totals.batches += 1
        totals.copies += done.copies
        totals.late += done.late
        totals.checked = added(totals.checked, done.checked)
        totals.seconds = time.monotonic() - (self.first_s or self.begun_s)
        if not done.already_there:
            self.starts.well()
        totals.ends = done.ends
        self.reporter.batch(done)
        self._judge_dead_letters(done)

    def _judge_dead_letters(self, done: BatchDone) -> None:
        """Raise RunError behind a batch with which there are too many."""
        sink, threshold = self.pipeline.sinks[done.sink], self.pipeline.threshold
        if threshold is None or not done.judged:
            return
        source = self.pipeline.source_of(sink).name
        recent = self.recent.setdefault(source, Recent(threshold))
        wrong = recent.batch(done.judged, done.dead_letters)
        if wrong:
            raise RunError(f"source `{source}`: {wrong}; see {self.pipeline.dead_letters}")

    def _wait(self) -> None:
        while any(query.isActive for query in self.queries):
            if self.stop.wait(POLL_S) or self._failed():
                return

    def _failed(self) -> bool:
        return any(work.error is not None for work in self.works) or any(
            not query.isActive and query.exception() is not None for query in self.queries
        )

    def _stop_all(self) -> None:
        """Let the batches under way finish, then end every query between batches."""
        for work in self.works:
            work.stopping = True
        for work, query in zip(self.works, self.queries, strict=False):
            with work.lock:
                if query.isActive:
                    query.stop()

    def _raise_failure(self) -> None:
        for work, query in zip(self.works, self.queries, strict=True):
            failure = query.exception()
            if work.error is None and failure is None:
                continue
            if isinstance(work.error, PipelineError):
                raise work.error
            if work.error is None and "InterruptedBatchError" in str(failure):
                continue
            raise _FailedError(work, work.error or failure)
