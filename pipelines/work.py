"""One sink's part of a run: its start, and what it does with each micro-batch.

A batch goes: read its offsets from the checkpoint, decide, dead letters' commit, the sink's own
commit, advice to the broker. The order matters: a record may be missing from the sink only when it
is in the dead letters already. Each step may be the last before a crash; the next run finds the
truth in the two chains.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_broker.base.ids import TopicPartition
from josefine_spark.topic_offsets import ByPartition, TopicOffsets
from pipelines import failpoints, frames, messages
from pipelines.chain import (
    Batch,
    Commit,
    Stop,
    decide,
    decide_by_offset,
)
from pipelines.checkpoint import CheckpointFiles
from pipelines.delta_chain import DeltaChain, Link, StoppedError, change_columns, ensure_table
from pipelines.delta_log import LogEntry
from pipelines.errors import ChainError, RunError
from pipelines.evolution import Steps, fit
from pipelines.hadoop import HadoopFiles
from pipelines.merging import merged_columns
from pipelines.model import Pipeline, Sink
from pipelines.retries import Retry
from pipelines.settling import Settling
from pipelines.sources import SourceKind, Topics
from pipelines.wishes import Wishes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class InterruptedBatchError(Exception):
    """Raised inside a batch that began after the run was asked to stop: it is replayed later."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchDone:
    """One batch that is in the tables. Counts of rows come from the Delta commits.

    `already_there`: an earlier run had committed it to the sink's table.
    """

    sink: str
    batch: int
    records: int
    rows: int
    dead_letters: int
    ends: ByPartition
    already_there: bool = False


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
    ) -> None:
        self.sink = sink
        self.source = pipeline.source_of(sink)
        self.lock = threading.Lock()
        self.stopping = False
        self.error: Exception | None = None
        self.topics = Topics(earliest={}, latest=TopicOffsets())
        self.begun_at: ByPartition = {}
        self._spark = spark
        self._pipeline = pipeline
        self._kind = kind
        self._run_id = run_id
        self._on_batch = on_batch
        self._on_retry = on_retry
        self._files = self._checkpoint(pipeline.checkpoint_of(sink.name))

    # -- start ---------------------------------------------------------------------------------

    def prepare(self, wishes: Wishes) -> DataFrame:
        """Check schemas, make sure of the tables, settle where to start; return the stream."""
        self._schema = frames.value_schema(self._spark, self.source)
        # In a session of its own: the views of a transform must not meet the caller's.
        empty = frames.empty_source(self._spark.newSession(), self.source)
        parsed = frames.parse(empty, self.source, self._schema)
        good = frames.good_rows(parsed, self._schema)
        frames.refuse_stateful(self._pipeline, good, self.sink)
        rows = frames.sink_rows(self._pipeline, self.sink, good)
        self.topics = self._kind.look(self.source)
        writes_dead = self._pipeline.writes_dead_letters(self.sink)
        path = ensure_table(self._spark, self.sink.path, self.sink.table, rows.schema)
        wants = frames.columns(rows)
        facts: dict[str, Any] = {"columns": [*wants]}
        if writes_dead:
            facts["dead_letters"] = self._pipeline.dead_letter_path
        self.chain = self._chain(path, self.sink.name, facts)
        self.dead_chain: DeltaChain | None = None
        if writes_dead:
            bad = frames.bad_rows(parsed, self.source, self._schema, {})
            dead_path = ensure_table(self._spark, self._pipeline.dead_letter_path, None, bad.schema)
            # A dot is in no sink's name, so this chain collides with none.
            self.dead_chain = self._chain(dead_path, f"dead_letter.{self.source.name}")
        settling = Settling(
            self._spark,
            self._pipeline,
            self.sink,
            self.chain,
            self.dead_chain,
            self._files,
            self._checkpoint(self._pipeline.old_checkpoint_of(self.sink.name)),
            self.topics,
            wishes,
        )
        steps = Steps()

        def fits(said: Mapping[str, Any]) -> None:
            nonlocal steps
            steps = self._steps(path, wants, said.get("columns", ()))

        start = settling.settle(fits)
        self._files = settling.files
        change_columns(self._spark, path, steps)
        if start.at is None:
            return self._kind.open(self._spark, self.source, None)
        self.begun_at = self.topics.keep(start.at)
        ids = start.tip.reached.topic_ids if start.tip else {}
        at = TopicOffsets(ends=self.begun_at, topic_ids=ids)
        return self._kind.open(self._spark, self.source, at)

    def records_to_do(self) -> int:
        """How many offsets the topics had beyond the start, when the run was prepared."""
        latest = self.topics.latest.ends
        return sum(
            max(0, end - self.begun_at.get(p, self._earliest(p))) for p, end in latest.items()
        )

    def _earliest(self, partition: TopicPartition) -> int:
        return self.topics.earliest.get(partition, 0)

    def _steps(self, path: str, wants: Mapping[str, str], wrote: Collection[str]) -> Steps:
        """What to change in a table that was there before. Raises RunError."""
        sink = self.sink
        have = frames.columns(self._spark.read.format("delta").load(path))
        steps = fit(have, wants, wrote, sink.evolution, merges=sink.merges)
        if isinstance(steps, str):
            raise RunError(f"sink `{sink.name}`: {sink.path or sink.table} {steps}")
        return steps

    @property
    def checkpoint_folder(self) -> str:
        """Known when the sink is prepared."""
        return self._files.folder

    def _checkpoint(self, folder: str) -> CheckpointFiles:
        return CheckpointFiles(HadoopFiles(self._spark), folder, self._kind.parse)

    def _chain(self, path: str, name: str, facts: Mapping[str, Any] | None = None) -> DeltaChain:
        link = Link(pipeline=self._pipeline.name, sink=name, run=self._run_id, facts=facts or {})
        return DeltaChain(self._spark, path, link, partial(self._on_retry, self.sink.name))

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
        batch = self._files.batch(batch_id)
        decision = decide(batch, self.chain.tip)
        if isinstance(decision, Stop):
            raise self._stopped(self.chain, decision, batch_id, batch)
        self._name_query()
        dead = decide_by_offset(batch, self.dead_chain.tip) if self.dead_chain else None
        if isinstance(dead, Stop):
            assert self.dead_chain is not None
            raise self._stopped(self.dead_chain, dead, batch_id, batch)
        failpoints.hit("before_commit")
        dead_letters, rows = self._write(
            frame,
            batch_id,
            batch,
            decision if isinstance(decision, Commit) else None,
            dead if isinstance(dead, Commit) else None,
        )
        tip = self.chain.tip
        assert tip is not None
        self._kind.advise(self.source, f"{self._pipeline.name}.{self.sink.name}", tip.reached.ends)
        failpoints.hit("after_commit_before_log")
        done = BatchDone(
            sink=self.sink.name,
            batch=batch_id,
            records=_records(batch) if isinstance(decision, Commit) else 0,
            rows=rows,
            dead_letters=dead_letters,
            ends=tip.reached.ends,
            already_there=not isinstance(decision, Commit),
        )
        self._on_batch(done)

    def _write(
        self,
        frame: DataFrame,
        batch_id: int,
        batch: Batch,
        own: Commit | None,
        dead: Commit | None,
    ) -> tuple[int, int]:
        """The Delta commits that are due; (dead letters, rows) written."""
        dead_letters = rows = 0
        if own is None and dead is None:
            return dead_letters, rows
        parsed = frames.parse(frame, self.source, self._schema)
        if dead is not None or self._fails_on_bad():
            # The batch is looked at twice (bad rows, good rows): evaluate it once.
            parsed = parsed.persist()
        try:
            if dead is not None:
                assert self.dead_chain is not None
                bad = frames.bad_rows(parsed, self.source, self._schema, dead.skip_below)
                entry = self._guard(
                    self.dead_chain,
                    batch_id,
                    batch,
                    lambda chain: chain.append(bad, dead, batch_id),
                )
                dead_letters = entry.metrics.get("numOutputRows", 0)
                failpoints.hit("mid_commit", 1)
            elif own is not None and self._fails_on_bad():
                frames.fail_on_bad(parsed, self.source, self._schema)
            if own is not None:
                good = frames.good_rows(parsed, self._schema)
                out = frames.sink_rows(self._pipeline, self.sink, good)
                rows = self._write_own(out, own, batch_id, batch)
                failpoints.hit("mid_commit", 2)
        finally:
            parsed.unpersist()
        return dead_letters, rows

    def _write_own(self, out: DataFrame, own: Commit, batch_id: int, batch: Batch) -> int:
        if failpoints.due("mid_write"):
            # What a crash leaves between the data files and the log entry that names them.
            out.write.format("parquet").mode("append").save(self.chain.path)
            failpoints.die()

        def commit(chain: DeltaChain) -> LogEntry:
            if self.sink.merges:
                merged = merged_columns(self.sink)
                return chain.merge(out, self.sink.keys, merged, own, batch_id)
            return chain.append(out, own, batch_id)

        metrics = self._guard(self.chain, batch_id, batch, commit).metrics
        if self.sink.merges:
            return metrics.get("numTargetRowsInserted", 0) + metrics.get("numTargetRowsUpdated", 0)
        return metrics.get("numOutputRows", 0)

    def _guard(
        self,
        chain: DeltaChain,
        batch_id: int,
        batch: Batch,
        commit: Callable[[DeltaChain], LogEntry],
    ) -> LogEntry:
        try:
            return commit(chain)
        except StoppedError as stopped:
            raise self._stopped(chain, stopped.stop, batch_id, batch) from stopped

    def _fails_on_bad(self) -> bool:
        return self.source.decode is not None and not self.source.decode.dead_letter

    def _name_query(self) -> None:
        if not self.chain.query_id:
            self.chain.query_id = self._files.query_id()
            if self.dead_chain is not None:
                self.dead_chain.query_id = self.chain.query_id

    def _stopped(self, chain: DeltaChain, stop: Stop, batch_id: int, batch: Batch) -> RunError:
        text = messages.stopped_in_batch(
            self._pipeline.as_arguments,
            chain.link.sink,
            chain.path,
            stop,
            batch_id,
            batch,
            chain.tip,
        )
        return ChainError(text)


def _records(batch: Batch) -> int:
    """Offsets passed, which with compacted or transactional topics is more than records read."""
    return sum(end - (batch.start_of(p) or 0) for p, end in batch.end.ends.items())
