"""One run of a pipeline: a Structured Streaming query per sink, until the input ends or a stop.

Rules: a run ends between batches, never inside one (a stop request waits for the running batch; the
next run replays a batch that Spark has planned by then). All sinks are settled before the first one
writes. From then on a failing sink starts again after its last commit if `retry_policy` grants it;
otherwise the others continue without it (`sink_lifecycle`). The user sees one clear error of ours,
not Spark's pages around it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pipelines.base.errors import PipelineError, SetupError
from pipelines.base.variables import hidden
from pipelines.exactly_once.checkpoint_start import Trust
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.pipeline import Pipeline
from pipelines.model.plan import compile_plan
from pipelines.model.retry_policy import Retry
from pipelines.model.table_order import upstream_of
from pipelines.report.events import BatchDone, Reporter
from pipelines.report.totals import RunResult, Tally
from pipelines.run.consumer_group_offsets import Advice
from pipelines.run.failure_notes import forget, note
from pipelines.run.options import NO_WISHES, Wishes
from pipelines.run.prepare import RunContext, prepare
from pipelines.run.queries import FailedError, held_tables, start, stop_all, why_ended
from pipelines.run.sink_handle import SinkHandle
from pipelines.run.sink_lifecycle import After, SinkLives, after, poll_s, together
from pipelines.sources.josefine import SourceKind
from pipelines.sources.kinds import ANY_KIND
from pipelines.spark.jvm import has_gone, watched
from pipelines.transforms.shared_batches import SharedRows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_sinks(
    spark: SparkSession,
    pipeline: Pipeline,
    reporter: Reporter,
    *,
    wishes: Wishes = NO_WISHES,
    kind: SourceKind | None = None,
    stop: threading.Event | None = None,
) -> RunResult:
    """Run to the end of the input (available_now) or until `stop` is set, even if some sinks fail.
    Raises PipelineError when the run cannot start or a failure ends it as a whole."""
    then = "during the run; what was committed stays, and the next run continues after it"
    with watched(spark, then):
        return _Run(spark, pipeline, reporter, kind or ANY_KIND, stop).run(wishes)


def run_pipeline(
    spark: SparkSession, pipeline: Pipeline, reporter: Reporter, **options: Any
) -> RunResult:
    """The same with the same options, but a failed sink raises at the end of the run."""
    result = run_sinks(spark, pipeline, reporter, **options)
    failure = together(result.failures.values())
    if failure is not None:
        raise failure
    return result


class _Run:
    """One run: the only place that knows the queries of all sinks together."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        reporter: Reporter,
        kind: SourceKind,
        stop: threading.Event | None,
    ) -> None:
        plan = compile_plan(pipeline)
        self.context = RunContext(
            spark=spark,
            plan=plan,
            kind=kind,
            run_id=uuid4().hex,
            wishes=NO_WISHES,
            now_ms=time.time_ns() // 1_000_000,
            letterings={},
            shared={source: SharedRows() for source in pipeline.sources},
            advice=Advice(plan, kind.advise, self._group_failed),
        )
        self.reporter = reporter
        self.stop = stop or threading.Event()
        self.tally = Tally(pipeline)
        self.first_s = time.monotonic()
        self.names = NO_WISHES.sinks_of(pipeline)
        self.lives = SinkLives(self.names, pipeline.restart)
        self.well: set[str] = set()
        """Sinks with a new batch since their last start."""
        self.handles: dict[str, SinkHandle] = {}
        # Of the last report: a table that is held now was well in an earlier batch.
        self.held: dict[str, Mapping[str, str]] = {}
        """Sink → the tables of its family that are held since its last start, with the reason."""

    @property
    def pipeline(self) -> Pipeline:
        return self.context.plan.pipeline

    def run(self, wishes: Wishes) -> RunResult:
        self.context = replace(self.context, wishes=wishes)
        if wishes.only:
            # The plan stays that of the whole file: which sink settles what does not change.
            self.names = wishes.sinks_of(self.pipeline)
            self.lives = SinkLives(self.names, self.pipeline.restart)
        try:
            self._start()
            pause_s = poll_s(self.pipeline.every_ms)
            while self.lives.left() and not self.stop.wait(pause_s):
                self._turn()
        except BaseException:
            stop_all(self.handles.values())
            for handle in self.handles.values():
                handle.rests()
            raise
        stop_all(self.handles.values())
        self._look_back()
        return RunResult(
            sinks={name: self.tally.totals[name] for name in self.names},
            seconds=time.monotonic() - self.first_s,
            interrupted=self.stop.is_set(),
            failures=self.lives.failures,
        )

    # -- starts --------------------------------------------------------------------------------

    def _start(self) -> None:
        """Settle all sinks before the first one writes: if the second one is refused, nothing has
        been written and the run does not start."""
        while not self._settle():
            if self.stop.is_set():
                return
        # `--trust` is obeyed once: a sink that starts again later must not follow it a second time.
        wishes = replace(self.context.wishes, trust=Trust.NEITHER)
        self.context = replace(self.context, wishes=wishes)
        self.first_s = time.monotonic()
        for name in self.names:
            # Another sink's failure may have postponed it.
            if self._waits(name):
                self.lives.pause(name, time.monotonic())
            elif name in self.lives.awake():
                self._begin(name)

    def _waits(self, name: str) -> bool:
        """Whether a sink of this run still writes a table that this one reads to its end."""
        if self.pipeline.every_ms is not None:
            return False
        left = self.lives.left()
        return any(above in left for above in upstream_of(self.pipeline, name))

    def _settle(self) -> bool:
        """Prepare each sink; whether all are ready. False: one failed, and its pause is over."""
        self.context.letterings.clear()
        try:
            for name in self.names:
                self._prepare(name)
        except FailedError as error:
            failed = error
        else:
            return True
        retry = self._granted(failed.handle, failed.failure)
        if retry is None:
            raise failed.as_error
        self.reporter.restarting(failed.handle.plan.name, retry)
        self.stop.wait(retry.pause_s)
        return False

    def _prepare(self, name: str) -> None:
        """Raises FailedError for a possibly temporary failure, PipelineError for a lasting one."""
        plan = self.context.plan.sinks[name]
        leaves = self.context.shared[plan.source.name].leaves
        handle = SinkHandle(plan, self._batch_done, self._upkeep_failed, leaves)
        self.handles[name] = handle
        self.lives.prepare(name, time.monotonic())
        self.reporter.starting(f"sink {name}")
        try:
            prepared = handle.prepared = prepare(
                self.context,
                plan,
                partial(self.reporter.retrying, name),
                handle.is_stopping,
            )
        except SetupError as error:
            # Unreachable brokers may come back.
            raise FailedError(handle, error) from error
        except PipelineError:
            raise
        except Exception as error:
            raise FailedError(handle, error) from error
        self.context.letterings.update(prepared.letters.letterings)
        self.tally.totals[name].path = prepared.opened.chain.path
        for line in prepared.warnings:
            self.reporter.warned(name, hidden(line, self.pipeline.secrets))

    def _begin(self, name: str) -> None:
        self.lives.begin(name, time.monotonic())
        self.well.discard(name)
        self.held.pop(name, None)
        forget(self.pipeline, name)
        handle = self.handles[name]
        try:
            start(handle, self.pipeline, self.reporter)
        except Exception as error:
            self._failed(handle, error)

    def _begin_again(self, name: str) -> None:
        """Start one sink again; the others keep running."""
        try:
            self._prepare(name)
        except FailedError as failed:
            self._failed(failed.handle, failed.failure)
        except PipelineError as error:
            self._fail(self.handles[name], error)
        else:
            self._begin(name)

    # -- ends ----------------------------------------------------------------------------------

    def _turn(self) -> None:
        """Check each query, and start the sinks whose pause is over."""
        for name in self.lives.running():
            handle = self.handles[name]
            # Another sink's failure may have ended it meanwhile.
            if name not in self.lives.running() or handle.query.isActive:
                continue
            failure = self._ended(handle)
            if failure is None:
                self.lives.end(name)
            else:
                self._failed(handle, failure)
        for name in self.lives.due(time.monotonic()):
            if not self.stop.is_set() and not self._waits(name):
                self._begin_again(name)

    def _ended(self, handle: SinkHandle) -> Exception | None:
        name = handle.plan.name
        failure = why_ended(handle) or held_tables(handle.plan.sink, self.held.get(name, {}))
        handle.rests()
        self.tally.totals[name].late += handle.late_rows()
        return failure

    def _failed(self, handle: SinkHandle, failure: Exception) -> None:
        """Handle a sink's failure. Raises it if it ends the whole run."""
        retry = self._granted(handle, failure)
        follows = self._follows(handle, failure, retry)
        if follows is After.ALL_END:
            raise failure
        if retry is None:
            self._fail(handle, FailedError(handle, failure).as_error)
            return
        self.reporter.restarting(handle.plan.name, retry)
        due_s = time.monotonic() + retry.pause_s
        self.lives.pause(handle.plan.name, due_s)
        if follows is After.ALL_AGAIN:
            self._rest_all(due_s)

    def _follows(self, handle: SinkHandle, failure: Exception, retry: Retry | None) -> After:
        has_letters = self.context.plan.sources[handle.plan.source.name].has_dead_letters
        return after(failure, retry, moves_letters=has_letters and self._skips_losses(handle))

    def _skips_losses(self, handle: SinkHandle) -> bool:
        return handle.plan.source.skips_losses or self.context.wishes.skip_losses

    def _rest_all(self, due_s: float) -> None:
        """Stop the queries of the others, to start all again together, in file order."""
        stop_all(self.handles.values())
        for name in self.lives.awake():
            if name in self.lives.running():
                self._settle_end(self.handles[name])
            if name in self.lives.awake():
                self.lives.pause(name, due_s)
        self.context.letterings.clear()

    def _look_back(self) -> None:
        """Check the stopped queries: a sink whose last batch failed has failed."""
        for name in self.lives.running():
            self._settle_end(self.handles[name])

    def _settle_end(self, handle: SinkHandle) -> None:
        failure = self._ended(handle)
        if failure is None:
            return
        follows = self._follows(handle, failure, self._granted(handle, failure))
        if follows is After.ALL_END:
            raise failure
        if follows is After.SINK_ENDS:
            self._fail(handle, FailedError(handle, failure).as_error)

    def _granted(self, handle: SinkHandle, failure: Exception) -> Retry | None:
        if has_gone(self.context.spark):
            raise failure
        if isinstance(failure, PipelineError) and not isinstance(failure, SetupError):
            return None
        return self.lives.granted(
            handle.plan.name,
            failure,
            hidden(clear_reason(failure), self.pipeline.secrets),
            skips_losses=self._skips_losses(handle),
            now_s=time.monotonic(),
        )

    def _fail(self, handle: SinkHandle, told: PipelineError) -> None:
        """End a sink with its failure; the others continue."""
        name = handle.plan.name
        self.lives.fail(name, told)
        first, *_ = str(told).splitlines() or [""]
        line = hidden(first.removeprefix(f"sink `{name}`: "), self.pipeline.secrets)
        note(self.pipeline, name, line, time.time_ns() // 1_000_000)
        self.reporter.failed(name, line, len(self.lives.left()))

    # -- reports -------------------------------------------------------------------------------

    def _upkeep_failed(self, sink: str, line: str) -> None:
        # Spark's reasons may quote settings.
        self.reporter.upkeep_failed(sink, hidden(line, self.pipeline.secrets))

    def _group_failed(self, source: str, line: str) -> None:
        self.reporter.group_failed(source, hidden(line, self.pipeline.secrets))

    def _batch_done(self, done: BatchDone) -> None:
        self.tally.count(done, time.monotonic() - self.first_s)
        if not done.already_there and done.sink not in self.well:
            self.well.add(done.sink)
            self.lives.well(done.sink)
        self.reporter.batch(done)
        for table in done.held.keys() - self.held.get(done.sink, {}).keys():
            line = f"table `{table}` is held, the others continue: {done.held[table]}"
            self.reporter.warned(done.sink, hidden(line, self.pipeline.secrets))
        if done.held:
            self.held[done.sink] = done.held
        self.tally.judge(done)
