"""The dead letters of one sink's sources: what its batches make of them, one chain per source.

A join's batch has offsets of several sources; each chain is moved by the part of its own topics,
one commit after the other, all of them before the sink's. A crash in between leaves letters of
records that the sink has not read yet: the next batch finds them there (`lettering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_spark.topic_offsets import ByPartition
from pipelines import failpoints, frames
from pipelines.batch_rows import RowsIn
from pipelines.chain import Batch, Commit, Stop
from pipelines.delta_chain import StoppedError
from pipelines.lettering import NOTHING_DUE, Lettering, LettersDue, said_by
from pipelines.model import Source
from pipelines.readings import reading_of
from pipelines.sink_plan import PipelinePlan, SinkPlan
from pipelines.stateful import held_and_counted
from pipelines.targets.target import LetterChain, SinkChain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Written = Mapping[str, tuple[int, int]]
"""Source → (records that its chain passed, letters among them): those of a batch, or of what the
chain had passed those that its table lacked, for the file may have changed in between."""

FILE_LETTERS = 10_000
"""Fewer are not worth a task and a file."""


class LettersStoppedError(Exception):
    """A batch does not fit the chain of its dead letters, for a person to say what is right."""

    def __init__(self, chain: LetterChain, stop: Stop) -> None:
        super().__init__(stop.verdict.name)
        self.chain, self.stop = chain, stop


class SinkLetters:
    """Of one sink during one run. Its batches' thread calls it; the letterings are shared."""

    def __init__(
        self,
        spark: SparkSession,
        plan: PipelinePlan,
        sink: SinkPlan,
        chain: SinkChain,
        letterings: Mapping[str, Lettering[LetterChain]],
        topics_of: Callable[[Source], Collection[str]],
    ) -> None:
        """`chain`: the sink's own. `letterings`: of its sources with dead letters, by name.
        `topics_of` tells a batch's parts."""
        self._spark, self._sources, self._sink = spark, plan.sources, sink
        self._chain = chain
        self._letterings = letterings
        self._topics_of = topics_of
        self._leads = {source.name for source in sink.leads}

    def said(self) -> dict[str, Any]:
        """What the sink's commit says of them."""
        return said_by(self._letterings.values())

    def of_query(self, query_id: str) -> None:
        """Which query writes them from now on."""
        for lettering in self._letterings.values():
            lettering.chain.query_id = query_id

    def due(self, batch: Batch, own: Commit | None) -> list[Source]:
        """The sources of which some may be due. Nothing stays nothing; the rest is only for sure
        under the lettering's lock. Raises LettersStoppedError."""
        sources = [self._sources[name].source for name in self._letterings]
        dues = [self._due(one, self._part(one, batch), own) for one in sources]
        return [one for one, due in zip(sources, dues, strict=True) if due != NOTHING_DUE]

    def looks(self, due: Collection[Source], own: Commit | None) -> list[Source]:
        """The sources whose records a batch behind a state has to read again for them: where some
        are due, and where checks that this sink answers for look at each batch."""
        found = {one.name for one in due}
        if own is not None:
            found |= {name for name in self._leads if self._sources[name].sending}
        return [self._sources[name].source for name in self._letterings if name in found]

    def write(
        self,
        due: Collection[Source],
        batch_id: int,
        batch: Batch,
        rows_in: RowsIn,
        made: Mapping[str, DataFrame],
        own: Commit | None,
    ) -> Written:
        """`made`: the nodes' rows as `frames.nodes_for` has them. Raises LettersStoppedError."""
        return {
            one.name: self._write(one, batch_id, self._part(one, batch), rows_in, made, own)
            for one in due
        }

    def _write(
        self,
        source: Source,
        batch_id: int,
        part: Batch,
        rows_in: RowsIn,
        made: Mapping[str, DataFrame],
        own: Commit | None,
    ) -> tuple[int, int]:
        plan, lettering = self._sources[source.name], self._letterings[source.name]
        parsed, reading = rows_in.parsed[source.name], reading_of(source)
        letters = partial(frames.dead_letters, plan, parsed, reading, made)
        none_bad = rows_in.bad == 0 and not plan.sending
        with lettering.lock:
            due = self._due(source, part, own)
            bad, commit, count = None, due.commit, 0
            if due.look_below is not None and not none_bad:
                bad, commit = _missing_letters(self._spark, lettering.chain, source, letters, due)
            if commit is None:
                return 0, 0
            if none_bad:
                lettering.passes(commit)
            else:
                bad = letters(commit.skip_below) if bad is None else bad
                count = self._commit(lettering, bad, commit, batch_id)
        failpoints.hit("mid_commit", 1)
        return due.records, count

    def _commit(
        self, lettering: Lettering[LetterChain], bad: DataFrame, commit: Commit, batch_id: int
    ) -> int:
        """How many there are; without any there is no commit."""
        chain = lettering.chain
        bad, count = held_and_counted(bad, "true")
        try:
            if count == 0:
                lettering.passes(commit)
                return 0
            # They are in memory: few need few files, not one of each partition of the topic.
            few = bad.coalesce(-(-count // FILE_LETTERS))
            chain.append(few, commit, batch_id)
            lettering.wrote(commit)
        except StoppedError as stopped:
            raise LettersStoppedError(chain, stopped.stop) from stopped
        finally:
            bad.unpersist()
        return count

    def _due(self, source: Source, part: Batch, own: Commit | None) -> LettersDue:
        lettering, leads = self._letterings[source.name], source.name in self._leads
        tip = self._chain.tip
        known = tip.reached.ends if tip else {}
        due = lettering.due(part, known, writes_rows=own is not None, leads=leads)
        if isinstance(due, Stop):
            raise LettersStoppedError(lettering.chain, due)
        return due

    def _part(self, source: Source, batch: Batch) -> Batch:
        """What a batch has of a source."""
        alone = len(self._sink.sources) == 1
        return batch if alone else batch.of_topics(self._topics_of(source))


def _missing_letters(
    spark: SparkSession,
    chain: LetterChain,
    source: Source,
    letters: Callable[[ByPartition, DataFrame], DataFrame],
    due: LettersDue,
) -> tuple[DataFrame, Commit | None]:
    """Of a batch of which `chain` has passed all or some offsets: the letters that its table has
    not, and the commit for them. None where there are none, and none is due."""
    tip, commit = chain.tip, due.commit
    assert tip is not None
    assert due.look_below is not None
    table = spark.read.format("delta").load(chain.path)
    there = table.where(table["source"] == source.name).select("topic", "partition", "offset")
    missing = letters(due.look_below, there)
    if commit is None and not missing.isEmpty():
        ends = tip.reached
        commit = Commit(start=ends.ends, end=ends, txn_version=tip.txn_version + 1)
    return missing, commit
