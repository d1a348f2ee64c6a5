"""One sink's part of a run: its start, and what it does with each micro-batch.

A batch goes: read its offsets from the checkpoint, decide, dead letters' commit, the sink's own
commit, advice to the brokers. The order matters: a record may be missing from the sink only when it
is in the dead letters already. Each step may be the last before a crash; the next run finds the
truth in the two chains.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines import checking, failpoints, frames, messages, writing
from pipelines.advice import Advice
from pipelines.batch_rows import (
    Decoded,
    RowsIn,
    nodes_of,
    rows_of_source,
    rows_of_state,
    rows_shared,
)
from pipelines.chain import Batch, Commit, Stop, decide, together
from pipelines.checking import Checked
from pipelines.deduplicating import Span, span_of
from pipelines.delta_chain import DeltaChain, StoppedError
from pipelines.delta_log import LogEntry
from pipelines.errors import ChainError, RunError
from pipelines.keeping import keeper_of
from pipelines.laps import Laps
from pipelines.lettering import Lettering
from pipelines.model import Mode, OnError, Pipeline, Sink, Source
from pipelines.preparing import prepare
from pipelines.readings import reading_of
from pipelines.reporting import BatchDone
from pipelines.retries import Retry
from pipelines.shared_rows import SharedRows
from pipelines.sink_letters import LettersStoppedError, SinkLetters, Written
from pipelines.sources import SourceKind
from pipelines.state_chain import decide_in_turn
from pipelines.stateful import LateRows, held
from pipelines.topic_chain import AnyChain
from pipelines.unreadable_batches import is_unreadable_batch, skipped_and_recorded
from pipelines.wishes import Wishes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


log = logging.getLogger("josefine.pipelines")


class InterruptedBatchError(Exception):
    """Raised inside a batch that began after the run was asked to stop: it is replayed later."""


class SinkWork:
    """Everything of one sink during one run. One stream thread calls `process`."""

    def __init__(
        self,
        spark: SparkSession,
        pipeline: Pipeline,
        sink: Sink,
        kind: SourceKind,
        run_id: str,
        on_batch: Callable[[BatchDone], None],
        on_retry: Callable[[str, int, Retry], None],
        on_upkeep: Callable[[str, str], None],
        letterings: dict[str, Lettering[DeltaChain]],
        shared: Mapping[str, SharedRows[Decoded]],
        advice: Advice,
    ) -> None:
        """`letterings`, `shared`: of all sources, which the works of one run share."""
        self.sink = sink
        self.source = pipeline.source_of(sink)
        sources = pipeline.sources_of(sink)
        self._failing = [one for one in sources if one.has_on_error(OnError.FAIL)]
        self._stateful = pipeline.stateful_of(sink)
        self._late = LateRows()
        self.lock = threading.Lock()
        self.stopping = False
        self.error: Exception | None = None
        self.query: Any = None
        self.warnings: Sequence[str] = ()
        """Of its start, when it is prepared."""
        self._spark = spark
        self._pipeline = pipeline
        self._kind = kind
        self._run_id = run_id
        self._on_batch = on_batch
        self._on_retry = on_retry
        self._on_upkeep = on_upkeep
        self._letterings = letterings
        self._shared = shared[self.source.name]
        self._advice = advice

    # -- start ---------------------------------------------------------------------------------

    def prepare(self, wishes: Wishes, now_ms: int) -> DataFrame:
        """Check schemas, make sure of the tables, settle where to start; return the stream.
        `now_ms` since 1970: when the run began."""
        ready = prepare(
            self._spark,
            self._pipeline,
            self.sink,
            self._kind,
            self._run_id,
            partial(self._on_retry, self.sink.name),
            wishes,
            self._letterings,
            now_ms,
        )
        self.chain, self._looked = ready.chain, ready.looked
        self.warnings = ready.warnings
        self._letterings |= ready.letterings
        self._letters = SinkLetters(
            self._spark,
            self._pipeline,
            self.sink,
            self.chain,
            ready.letterings,
            self._topics_of,
        )
        self._files, self._topics, self._begun_at = ready.files, ready.topics, ready.begun_at
        tip = self.chain.tip
        self._advice.stands(self.sink, tip.reached.ends if tip else {}, self._topics.latest.ends)
        self._ends_at = ready.ends_at
        self._keeper = keeper_of(self._spark, self.chain.path, self.sink, lambda: self.stopping)
        # Which records are lost is told by who reads them.
        self._shares = not (self._stateful or self.source.skips_losses or wishes.skip_losses)
        if self._shares:
            self._shared.stands(self.sink.name, self.begins())
        return ready.stream

    def records_to_do(self) -> int | None:
        """How many offsets lay between the start and the end, when the run was prepared; None where
        the source itself finds out where it begins."""
        begins = self.begins()
        if begins is None:
            return None
        return sum(max(0, end - begins[p]) for p, end in self._ends_at.items())

    def begins(self) -> ByPartition | None:
        """Where it goes on; None where the source itself finds out."""
        if not self._begun_at and self.source.start.text != "earliest":
            return None
        begun, earliest = self._begun_at, self._topics.earliest
        return {p: begun.get(p, earliest.get(p, 0)) for p in self._topics.latest.ends}

    def latest(self, query: Any) -> ByPartition:
        """Where the topics end: by the query's last look, or else as the run found them."""
        progress = query.lastProgress
        looked = [each.latestOffset for each in progress.sources] if progress else []
        said = [json.loads(each) if each else None for each in looked]
        if not said or None in said:
            return self._topics.latest.ends
        return together(self._kind.parse(json.dumps(each)) for each in said).ends

    def late_rows(self) -> int:
        """What came behind the watermark in batches that ended since the last call."""
        return self._late.of(self.query) if self._stateful and self.query else 0

    def rests(self) -> None:
        """Its query is not there any more: the other sinks await nothing of it."""
        self._shared.leaves(self.sink.name)

    @property
    def checkpoint_folder(self) -> str:
        """Known when the sink is prepared."""
        return self._files.folder

    # -- batches -------------------------------------------------------------------------------

    def process(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch, for foreachBatch. Keeps the error: Spark would only show its text."""
        # Only the one who stops the run ever holds the lock beside this thread.
        if self.stopping or not self.lock.acquire(blocking=False):
            raise InterruptedBatchError
        try:
            self._process(frame, batch_id)
        except Exception as error:
            self.error = error
            raise
        finally:
            self.lock.release()

    def _process(self, frame: DataFrame, batch_id: int) -> None:
        failpoints.hit("after_offsets")
        begun_s = time.monotonic()
        batch = self._files.batch(batch_id)
        self._name_query()
        tip = self.chain.tip
        if self._stateful:
            decision = decide_in_turn(batch_id, self.chain.query_id, batch, tip)
        else:
            decision = decide(batch, tip)
        if isinstance(decision, Stop):
            raise self._stopped(self.chain, decision, batch_id, batch)
        own = decision if isinstance(decision, Commit) else None
        try:
            done = self._write_due(frame, batch_id, batch, own)
        except LettersStoppedError as stopped:
            raise self._stopped(stopped.chain, stopped.stop, batch_id, batch) from stopped
        done = replace(done, late=self.late_rows())
        tip = self.chain.tip
        assert tip is not None
        self._advice.reached(self.sink, tip.reached.ends)
        failpoints.hit("after_commit_before_log")
        seconds = time.monotonic() - begun_s
        self._on_batch(replace(done, ends=tip.reached.ends, seconds=seconds))
        if not done.already_there:
            for wrong in self._keeper.after(tip.txn_version):
                self._on_upkeep(self.sink.name, wrong)

    def _write_due(
        self, frame: DataFrame, batch_id: int, batch: Batch, own: Commit | None
    ) -> BatchDone:
        """The commits that are due; without the record batches that cannot be read, where the user
        decided so."""
        try:
            lettered = self._letters.due(batch, own)
            failpoints.hit("before_commit")
            return self._write(frame, batch_id, batch, own, lettered)
        except Exception as error:
            # The sinks of a source share its rows, unless one of them may skip some.
            skips = not self._shares and self._stateful is None
            if not skips or not is_unreadable_batch(error):
                raise
        log.warning("sink %s skips a record batch that cannot be read", self.sink.name)
        marked = self._kind.read(frame.sparkSession, self.source, batch, marks_unreadable=True)
        link = self.chain.link
        try:
            rest = skipped_and_recorded(marked, batch, self._pipeline, self.sink, link)
        except StoppedError as stopped:
            raise self._stopped(self.chain, stopped.stop, batch_id, batch) from stopped
        failpoints.hit("mid_loss", 1)
        # Some dead letters may be committed already: what is due is asked again.
        return self._write(rest, batch_id, batch, own, self._letters.due(batch, own))

    def _write(
        self,
        frame: DataFrame,
        batch_id: int,
        batch: Batch,
        own: Commit | None,
        lettered: Collection[Source],
    ) -> BatchDone:
        """The Delta commits that are due, and what they wrote. `lettered`: the sources of which
        letters may be."""
        rows = copies = 0
        written: Written = {}
        version: int | None = None
        checked: Mapping[str, Checked] = {}
        if own is None and not lettered:
            if self._stateful:
                # Its state goes on all the same.
                held(frame).unpersist()
            return self._done(batch_id)
        laps = Laps()
        rows_in = self._rows_in(frame, batch, own, lettered)
        checks = self._pipeline.checks_of(self.sink)
        try:
            nodes = nodes_of(self._pipeline, self.sink, rows_in)
            if own is not None:
                for one in self._failing:
                    frames.fail_on_bad(rows_in.parsed[one.name], one, reading_of(one))
                if checks:
                    with laps.of("checks"):
                        checked = checking.count(nodes.made, checks)
                    checking.judge(self.sink.name, checks, checked)
            if lettered:
                with laps.of("letters"):
                    written = self._letters.write(
                        lettered, batch_id, batch, rows_in, nodes.made, own
                    )
            if own is not None:
                made = nodes.rows[self.sink.input]
                out = frames.table_rows(self._pipeline, self.sink, made)
                how = self.sink.deduplicate
                span = span_of(made, how) if how else None
                with laps.of("rows"):
                    entry = self._write_own(out, own, batch_id, batch, checked, span)
                rows, version = writing.rows_written(self.sink, entry), entry.version
                copies = span.rows - rows if span else 0
                failpoints.hit("mid_commit", 2)
        finally:
            rows_in.free()
        return replace(
            self._done(batch_id),
            records=_records(batch) if own is not None else 0,
            rows=rows,
            dead_letters=sum(letters for _, letters in written.values()),
            judged=written,
            already_there=own is None,
            checked=checked,
            copies=copies,
            version=version,
            starts=_starts(batch),
            parts=laps.seconds,
        )

    def _rows_in(
        self, frame: DataFrame, batch: Batch, own: Commit | None, lettered: Collection[Source]
    ) -> RowsIn:
        if self._stateful:
            looks = {one.name: one for one in self._letters.looks(lettered, own)}
            if own is not None:
                looks |= {one.name: one for one in self._failing}
            read = partial(self._read_again, frame, batch)
            return rows_of_state(frame, self._stateful, looks.values(), read)
        if self._shares:
            shared = rows_shared(frame, self.sink, self.source, batch, self._shared)
            if shared is not None:
                return shared
        again = self.sink.deduplicate is not None or self.sink.mode is Mode.SCD2
        several = again or bool(self._failing or self._pipeline.checks_of(self.sink))
        return rows_of_source(frame, self.source, keeps=several, counts=bool(lettered))

    def _read_again(self, frame: DataFrame, batch: Batch, source: Source) -> DataFrame:
        if len(self._pipeline.sources_of(self.sink)) > 1:
            batch = batch.of_topics(self._topics_of(source))
        return self._kind.read(frame.sparkSession, source, batch)

    def _topics_of(self, source: Source) -> Collection[str]:
        """Those of one of several sources: the file's, or (of folders) those that are there."""
        if source.topics:
            return source.topics
        began, now = self._looked[source.name], self._kind.look(source)
        return {*began.latest.topic_ids, *now.latest.topic_ids}

    def _done(self, batch_id: int) -> BatchDone:
        """A batch that was there already."""
        return BatchDone(
            sink=self.sink.name,
            batch=batch_id,
            records=0,
            rows=0,
            dead_letters=0,
            ends={},
            already_there=True,
        )

    def _write_own(
        self,
        out: DataFrame,
        own: Commit,
        batch_id: int,
        batch: Batch,
        checked: Mapping[str, Checked],
        span: Span | None,
    ) -> LogEntry:
        if failpoints.due("mid_write"):
            self.chain.half_write(out)
            failpoints.die()

        said = self._letters.said()
        if checked:
            said["checks"] = {name: each.to_json() for name, each in checked.items()}

        def commit() -> LogEntry:
            return writing.write(self.chain, self.sink, out, own, batch_id, said, span)

        return self._guard(self.chain, batch_id, batch, commit)

    def _guard(
        self,
        chain: AnyChain,
        batch_id: int,
        batch: Batch,
        commit: Callable[[], LogEntry],
    ) -> LogEntry:
        try:
            return commit()
        except StoppedError as stopped:
            raise self._stopped(chain, stopped.stop, batch_id, batch) from stopped

    def _name_query(self) -> None:
        if not self.chain.query_id:
            self.chain.query_id = self._files.query_id()
            self._letters.of_query(self.chain.query_id)

    def _stopped(self, chain: AnyChain, stop: Stop, batch_id: int, batch: Batch) -> RunError:
        text = messages.stopped_in_batch(
            self._pipeline.as_arguments,
            chain.link.sink,
            chain.path,
            stop,
            batch_id,
            batch,
            chain.tip,
            self._stateful.name if self._stateful else "",
        )
        return ChainError(text)


def _starts(batch: Batch) -> ByPartition:
    found = {partition: batch.start_of(partition) for partition in batch.end.ends}
    return {partition: start for partition, start in found.items() if start is not None}


def _records(batch: Batch) -> int:
    """Offsets passed, which with compacted or transactional topics is more than records read."""
    return sum(end - (batch.start_of(p) or 0) for p, end in batch.end.ends.items())
