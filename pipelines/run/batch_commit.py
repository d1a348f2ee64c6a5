"""One micro-batch of one sink, from its recorded offsets to its commit.

The steps of a micro-batch: read its offsets from the checkpoint, decide, commit dead letters,
commit the sink's rows, commit the consumer groups' offsets. The order matters: a record may be
missing from the sink only when it is in the dead letters already. Each step may be the last before
a crash; the next run reads the truth from the two chains. A `BatchReader` makes the rows: this
module does not use Spark.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base import failpoints
from pipelines.base.errors import ChainError, RunError
from pipelines.dead_letters.writer import LettersStoppedError, Written
from pipelines.exactly_once import verdict_messages
from pipelines.exactly_once.offset_chain import Batch, Commit, Stop, decide
from pipelines.exactly_once.state_chain import decide_in_turn
from pipelines.model.pipeline import Source
from pipelines.report.events import BatchDone
from pipelines.run.prepared_sink import BatchRows, PreparedSink
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.target import SinkChain
from pipelines.sinks.target import Written as TargetWritten
from pipelines.transforms import checks
from pipelines.transforms.checks import Checked
from pipelines.transforms.deduplicate import Span

log = logging.getLogger("josefine.pipelines")


@dataclass(frozen=True, slots=True)
class BatchCommit:
    """One micro-batch with its decision. Its rows are not read yet."""

    of: PreparedSink
    batch_id: int
    batch: Batch
    own: Commit | None
    """The sink's commit; None if the target has the micro-batch already."""

    def write(self, frame: Any) -> BatchDone:
        """Make the commits that are due. Skips unreadable record batches if the user asked for it.
        Raises RunError."""
        try:
            try:
                lettered = self.of.letters.due(self.batch, self.own)
                failpoints.hit("before_commit")
                return self._write(frame, lettered)
            except Exception as error:
                if not self.of.reader.skips(error):
                    told = self.of.reader.failed_record(frame, error)
                    if told is None:
                        raise
                    raise RunError(f"sink `{self.of.plan.name}`: {told}") from error
            rest = self._without_unreadable(frame)
            failpoints.hit("mid_loss", 1)
            # The failed attempt may have committed dead letters: ask again what is due.
            return self._write(rest, self.of.letters.due(self.batch, self.own))
        except LettersStoppedError as stopped:
            raise self.stopped(stopped.chain, stopped.stop) from stopped

    def _without_unreadable(self, frame: Any) -> Any:
        log.warning("sink %s skips a record batch that cannot be read", self.of.plan.name)
        opened = self.of.opened
        try:
            return self.of.reader.without_unreadable(frame, self.batch, opened.record_losses)
        except StoppedError as stopped:
            raise self.stopped(opened.chain, stopped.stop) from stopped

    def _write(self, frame: Any, lettered: Collection[Source]) -> BatchDone:
        """`lettered`: the sources whose dead letters may be due."""
        of, own = self.of, self.own
        if own is None and not lettered:
            of.reader.pass_over(frame)
            return self._done()
        written: Written = {}
        checked: Mapping[str, Checked] = {}
        made: TargetWritten | None = None
        copies, skipped, parts = 0, 0, dict[str, float]()
        rows = of.reader.read(frame, self.batch, own, lettered)
        try:
            # Everything that can refuse the batch comes before its first commit.
            if own is not None:
                for source in of.plan.failing:
                    rows.refuse_bad(source)
                checked = self._judged(rows, parts)
            # Dead letters before rows: a crash between the two must not lose a record.
            if lettered:
                begun_s = time.monotonic()
                written = of.letters.write(
                    lettered, self.batch_id, self.batch, rows.letters, rows.bad, own
                )
                parts["letters"] = time.monotonic() - begun_s
            if own is not None:
                out, span = rows.target_rows()
                begun_s = time.monotonic()
                made = self._commit(out, own, checked, span)
                parts["rows"] = time.monotonic() - begun_s
                copies = span.rows - made.rows if span else 0
                skipped = rows.skipped()
                failpoints.hit("mid_commit", 2)
        finally:
            rows.free()
        return replace(
            self._done(),
            records=_records(self.batch) if own is not None else 0,
            rows=made.rows if made else 0,
            dead_letters=sum(letters for _, letters in written.values()),
            judged=written,
            already_there=own is None,
            checked=checked,
            copies=copies,
            skipped=skipped,
            version=made.version if made else None,
            starts=_starts(self.batch),
            parts=parts,
        )

    def _judged(self, rows: BatchRows, parts: dict[str, float]) -> Mapping[str, Checked]:
        """The results of the checks. Raises RunError if the batch must not be written."""
        plan = self.of.plan
        if not plan.checks:
            return {}
        begun_s = time.monotonic()
        found = rows.checked()
        parts["checks"] = time.monotonic() - begun_s
        checks.judge(plan.name, plan.checks, found)
        return found

    def _commit(
        self, out: Any, own: Commit, checked: Mapping[str, Checked], span: Span | None
    ) -> TargetWritten:
        opened = self.of.opened
        if failpoints.due("mid_write"):
            opened.half_write(out)
            failpoints.die()
        said = self.of.letters.said()
        if checked:
            said["checks"] = {name: each.to_json() for name, each in checked.items()}
        try:
            return opened.commit(out, own, self.batch_id, said, span)
        except StoppedError as stopped:
            raise self.stopped(opened.chain, stopped.stop) from stopped

    def _done(self) -> BatchDone:
        """The report of a micro-batch that the target had already."""
        return BatchDone(
            sink=self.of.plan.name,
            batch=self.batch_id,
            records=0,
            rows=0,
            dead_letters=0,
            ends={},
            already_there=True,
        )

    def stopped(self, chain: SinkChain, stop: Stop) -> RunError:
        """The error for a stop that needs a person."""
        stateful = self.of.plan.stateful
        text = verdict_messages.stopped_in_batch(
            self.of.file,
            chain.link.sink,
            chain.path,
            stop,
            self.batch_id,
            self.batch,
            chain.tip,
            stateful.name if stateful else "",
        )
        return ChainError(text)


def begin(of: PreparedSink, batch_id: int) -> BatchCommit:
    """Read the offsets of a micro-batch and decide on it. Raises RunError."""
    failpoints.hit("after_offsets")
    chain, batch = of.opened.chain, of.files.batch(batch_id)
    if not chain.query_id:
        chain.query_id = of.files.query_id()
        of.letters.of_query(chain.query_id)
    if of.plan.stateful:
        decision = decide_in_turn(batch_id, chain.query_id, batch, chain.tip)
    else:
        decision = decide(batch, chain.tip)
    own = decision if isinstance(decision, Commit) else None
    begun = BatchCommit(of, batch_id, batch, own)
    if isinstance(decision, Stop):
        raise begun.stopped(chain, decision)
    return begun


def commit_batch(of: PreparedSink, frame: Any, batch_id: int) -> BatchDone:
    """Decide on a micro-batch, commit it, commit its group offsets. Raises RunError."""
    begun_s = time.monotonic()
    done = begin(of, batch_id).write(frame)
    tip = of.opened.chain.tip
    assert tip is not None
    of.advice.reached(of.plan, tip.reached.ends)
    failpoints.hit("after_commit_before_log")
    return replace(done, ends=tip.reached.ends, seconds=time.monotonic() - begun_s)


def _starts(batch: Batch) -> ByPartition:
    return {p: batch.starts[p] for p in batch.end.ends if p in batch.starts}


def _records(batch: Batch) -> int:
    """The number of offsets; in compacted or transactional topics more than records."""
    return sum(end - batch.starts.get(p, 0) for p, end in batch.end.ends.items())
