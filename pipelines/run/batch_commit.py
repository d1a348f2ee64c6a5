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
from functools import partial
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base import failpoints
from pipelines.base.errors import ChainError, RunError
from pipelines.dead_letters.left_out import LEFT_OUT, NOTHING_LEFT_OUT, LeftOut
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

SEARCHES_MAX = 3
"""Searches for failing records in one micro-batch. One finds all of them, unless the table changes
or an expression depends on time or chance."""


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
        # Of all attempts: one that fails has committed its dead letters.
        written: dict[str, tuple[int, int]] = {}
        try:
            try:
                lettered = self.of.letters.due(self.batch, self.own)
                failpoints.hit("before_commit")
                return self._write(frame, lettered, written)
            except Exception as error:
                if not self.of.reader.skips(error):
                    return self._without_failing(frame, error, written)
            rest = self._without_unreadable(frame)
            failpoints.hit("mid_loss", 1)
            try:
                # The failed attempt may have committed dead letters: ask again what is due.
                return self._write(rest, self.of.letters.due(self.batch, self.own), written)
            except Exception as error:
                return self._without_failing(rest, error, written)
        except LettersStoppedError as stopped:
            raise self.stopped(stopped.chain, stopped.stop) from stopped

    def _without_failing(
        self, frame: Any, error: Exception, written: dict[str, tuple[int, int]]
    ) -> BatchDone:
        """With `on_error: dead_letter`, write the micro-batch without the records for which an
        expression fails. Otherwise raise RunError, which names one, or the error itself. A check on
        rows of other sinks stops none: those sinks have their own `on_error`."""
        of, left_out, count = self.of, NOTHING_LEFT_OUT, 0
        if of.own_letters is None:
            self._refuse_failing(frame, error)
        letters = of.own_letters if self.own is not None else None
        for _ in range(SEARCHES_MAX):
            # Those of an attempt that was killed after its dead letters stay left out: what an
            # aggregate fails for depends on the other records of the micro-batch.
            there = partial(letters.there, frame) if letters else tuple
            found = of.reader.left_out(frame, self.batch, error, left_out.records, there)
            if found is None:
                break
            left_out = found
            if letters and found.records:
                # Dead letters before rows, as in `_write`.
                count += letters.write(of.reader.letters_of(frame, found.records), self.batch_id)
                failpoints.hit("mid_commit", 1)
            try:
                due = of.letters.due(self.batch, self.own)
                done = self._write(frame, due, written, found)
            except Exception as another:
                error = another
            else:
                return _with_letters(done, of.plan.source.name, count)
        self._refuse_failing(frame, error)
        raise error

    def _refuse_failing(self, frame: Any, error: Exception) -> None:
        """Raise RunError if a value of a record is the cause."""
        told = self.of.reader.failed_record(frame, self.batch, error)
        if told is not None:
            raise RunError(f"sink `{self.of.plan.name}`: {told}") from error

    def _without_unreadable(self, frame: Any) -> Any:
        log.warning("sink %s skips a record batch that cannot be read", self.of.plan.name)
        opened = self.of.opened
        try:
            return self.of.reader.without_unreadable(frame, self.batch, opened.record_losses)
        except StoppedError as stopped:
            raise self.stopped(opened.chain, stopped.stop) from stopped

    def _write(
        self,
        frame: Any,
        lettered: Collection[Source],
        written: dict[str, tuple[int, int]],
        left_out: LeftOut = NOTHING_LEFT_OUT,
    ) -> BatchDone:
        """`lettered`: the sources whose dead letters may be due. `written`: by source, updated with
        the dead letters of this attempt."""
        of, own = self.of, self.own
        if own is None and not lettered:
            of.reader.pass_over(frame)
            return self._done()
        checked: Mapping[str, Checked] = {}
        made: TargetWritten | None = None
        copies, skipped, parts = 0, 0, dict[str, float]()
        rows = of.reader.read(frame, self.batch, own, lettered, left_out)
        try:
            # Everything that can refuse the batch comes before its first commit.
            if own is not None:
                for source in of.plan.failing:
                    rows.refuse_bad(source)
                checked = self._judged(rows, parts)
            # Dead letters before rows: a crash between the two must not lose a record.
            if lettered:
                begun_s = time.monotonic()
                new = of.letters.write(
                    lettered, self.batch_id, self.batch, rows.letters, rows.bad, own
                )
                _add(written, new)
                parts["letters"] = time.monotonic() - begun_s
            if own is not None:
                out, span = rows.target_rows()
                begun_s = time.monotonic()
                made = self._commit(out, own, checked, span, left_out)
                parts["rows"] = time.monotonic() - begun_s
                copies = span.rows - made.rows if span else 0
                skipped = rows.skipped()
                failpoints.hit("mid_commit", 2)
        finally:
            rows.free()
        return replace(
            self._done(),
            records=self._records(made),
            rows=made.rows if made else 0,
            dead_letters=sum(letters for _, letters in written.values()),
            judged=written,
            already_there=own is None,
            checked=checked,
            copies=copies,
            skipped=skipped,
            version=made.version if made else None,
            held=made.held if made else {},
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
        self,
        out: Any,
        own: Commit,
        checked: Mapping[str, Checked],
        span: Span | None,
        left_out: LeftOut,
    ) -> TargetWritten:
        opened = self.of.opened
        if failpoints.due("mid_write"):
            opened.half_write(out)
            failpoints.die()
        said = self.of.letters.said()
        if checked:
            said["checks"] = {name: each.to_json() for name, each in checked.items()}
        if left_out.records:
            said[LEFT_OUT] = left_out.to_json()
        try:
            return opened.commit(out, own, self.batch_id, said, span)
        except StoppedError as stopped:
            raise self.stopped(opened.chain, stopped.stop) from stopped

    def _records(self, made: TargetWritten | None) -> int:
        """Positions in a table are no numbers of records: its rows are counted as written."""
        if made is None:
            return 0
        local = self.of.plan.source.local
        return made.rows if local is not None and local.stream else _records(self.batch)

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


def _add(written: dict[str, tuple[int, int]], new: Written) -> None:
    for source, (records, count) in new.items():
        before = written.get(source, (0, 0))
        written[source] = before[0] + records, before[1] + count


def _with_letters(done: BatchDone, source: str, count: int) -> BatchDone:
    """A report with the dead letters of the sink's own records. They count for the threshold of the
    source, whichever sink has passed the batch first."""
    records, others = done.judged.get(source, (0, 0))
    judged = {**done.judged, source: (records or done.records, others + count)}
    return replace(done, dead_letters=done.dead_letters + count, judged=judged)


def _starts(batch: Batch) -> ByPartition:
    return {p: batch.starts[p] for p in batch.end.ends if p in batch.starts}


def _records(batch: Batch) -> int:
    """The number of offsets; in compacted or transactional topics more than records."""
    return sum(end - batch.starts.get(p, 0) for p, end in batch.end.ends.items())
