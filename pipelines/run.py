"""Runs a pipeline: one Structured Streaming query per sink, until the input or the user ends it.

Rules: a run ends between batches, never inside one (a stop request waits for the batch under way;
what Spark has planned by then is replayed by the next run); all sinks are settled before the first
one writes; from then on a failing sink is begun again behind its last commit where `retries` says
that it is worth it, and otherwise the others go on without it (`sink_lives`); the error that a user
sees is ours, not Spark's pages around it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pipelines.advice import Advice
from pipelines.batch_rows import Decoded
from pipelines.errors import PipelineError, SetupError
from pipelines.failure_notes import forget, note
from pipelines.jvm import has_gone, watched
from pipelines.lettering import Lettering
from pipelines.messages import clear_reason
from pipelines.model import Pipeline
from pipelines.queries import FailedError, start, stop_all, why_ended
from pipelines.reconcile import Trust
from pipelines.reporting import BatchDone, Reporter
from pipelines.retries import Retry
from pipelines.shared_rows import SharedRows
from pipelines.sink_lives import After, SinkLives, after, together
from pipelines.sink_plan import compile_plan
from pipelines.source_kinds import ANY_KIND
from pipelines.sources import SourceKind
from pipelines.tally import RunResult, Tally
from pipelines.targets.target import LetterChain
from pipelines.variables import hidden
from pipelines.wishes import NO_WISHES, Wishes
from pipelines.work import SinkWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_S = 0.05


def run_sinks(
    spark: SparkSession,
    pipeline: Pipeline,
    reporter: Reporter,
    *,
    wishes: Wishes = NO_WISHES,
    kind: SourceKind | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Run to the end of the input (available_now) or until `stop` is set, also where some sinks
    fail. Raises PipelineError when the run cannot begin or ends whole."""
    then = "during the run; what was committed stays, and the next run goes on behind it"
    with watched(spark, then):
        return _Run(spark, pipeline, reporter, kind or ANY_KIND, stop).run(wishes)


def run_pipeline(
    spark: SparkSession, pipeline: Pipeline, reporter: Reporter, **options: Any
) -> RunResult:
    """The same with the same options, for whom a run with a failed sink is a failed run."""
    result = run_sinks(spark, pipeline, reporter, **options)
    failure = together(result.failures.values())
    if failure is not None:
        raise failure
    return result


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
        self.plan = compile_plan(pipeline)
        self.reporter = reporter
        self.stop = stop or threading.Event()
        self.tally = Tally(pipeline)
        self.run_id = uuid4().hex
        self.now_ms = time.time_ns() // 1_000_000
        self.first_s = time.monotonic()
        self.kind = kind
        self.lives = SinkLives(pipeline.sinks, pipeline.restart)
        self.wishes = NO_WISHES
        self.works: dict[str, SinkWork] = {}
        self.letterings: dict[str, Lettering[LetterChain]] = {}
        self.shared: dict[str, SharedRows[Decoded]] = {
            source: SharedRows() for source in pipeline.sources
        }
        self.advice = Advice(self.plan, kind.advise, self._group_failed)

    def run(self, wishes: Wishes) -> RunResult:
        self.wishes = wishes
        try:
            self._start()
            while self.lives.left() and not self.stop.wait(POLL_S):
                self._turn()
        except BaseException:
            stop_all(self.works.values())
            for work in self.works.values():
                work.rests()
            raise
        stop_all(self.works.values())
        self._look_back()
        return RunResult(
            sinks=self.tally.totals,
            seconds=time.monotonic() - self.first_s,
            interrupted=self.stop.is_set(),
            failures=self.lives.failures,
        )

    # -- starts --------------------------------------------------------------------------------

    def _start(self) -> None:
        """All sinks are settled before the first one writes: a stop of the second is then harmless,
        and the run does not begin."""
        streams = self._settle()
        while streams is None:
            if self.stop.is_set():
                return
            streams = self._settle()
        # What the user has settled is settled.
        self.wishes = replace(self.wishes, trust=Trust.NEITHER)
        self.first_s = time.monotonic()
        for name, stream in streams.items():
            # Another one's failure may have put it off.
            if name in self.lives.awake():
                self._begin(name, stream)

    def _settle(self) -> dict[str, Any] | None:
        """The stream of each sink; None after a failure and its pause."""
        self.letterings = {}
        try:
            return {name: self._prepared(name) for name in self.pipeline.sinks}
        except FailedError as error:
            failed = error
        retry = self._granted(failed.work, failed.failure)
        if retry is None:
            raise failed.told
        self.reporter.restarting(failed.work.sink.name, retry)
        self.stop.wait(retry.pause_s)
        return None

    def _prepared(self, name: str) -> Any:
        work = self.works[name] = SinkWork(
            self.spark,
            self.plan,
            self.plan.sinks[name],
            self.kind,
            self.run_id,
            self._batch_done,
            self.reporter.retrying,
            self._upkeep_failed,
            self.letterings,
            self.shared,
            self.advice,
        )
        self.lives.prepare(name, time.monotonic())
        self.reporter.starting(f"sink {name}")
        try:
            stream = work.prepare(self.wishes, self.now_ms)
        except SetupError as error:
            # Brokers that are away may come back.
            raise FailedError(work, error) from error
        except PipelineError:
            raise
        except Exception as error:
            raise FailedError(work, error) from error
        self.tally.totals[name].path = work.chain.path
        for line in work.warnings:
            self.reporter.warned(name, hidden(line, self.pipeline.secrets))
        return stream

    def _begin(self, name: str, stream: Any) -> None:
        self.lives.begin(name, time.monotonic())
        forget(self.pipeline, name)
        work = self.works[name]
        try:
            start(work, stream, self.pipeline, self.reporter)
        except Exception as error:
            self._failed(work, error)

    def _begin_again(self, name: str) -> None:
        """Alone: the others do what they do."""
        try:
            stream = self._prepared(name)
        except FailedError as failed:
            self._failed(failed.work, failed.failure)
        except PipelineError as error:
            self._fail(self.works[name], error)
        else:
            self._begin(name, stream)

    # -- ends ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Look at each query, and begin what is due."""
        for name in self.lives.running():
            work = self.works[name]
            # Another one's failure may have ended it meanwhile.
            if name not in self.lives.running() or work.query.isActive:
                continue
            failure = self._ended(work)
            if failure is None:
                self.lives.end(name)
            else:
                self._failed(work, failure)
        for name in self.lives.due(time.monotonic()):
            if not self.stop.is_set():
                self._begin_again(name)

    def _ended(self, work: SinkWork) -> Exception | None:
        failure = why_ended(work)
        work.rests()
        self.tally.totals[work.sink.name].late += work.late_rows()
        return failure

    def _failed(self, work: SinkWork, failure: Exception) -> None:
        """Raises what ends the run whole."""
        retry = self._granted(work, failure)
        follows = self._follows(work, failure, retry)
        if follows is After.ALL_END:
            raise failure
        if retry is None:
            self._fail(work, FailedError(work, failure).told)
            return
        self.reporter.restarting(work.sink.name, retry)
        due_s = time.monotonic() + retry.pause_s
        self.lives.pause(work.sink.name, due_s)
        if follows is After.ALL_AGAIN:
            self._rest_all(due_s)

    def _follows(self, work: SinkWork, failure: Exception, retry: Retry | None) -> After:
        has_letters = self.plan.sources[work.source.name].has_dead_letters
        return after(failure, retry, moves_letters=has_letters and self._skips_losses(work))

    def _skips_losses(self, work: SinkWork) -> bool:
        return work.source.skips_losses or self.wishes.skip_losses

    def _rest_all(self, due_s: float) -> None:
        """End the queries of the others, to begin them again with it, in file order."""
        stop_all(self.works.values())
        for name in self.lives.awake():
            if name in self.lives.running():
                self._settle_end(self.works[name])
            if name in self.lives.awake():
                self.lives.pause(name, due_s)
        self.letterings = {}

    def _look_back(self) -> None:
        """At queries that were ended: what of them failed in its last batch has failed."""
        for name in self.lives.running():
            self._settle_end(self.works[name])

    def _settle_end(self, work: SinkWork) -> None:
        failure = self._ended(work)
        if failure is None:
            return
        follows = self._follows(work, failure, self._granted(work, failure))
        if follows is After.ALL_END:
            raise failure
        if follows is After.SINK_ENDS:
            self._fail(work, FailedError(work, failure).told)

    def _granted(self, work: SinkWork, failure: Exception) -> Retry | None:
        if has_gone(self.spark):
            raise failure
        if isinstance(failure, PipelineError) and not isinstance(failure, SetupError):
            return None
        return self.lives.granted(
            work.sink.name,
            failure,
            hidden(clear_reason(failure), self.pipeline.secrets),
            skips_losses=self._skips_losses(work),
            now_s=time.monotonic(),
        )

    def _fail(self, work: SinkWork, told: PipelineError) -> None:
        """The others go on."""
        name = work.sink.name
        self.lives.fail(name, told)
        first, *_ = str(told).splitlines() or [""]
        line = hidden(first.removeprefix(f"sink `{name}`: "), self.pipeline.secrets)
        note(self.pipeline, name, line, time.time_ns() // 1_000_000)
        self.reporter.failed(name, line, len(self.lives.left()))

    # -- what is told meanwhile ----------------------------------------------------------------

    def _upkeep_failed(self, sink: str, line: str) -> None:
        # Spark's reasons may quote settings.
        self.reporter.upkeep_failed(sink, hidden(line, self.pipeline.secrets))

    def _group_failed(self, source: str, line: str) -> None:
        self.reporter.group_failed(source, hidden(line, self.pipeline.secrets))

    def _batch_done(self, done: BatchDone) -> None:
        self.tally.count(done, time.monotonic() - self.first_s)
        if not done.already_there:
            self.lives.well(done.sink)
        self.reporter.batch(done)
        self.tally.judge(done)
