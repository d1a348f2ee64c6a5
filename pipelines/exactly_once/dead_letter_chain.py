"""The dead letters of one source during one run, for all its sinks: who comes first writes them.

A record may be missing from a sink's table only when its letter is there already. So whichever
sink's batch goes beyond the letters' chain moves it on, and a sink that reads what was passed
before this run looks whether its letters are all there: the file may have been another one then.

A batch that leaves no record out moves the chain in memory only: the commit of its sink, which
comes after, says that the letters were seen to, and up to where their table had commits then. So
the next start takes the chain's place from both (`stands_behind`), and finds out whether letters
have gone since (`reconcile.dead_letters_gone`).

`letters_due` decides and is pure; a sink holds `lock` from there to its commit of letters.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, nested
from pipelines.exactly_once.offset_chain import (
    Batch,
    Commit,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide_by_offset,
)
from pipelines.exactly_once.reconcile import LETTERS

Passed = Mapping[TopicPartition, int]
"""From which offset on the chain was moved by this run, up to where it is: by today's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LettersDue:
    """What of a batch's letters is to be written. `commit`: moves the chain. `look_below`: of
    records below these offsets the table may lack letters, and only it knows which."""

    commit: Commit | None = None
    look_below: ByPartition | None = None

    @property
    def records(self) -> int:
        """Offsets that the chain passes by it."""
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
    """`known`: the partitions in which the sink's table has a place. `writes_rows`: whether it
    lacks the batch; else only the chain may. `leads`: the chain starts with this sink and may have
    no gap where the sink has a place: where it has none, it begins with this batch. (A run that
    died between its letters and its rows leaves letters of a partition that the sink's table does
    not know; its checkpoint lost, the next one may begin it later.) Another sink may be ahead of a
    chain that earlier versions moved with the first sink alone: it leaves its letters to that one,
    as they did."""
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
    """The chain without the partitions that its sink begins with this batch, and behind it."""
    if tip is None:
        return None
    ends = {
        p: end for p, end in tip.reached.ends.items() if p in known or batch.starts.get(p, 0) <= end
    }
    return replace(tip, reached=replace(tip.reached, ends=ends))


def _all_passed(batch: Batch, tip: Tip | None, passed: Passed) -> bool:
    """Whether what the chain has of the batch is of this run."""
    ends = tip.reached.ends if tip else {}
    for partition, end in batch.end.ends.items():
        start = batch.starts.get(partition, 0)
        if start < min(end, ends.get(partition, 0)) and start < passed.get(partition, end):
            return False
    return True


class Chain(Protocol):
    """What moves: `DeltaChain`, or a model of it."""

    tip: Tip | None

    def follow(self, tip: Tip | None) -> None: ...


SomeChain = TypeVar("SomeChain", bound=Chain)


def raised(chain: Tip | None, sink: Tip, where: str | None) -> Tip | None:
    """Where a chain stands whose table, at `where`, says `chain`, given a sink's last commit."""
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
    """Where a chain goes on whose sink's place the user has settled, at `sink`: what holds for the
    sink does for its letters, never behind it. `topic_ids`: of today's topics."""
    if chain is None or sink is None:
        return chain
    settled, reached = sink.reached, chain.reached
    gone = reached.recreated(settled.topic_ids) | reached.recreated(topic_ids)
    reached = reached.without(gone)
    ends = {p: max(end, settled.ends.get(p, 0)) for p, end in reached.ends.items()}
    return replace(chain, reached=replace(reached, ends=ends))


class Lettering(Generic[SomeChain]):
    """The chain, and what this run made of it. Mutable; its sinks' threads share it."""

    def __init__(self, chain: SomeChain, where: str | None) -> None:
        """`where`: as the file says it."""
        self.chain = chain
        self._where = where
        self.lock = threading.Lock()
        self._passed: dict[TopicPartition, int] = {}
        self._in_table: ByPartition = {}

    def begins(self, written: Tip | None, follows: Tip | None) -> None:
        """Before any batch: what the table says, and what the chain goes on from."""
        self._in_table = written.reached.ends if written else {}
        self.chain.follow(follows)

    def stands_behind(self, sink: Tip | None, others: Collection[str] = ()) -> None:
        """A sink's last commit, or one that it makes at its start, says so. `others`: the topics of
        what its source is joined with."""
        with self.lock:
            if sink is not None:
                own = replace(sink, reached=sink.reached.without(others))
                self.chain.follow(raised(self.chain.tip, own, self._where))

    @property
    def in_table(self) -> ByPartition:
        """The ends that the table has by its last commit."""
        return self._in_table

    def due(
        self, batch: Batch, known: Container[TopicPartition], *, writes_rows: bool, leads: bool
    ) -> LettersDue | Stop:
        """See `letters_due`. Without the lock, nothing due is for sure and the rest a guess."""
        return letters_due(
            batch,
            self.chain.tip,
            self._passed,
            known=known,
            writes_rows=writes_rows,
            leads=leads,
        )

    def passes(self, commit: Commit) -> None:
        """No record of it was left out: nothing is written. Under the lock."""
        self.chain.follow(Tip(reached=commit.end, txn_version=commit.txn_version - 1))
        note_passed(self._passed, commit)

    def wrote(self, commit: Commit) -> None:
        """The chain has made it. Under the lock."""
        self._in_table = commit.end.ends
        note_passed(self._passed, commit)


def said_by(letterings: Iterable[Lettering[SomeChain]]) -> dict[str, Any]:
    """What a sink's commit says of its sources' letters; nothing without any."""
    tables = [each.in_table for each in letterings]
    ends = {p: end for each in tables for p, end in each.items()}
    return {LETTERS: nested(ends)} if tables else {}


def note_passed(passed: dict[TopicPartition, int], commit: Commit) -> None:
    """What a run remembers of a commit of its own."""
    for partition, end in commit.end.ends.items():
        passed.setdefault(partition, commit.start.get(partition, end))
