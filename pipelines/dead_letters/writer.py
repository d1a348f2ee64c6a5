"""Writer of the dead letters of one sink's sources, batch by batch, with one chain per source.

A join's batch has offsets of several sources. Each source's chain advances by the offsets of its
own topics, in one commit after the other, all of them before the sink's commit. A crash in between
leaves dead letters of records that the sink has not read yet: the next batch finds them
(`exactly_once/dead_letter_chain.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from josefine_spark.base.topic_offsets import ByPartition
from pipelines.base import failpoints
from pipelines.exactly_once.dead_letter_chain import NOTHING_DUE, Lettering, LettersDue, said_by
from pipelines.exactly_once.offset_chain import Batch, Commit, Stop
from pipelines.model.pipeline import Source
from pipelines.model.plan import PipelinePlan, SinkPlan
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.target import LetterChain, SinkChain

Written = Mapping[str, tuple[int, int]]
"""Source → (offsets by which its chain advanced, dead letters written). For offsets that the chain
had passed before: the dead letters that the table lacked, because the file may have changed."""


class Letters(Protocol):
    """Makes the dead letters of a micro-batch for one source: those at or above the offsets
    `skip_below`; with `there`, rows of the table, also those below that are not among them."""

    def __call__(self, skip_below: ByPartition, there: Any = None) -> Any: ...


class LetterStore(Protocol):
    """Reads and writes tables of dead letters."""

    def missing(self, chain: LetterChain, source: str, letters: Letters, below: ByPartition) -> Any:
        """The dead letters that the chain's table lacks; it may have some below these offsets."""

    def is_empty(self, letters: Any) -> bool: ...

    def write(self, chain: LetterChain, letters: Any, commit: Commit, batch_id: int) -> int:
        """Commit the dead letters, if there are any; return their number. Raises StoppedError."""


class LettersStoppedError(Exception):
    """A batch does not continue its dead-letter chain; a person has to decide what is right."""

    def __init__(self, chain: SinkChain, stop: Stop) -> None:
        super().__init__(stop.verdict.name)
        self.chain, self.stop = chain, stop


class SinkLetters:
    """The dead letters of one sink during one run. The query's thread calls it; the letterings are
    shared with other sinks."""

    def __init__(
        self,
        plan: PipelinePlan,
        sink: SinkPlan,
        chain: SinkChain,
        letterings: Mapping[str, Lettering[LetterChain]],
        store: LetterStore,
        topics_of: Callable[[Source], Collection[str]],
    ) -> None:
        """`chain`: the sink's own. `letterings`: source → its dead-letter chain. `topics_of`: the
        topics of a source, to split a batch."""
        self._sources, self._sink = plan.sources, sink
        self._chain = chain
        self.letterings = letterings
        self._store = store
        self._topics_of = topics_of
        self._leads = {source.name for source in sink.leads}

    def said(self) -> dict[str, Any]:
        """The metadata about the dead letters in the sink's commit."""
        return said_by(self.letterings.values())

    def of_query(self, query_id: str) -> None:
        """Set the id of the query that writes them from now on."""
        for lettering in self.letterings.values():
            lettering.chain.query_id = query_id

    def due(self, batch: Batch, own: Commit | None) -> list[Source]:
        """The sources whose dead letters may be due. A source that is not in the list has none due;
        the others are certain only under the lettering's lock. Raises LettersStoppedError."""
        sources = [self._sources[name].source for name in self.letterings]
        dues = [self._due(one, self._part(one, batch), own) for one in sources]
        return [one for one, due in zip(sources, dues, strict=True) if due != NOTHING_DUE]

    def looks(self, due: Collection[Source], own: Commit | None) -> list[Source]:
        """The sources whose records a batch of a stateful transform has to read again: those with
        dead letters due, and those whose checks this sink leads and runs on every batch."""
        found = {one.name for one in due}
        if own is not None:
            found |= {name for name in self._leads if self._sources[name].sending}
        return [self._sources[name].source for name in self.letterings if name in found]

    def write(
        self,
        due: Collection[Source],
        batch_id: int,
        batch: Batch,
        letters_of: Callable[[Source], Letters],
        bad: int | None,
        own: Commit | None,
    ) -> Written:
        """`letters_of` makes a source's dead letters. `bad`: the number of records that do not fit
        `decode`, None if they are not counted. Raises LettersStoppedError."""
        return {
            one.name: self._write(one, batch_id, self._part(one, batch), letters_of, bad, own)
            for one in due
        }

    def _write(
        self,
        source: Source,
        batch_id: int,
        part: Batch,
        letters_of: Callable[[Source], Letters],
        bad: int | None,
        own: Commit | None,
    ) -> tuple[int, int]:
        lettering = self.letterings[source.name]
        none_bad = bad == 0 and not self._sources[source.name].sending
        with lettering.lock:
            due = self._due(source, part, own)
            found, commit, count = None, due.commit, 0
            if due.look_below is not None and not none_bad:
                found, commit = self._missing(source, lettering, letters_of(source), due)
            if commit is None:
                return 0, 0
            if none_bad:
                lettering.passes(commit)
            else:
                found = letters_of(source)(commit.skip_below) if found is None else found
                count = self._commit(lettering, found, commit, batch_id)
        failpoints.hit("mid_commit", 1)
        return due.records, count

    def _missing(
        self, source: Source, lettering: Lettering[LetterChain], letters: Letters, due: LettersDue
    ) -> tuple[Any, Commit | None]:
        """For a batch that the chain has passed fully or in part: the dead letters that its table
        lacks, and their commit; no commit if there are none and none is due."""
        tip, commit = lettering.chain.tip, due.commit
        assert tip is not None
        assert due.look_below is not None
        found = self._store.missing(lettering.chain, source.name, letters, due.look_below)
        if commit is None and not self._store.is_empty(found):
            ends = tip.reached
            commit = Commit(start=ends.ends, end=ends, txn_version=tip.txn_version + 1)
        return found, commit

    def _commit(
        self, lettering: Lettering[LetterChain], found: Any, commit: Commit, batch_id: int
    ) -> int:
        """Commit the dead letters and return their number; without any there is no commit."""
        try:
            count = self._store.write(lettering.chain, found, commit, batch_id)
        except StoppedError as stopped:
            raise LettersStoppedError(lettering.chain, stopped.stop) from stopped
        if count:
            lettering.wrote(commit)
        else:
            lettering.passes(commit)
        return count

    def _due(self, source: Source, part: Batch, own: Commit | None) -> LettersDue:
        lettering, leads = self.letterings[source.name], source.name in self._leads
        tip = self._chain.tip
        known = tip.reached.ends if tip else {}
        due = lettering.due(part, known, writes_rows=own is not None, leads=leads)
        if isinstance(due, Stop):
            raise LettersStoppedError(lettering.chain, due)
        return due

    def _part(self, source: Source, batch: Batch) -> Batch:
        """The part of a batch that belongs to a source."""
        alone = len(self._sink.sources) == 1
        return batch if alone else batch.of_topics(self._topics_of(source))
