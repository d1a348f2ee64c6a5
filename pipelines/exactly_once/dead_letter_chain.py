"""The dead-letter chain of one source during one run, shared by all sinks of the source.

A record may be missing from a sink's table only when its dead letter is committed already. So the
first sink whose batch goes beyond the chain advances it. A sink that reads offsets which the chain
passed before this run checks that all its dead letters are there: the file may have changed since.

A batch without a bad record advances the chain in memory only. The sink's commit, which follows,
records that the batch was checked, and the end offsets of the dead-letter table at that time. So
the next start takes the chain's position from both (`stands_behind`), and detects dead letters that
were deleted since (`checkpoint_start.dead_letters_gone`).

`letters_due` decides and is pure. A sink holds `lock` from this decision until its dead letters are
committed: two sinks that decide on the same offsets would write the dead letters twice.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, nested
from pipelines.exactly_once.checkpoint_start import LETTERS
from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide_by_offset,
)

Passed = Mapping[TopicPartition, int]
"""Partition → the offset from which this run, with the current file, has advanced the chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersDue:
    """The dead letters of a batch that are to be written. `commit`: advances the chain.
    `look_below`: below these offsets the table may lack dead letters; the table has to be read."""

    commit: Commit | None = None
    look_below: ByPartition | None = None

    @property
    def records(self) -> int:
        """The number of offsets by which the commit advances the chain."""
        if self.commit is None:
            return 0
        start = self.commit.start
        return sum(end - start.get(p, end) for p, end in self.commit.end.ends.items())


NOTHING_DUE = LettersDue()


def letters_due(
    batch: Batch,
    tip: Tip | None,
    passed: Passed,
    *,
    known: Container[TopicPartition],
    writes_rows: bool,
    leads: bool,
) -> LettersDue | Stop:
    """Decide which dead letters of a batch to write.

    `known`: the partitions of which the sink's table has an offset. `writes_rows`: whether the
    table lacks the batch; otherwise only the chain may lack it. `leads`: the sink leads the chain,
    so the chain may have no gap in the `known` partitions. In the others it starts with this batch:
    a run that died between its dead letters and its rows leaves dead letters of a partition that
    the sink's table does not know, and after a lost checkpoint the next run may start it later.
    A sink that does not lead may be ahead of the chain, because earlier versions advanced it with
    the first sink alone. It leaves the dead letters in the gap to that sink."""
    if leads:
        tip = _begun(tip, batch, known)
    decision = decide_by_offset(batch, tip)
    if isinstance(decision, Stop):
        is_left = decision.verdict is Verdict.GAP and not leads
        return NOTHING_DUE if is_left else decision
    commit = None if isinstance(decision, Skip) else decision
    if not writes_rows or _all_passed(batch, tip, passed):
        return LettersDue(commit=commit)
    return LettersDue(commit=commit, look_below=commit.skip_below if commit else batch.end.ends)


def _begun(tip: Tip | None, batch: Batch, known: Container[TopicPartition]) -> Tip | None:
    """The chain without the partitions that its sink starts with this batch, after the chain's
    end."""
    if tip is None:
        return None
    ends = {
        p: end for p, end in tip.reached.ends.items() if p in known or batch.starts.get(p, 0) <= end
    }
    return replace(tip, reached=replace(tip.reached, ends=ends))


def _all_passed(batch: Batch, tip: Tip | None, passed: Passed) -> bool:
    """Whether this run wrote all of the batch that the chain has already."""
    ends = tip.reached.ends if tip else {}
    for partition, end in batch.end.ends.items():
        start = batch.starts.get(partition, 0)
        if start < min(end, ends.get(partition, 0)) and start < passed.get(partition, end):
            return False
    return True


class Chain(Protocol):
    """A chain that can be moved: `DeltaChain`, or a model of it."""

    tip: Tip | None

    def follow(self, tip: Tip | None) -> None: ...


SomeChain = TypeVar("SomeChain", bound=Chain)


def raised(chain: Tip | None, sink: Tip, where: str | None) -> Tip | None:
    """The position of a dead-letter chain: that of its table, `chain`, raised to a sink's last
    commit if that names the same table, `where`."""
    if LETTERS not in sink.said or sink.said.get("dead_letters") != where:
        return chain
    if chain is None:
        return Tip(reached=sink.reached, txn_version=0)
    mine, theirs = chain.reached, sink.reached
    other = mine.recreated(theirs.topic_ids)
    ends = dict(mine.ends)
    for partition, end in theirs.ends.items():
        if partition[0] not in other:
            ends[partition] = max(end, ends.get(partition, 0))
    ids = {**theirs.topic_ids, **mine.topic_ids}
    return replace(chain, reached=TopicOffsets(ends=ends, topic_ids=ids))


def trusted(chain: Tip | None, sink: Tip | None, topic_ids: Mapping[str, str]) -> Tip | None:
    """The position at which a dead-letter chain continues after `--trust` settled its sink at
    `sink`: never before the sink. `topic_ids`: the topics' current ids."""
    if chain is None or sink is None:
        return chain
    settled, reached = sink.reached, chain.reached
    gone = reached.recreated(settled.topic_ids) | reached.recreated(topic_ids)
    reached = reached.without(gone)
    # Never back: dead letters that are there would be written once more.
    ends = {p: max(end, settled.ends.get(p, 0)) for p, end in reached.ends.items()}
    return replace(chain, reached=replace(reached, ends=ends))


class Lettering(Generic[SomeChain]):
    """A dead-letter chain and its advance in this run. Mutable; shared by the sinks' threads."""

    def __init__(self, chain: SomeChain, where: str | None) -> None:
        """`where`: the dead-letter table as the file names it."""
        self.chain = chain
        self._where = where
        self.lock = threading.Lock()
        self._passed: dict[TopicPartition, int] = {}
        # What is durable, unlike the chain's position, which batches without dead letters move in
        # memory.
        self._in_table: ByPartition = {}

    def begins(self, written: Tip | None, follows: Tip | None) -> None:
        """Before any batch: the table's last commit, and the position to continue from."""
        self._in_table = written.reached.ends if written else {}
        self.chain.follow(follows)

    def stands_behind(self, sink: Tip | None, others: Collection[str] = ()) -> None:
        """Raise the chain to a sink's last commit, or to one that it makes at its start. `others`:
        the topics of the sources that its source is joined with."""
        with self.lock:
            if sink is not None:
                own = replace(sink, reached=sink.reached.without(others))
                self.chain.follow(raised(self.chain.tip, own, self._where))

    @property
    def in_table(self) -> ByPartition:
        """The end offsets of the table's last commit."""
        return self._in_table

    def due(
        self, batch: Batch, known: Container[TopicPartition], *, writes_rows: bool, leads: bool
    ) -> LettersDue | Stop:
        """See `letters_due`. Without the lock, only the answer that nothing is due is certain."""
        return letters_due(
            batch,
            self.chain.tip,
            self._passed,
            known=known,
            writes_rows=writes_rows,
            leads=leads,
        )

    def passes(self, commit: Commit) -> None:
        """Advance the chain in memory for a batch without dead letters. Under the lock."""
        # The version stays: no commit was made, so the next one still has it to take.
        self.chain.follow(Tip(reached=commit.end, txn_version=commit.txn_version - 1))
        note_passed(self._passed, commit)

    def wrote(self, commit: Commit) -> None:
        """Note a commit that the chain has made. Under the lock."""
        self._in_table = commit.end.ends
        note_passed(self._passed, commit)


def said_by(letterings: Iterable[Lettering[SomeChain]]) -> dict[str, Any]:
    """The end offsets of the dead-letter tables for a sink's commit; {} without such tables."""
    tables = [each.in_table for each in letterings]
    ends = {p: end for each in tables for p, end in each.items()}
    return {LETTERS: nested(ends)} if tables else {}


def note_passed(passed: dict[TopicPartition, int], commit: Commit) -> None:
    """Note the start of the range that this run has passed, in each partition of its commit."""
    for partition, end in commit.end.ends.items():
        # The first range counts: later ones of the same run continue it.
        passed.setdefault(partition, commit.start.get(partition, end))
