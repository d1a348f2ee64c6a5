"""The open tables of a family: each is opened once a run, with its first rows.

A table whose log asks for nothing that Spark does while it writes is opened without Spark and gets
direct appends (`direct_append`); any other is opened and written as the table of a sink of its own.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from josefine_spark.base.topic_offsets import TopicIds
from pipelines.base.quoting import delta_table
from pipelines.exactly_once.family_chain import why_not_continued
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import begins
from pipelines.model.maintenance import checkpoint_settings
from pipelines.model.pipeline import Sink
from pipelines.model.schema_evolution import NO_STEPS, other_rows
from pipelines.model.table_family import TableFamily
from pipelines.model.table_fit import fitting
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.delta import DeltaTarget, OpenDelta
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.direct_table import (
    CameBetweenError,
    DirectTable,
    LocalFiles,
    NotDirectError,
)
from pipelines.sinks.family.registry import FamilyChain
from pipelines.sinks.target import TargetRun
from pipelines.transforms.dataframes import types
from pipelines.transforms.shared_batches import in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOOKS_MAX = 5
"""At a table that others write while it is opened."""


@dataclass(slots=True)
class FamilyTable:
    """One table that is open for commits. Mutable: its place in the run. `direct`: it gets files;
    otherwise `by_spark`: it gets rows."""

    chain: DeltaChain
    direct: DirectTable | None = None
    by_spark: tuple[DeltaTarget, OpenDelta] | None = None


class FamilyTables:
    """The tables of one sink. Mutable: the open ones, and the sessions of their writers."""

    def __init__(
        self,
        sink: Sink,
        of: TableFamily,
        run: TargetRun,
        chain: FamilyChain,
        empty: DataFrame,
        *,
        is_direct: bool,
    ) -> None:
        """`chain`: the registry's; `empty`: a frame with the columns of the tables; `is_direct`:
        whether tables of plain rules get direct appends."""
        self._sink, self._of, self._run, self._chain = sink, of, run, chain
        self._empty = empty
        self._fields = empty.schema.jsonValue()["fields"]
        self._open: dict[str, FamilyTable] = {}
        self._sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()
        self._is_direct = is_direct

    def open(self, name: str, topic_ids: TopicIds) -> FamilyTable:
        """Open a table, to create it if it is new. Raises RunError, StoppedError and Spark's
        errors. `topic_ids`: of the batch, because a sink without a commit knows none."""
        found = self._open.get(name)
        if found is None:
            found = self._opened(name, topic_ids)
            self._open[name] = found
        return found

    def open_by_spark(self, name: str, topic_ids: TopicIds) -> FamilyTable:
        """Open a table again, whose log came to ask for what Spark alone does."""
        self._open[name] = self._by_spark(name, topic_ids)
        return self._open[name]

    def lend(self) -> SparkSession:
        """A session of one writer: a commit changes settings of its session meanwhile."""
        try:
            return self._sessions.get_nowait()
        except queue.Empty:
            return self._run.session().newSession()

    def give_back(self, session: SparkSession) -> None:
        """The writer needs its session no more."""
        self._sessions.put(session)

    def _opened(self, name: str, topic_ids: TopicIds) -> FamilyTable:
        if self._is_direct:
            for _ in range(LOOKS_MAX):
                try:
                    return self._directly(name, topic_ids)
                except CameBetweenError:
                    continue
                except NotDirectError:
                    break
        return self._by_spark(name, topic_ids)

    def _directly(self, name: str, topic_ids: TopicIds) -> FamilyTable:
        """Raises NotDirectError for a table that Spark has to open, also one that does not fit."""
        path, run = self._of.path_of(name), self._run
        chain = DeltaChain(run.session(), path, self._chain.link, run.on_retry, files=LocalFiles())
        tip = self._tip(name, chain, topic_ids)
        table = DirectTable(path, self._fields, dict(checkpoint_settings(run.every_ms)))
        rules = table.check(chain.version)
        if rules is not None:
            said = tip.said if tip else {}
            if other_rows(said, self._sink.mode.value, self._sink.keys):
                raise NotDirectError("its rows are of another mode")
            found = fitting(
                rules.columns,
                types(self._empty),
                said,
                self._sink.evolution,
                merges=False,
                table=delta_table(path),
                has=lambda name, value: False,
            )
            if isinstance(found, str) or found.steps != NO_STEPS or found.removed:
                raise NotDirectError("its columns change")
        chain.query_id = self._chain.query_id
        return FamilyTable(chain=chain, direct=table)

    def _by_spark(self, name: str, topic_ids: TopicIds) -> FamilyTable:
        """The checks are those of a start. A table that fails one is held; nothing is undone."""
        session = self.lend()
        try:
            sink = replace(self._sink, path=self._of.path_of(name), type="delta", family=None)
            run = replace(self._run, session=lambda: session, link=self._chain.link)
            target = DeltaTarget(sink)
            self._refuse_deleted(name, DeltaTarget(sink).open(run).chain)
            empty = in_session(self._empty, session)
            opened = target.prepare(run, empty, ())
            tip = self._tip(name, opened.chain, topic_ids)
            opened.fit(types(empty), tip.said if tip else {})
            opened.change()
        finally:
            self.give_back(session)
        opened.chain.query_id = self._chain.query_id
        return FamilyTable(chain=opened.chain, by_spark=(target, opened))

    def _refuse_deleted(self, name: str, chain: DeltaChain) -> None:
        if self._chain.family.tables.get(name, 0) and not chain.is_there():
            raise StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail="it was deleted"))

    def _tip(self, name: str, chain: DeltaChain, topic_ids: TopicIds) -> Tip | None:
        """The last commit of a table that can be continued. Raises StoppedError for another."""
        self._refuse_deleted(name, chain)
        tip = chain.load()
        if tip is not None and not isinstance(tip, Tip):
            raise StoppedError(Stop(verdict=Verdict.TABLE_UNREADABLE, detail=str(tip)))
        if tip is None:
            # Also a table that the registry has: it was held before its first commit.
            found = begins(chain.link.name, chain.others(), topic_ids, renames={}, new_chains=())
            if isinstance(found, Stop):
                raise StoppedError(found)
        stop = why_not_continued(tip, self._chain.family.tables.get(name, 0))
        if stop is not None:
            raise StoppedError(stop)
        return tip
