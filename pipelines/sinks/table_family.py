"""The target of a table family: one Delta table for each topic or each value of a column.

A batch is read, decoded and cached once. Its rows are written to the tables in parallel, each by
the Delta target of one table with a chain of its own; the registry's commit follows. A table that
fails is held, and the others continue (`family_chain`).
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import TopicIds
from pipelines.base import failpoints
from pipelines.base.errors import PipelineError, RunError
from pipelines.base.finding import Finding
from pipelines.base.quoting import quoted
from pipelines.exactly_once.data_loss import LostRange
from pipelines.exactly_once.family_chain import (
    NUMBER,
    decide_for_table,
    due_names,
    why_not_continued,
    with_held,
)
from pipelines.exactly_once.offset_chain import Commit, Skip, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import ChainName, begins
from pipelines.exactly_once.verdict_messages import clear_reason
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.retry_policy import retry_of
from pipelines.model.schema_evolution import other_rows
from pipelines.model.table_family import NAME_RULE, TableFamily, name_of, why_no_place
from pipelines.sinks import loss_table
from pipelines.sinks.commits import StoppedError
from pipelines.sinks.delta import DeltaTarget, OpenDelta
from pipelines.sinks.delta_maintenance import Keeper
from pipelines.sinks.family_registry import FamilyChain, open_registry
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written
from pipelines.spark.errors import refusal
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.analysis_errors import refuse_twice
from pipelines.transforms.cached_rows import is_one_process
from pipelines.transforms.checks import RECORD, record_columns
from pipelines.transforms.dataframes import stored, types
from pipelines.transforms.deduplicate import Span
from pipelines.transforms.ordering import PRIVATE
from pipelines.transforms.shared_batches import in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = f"{PRIVATE}table"
PLACE = {word: f"{PRIVATE}{word}" for word in RECORD}
"""Columns of a batch's rows that no table gets: the table's name and the record's place."""
WRITERS_MAX = 8
"""Tables written at once. Each write is a Spark job and a Delta commit, mostly of the driver."""
REASON_CHARACTERS_MAX = 300
"""Of the reason of a held table: the registry's commits repeat it."""


@dataclass(slots=True)
class FamilyTable:
    """One table that is open for commits. Mutable: its place in the run."""

    target: DeltaTarget
    opened: OpenDelta


class OpenFamily:
    """A family that is open for commits. Mutable: the open tables and the sessions of writers."""

    def __init__(
        self,
        sink: Sink,
        of: TableFamily,
        run: TargetRun,
        chain: FamilyChain,
        empty: DataFrame | None,
    ) -> None:
        """`empty`: a frame with the columns of the tables; None if nothing is written."""
        self.chain = chain
        self._sink, self._of, self._run = sink, of, run
        self._empty = empty
        self._tables: dict[str, FamilyTable] = {}
        self._sessions: queue.SimpleQueue[SparkSession] = queue.SimpleQueue()

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Each table is compared when its first rows come: one that does not fit is held."""
        wrong = other_rows(said, self._sink.mode.value, self._sink.keys)
        if wrong:
            raise RunError(f"sink `{self._sink.name}`: {self._sink.told} {wrong}")
        return True

    def change(self) -> None:
        """Nothing: see `fit`."""

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Commit the rows to their tables and then the offsets to the registry."""
        assert span is None, "a family leaves no copies out"
        kept = _cached(rows)
        try:
            counts = self._counts(kept)
            due = self._due(commit, counts)
            write = _BatchWrite(self, kept, commit, batch_id, more)
            written, failed = write.tables(due)
        finally:
            kept.unpersist()
        # The registry comes last: after a crash before it the batch is planned again.
        chain, before = self.chain, self.chain.family
        numbers = {name: number for name, (number, _) in written.items()}
        named = name_of if self._of.by_topic else None
        chain.family = before.after(commit, numbers, failed, named)
        try:
            nothing = chain.nothing(rows.sparkSession)
            entry = chain.append(nothing, commit, batch_id, more)
        except BaseException:
            chain.family = before
            raise
        done = sum(count for _, count in written.values())
        return Written(rows=done, version=entry.version, held=dict(chain.family.held))

    def _counts(self, rows: DataFrame) -> dict[str, int]:
        """Table → the number of its rows. Raises RunError for a name that is not valid and
        for too many tables."""
        found = rows.groupBy(NAME).count().limit(self._of.tables_max + 1).collect()
        counts = {row[0]: row[1] for row in found}
        # The check of the names is on the source's topic; a transform may have replaced it.
        wrong = sorted(name or "null" for name in counts if name is None or name_of(name) != name)
        if wrong:
            raise RunError(
                f"sink `{self._sink.name}`: `{wrong[0]}` is not a valid name of a table; nothing "
                f"of the batch was written: expected {NAME_RULE}. Select the record's own `topic` "
                "in the SQL"
            )
        known = {*self.chain.family.tables, *counts}
        if len(known) > self._of.tables_max:
            new = sorted(counts.keys() - self.chain.family.tables.keys())
            raise RunError(
                f"sink `{self._sink.name}`: {self._sink.told} would have more than "
                f"{self._of.tables_max} tables (`max_tables`); the batch has new ones such as "
                f"{', '.join(f'`{name}`' for name in new[:3])}; nothing of it was written: raise "
                "`max_tables`, or choose another column"
            )
        return counts

    def _due(self, commit: Commit, counts: Mapping[str, int]) -> dict[str, list[str]]:
        """Table → its topics, of the tables that get a commit; none for a column's tables."""
        if self._of.by_topic:
            due = due_names(commit, name_of)
            return {**{name: [] for name in counts}, **due}
        return {name: [] for name in sorted(counts)}

    def table(self, name: str, session: SparkSession, topic_ids: TopicIds) -> FamilyTable:
        """Open a table; create it if it is new. Raises RunError, StoppedError and Spark's errors.
        `topic_ids`: of the batch, because a sink without a commit knows none.

        The checks are those of a start: a table is opened once a run, with its first rows."""
        found = self._tables.get(name)
        if found is not None:
            return found
        assert self._empty is not None
        link = self.chain.link
        sink = replace(self._sink, path=self._of.path_of(name), type="delta", family=None)
        run = replace(self._run, session=lambda: session, link=link)
        target = DeltaTarget(sink)
        expected = self.chain.family.tables.get(name, 0)
        if expected and not DeltaTarget(sink).open(run).chain.is_there():
            raise StoppedError(Stop(verdict=Verdict.TABLE_BEHIND, detail="it was deleted"))
        # A table that fails any of the following is held with the reason; nothing is undone.
        empty = in_session(self._empty, session)
        opened = target.prepare(run, empty, ())
        chain = opened.chain
        tip = chain.load()
        if tip is not None and not isinstance(tip, Tip):
            raise StoppedError(Stop(verdict=Verdict.TABLE_UNREADABLE, detail=str(tip)))
        if tip is None:
            # Also a table that the registry has: it was held before its first commit.
            self._refuse_others(opened, topic_ids)
        stop = why_not_continued(tip, expected)
        if stop is not None:
            raise StoppedError(stop)
        opened.fit(types(empty), tip.said if tip else {})
        opened.change()
        chain.query_id = self.chain.query_id
        self._tables[name] = FamilyTable(target, opened)
        return self._tables[name]

    def _refuse_others(self, opened: OpenDelta, topic_ids: TopicIds) -> None:
        name = opened.chain.link.name
        found = begins(name, opened.chain.others(), topic_ids, renames={}, new_chains=())
        if isinstance(found, Stop):
            raise StoppedError(found)

    def half_write(self, rows: DataFrame) -> None:
        """Write files of the first table that no log entry names."""
        name = rows.select(NAME).first()
        if name is not None:
            at = self._of.path_of(name[0])
            some = stored(rows.where(rows[NAME] == name[0]))
            some.write.format("parquet").mode("append").save(at)

    def record_losses(self, lost: Sequence[LostRange]) -> None:
        """Record them in a table next to the registry."""
        loss_table.record(self._run, lost)

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """None: the file refuses `optimize` and `vacuum` here."""
        return None

    def lend(self, rows: DataFrame) -> SparkSession:
        """A session of one writer: a commit changes settings of its session meanwhile."""
        try:
            return self._sessions.get_nowait()
        except queue.Empty:
            return rows.sparkSession.newSession()

    def give_back(self, session: SparkSession) -> None:
        """The writer needs its session no more."""
        self._sessions.put(session)


class _BatchWrite:
    """One batch on its way into the tables. Mutable, under the lock: how many are committed."""

    def __init__(
        self,
        family: OpenFamily,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
    ) -> None:
        self._family, self._rows, self._commit = family, rows, commit
        self._batch_id, self._more = batch_id, more
        self._lock = threading.Lock()
        self._committed = 0

    def tables(
        self, due: Mapping[str, Sequence[str]]
    ) -> tuple[dict[str, tuple[int, int]], dict[str, str]]:
        """({table: (transaction version, rows)}, {table that is held: why}). A failure that is not
        of one table is raised, after the running writes have ended."""
        held = self._family.chain.family.held
        names = [name for name in due if name not in held]
        with ThreadPoolExecutor(writers(), "josefine-table") as pool:
            made = {name: pool.submit(self._one, name, due[name]) for name in names}
            try:
                found = {name: each.result() for name, each in made.items()}
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        written = {name: each for name, each in found.items() if not isinstance(each, str)}
        return written, {name: each for name, each in found.items() if isinstance(each, str)}

    def _one(self, name: str, topics: Sequence[str]) -> tuple[int, int] | str:
        """Commit one table; why it is held, if it cannot be written."""
        from py4j.protocol import Py4JError, Py4JNetworkError
        from pyspark.errors import PySparkException

        session = self._family.lend(self._rows)
        try:
            done = self._write(name, topics, session)
        except StoppedError as stopped:
            if stopped.stop.verdict is Verdict.LOST_RACE:
                raise
            stop = stopped.stop
            detail = f": {stop.detail}" if stop.detail else ""
            return _short(stop.verdict.value + detail)
        except Py4JNetworkError:
            raise
        except (PipelineError, PySparkException, Py4JError, OSError) as error:
            # A failure that passes is the sink's, which then starts again.
            if retry_of(error) is not None:
                raise
            return _short(clear_reason(error))
        finally:
            self._family.give_back(session)
        with self._lock:
            self._committed += 1
            failpoints.hit("mid_tables", self._committed)
        return done

    def _write(self, name: str, topics: Sequence[str], session: SparkSession) -> tuple[int, int]:
        family, commit = self._family, self._commit
        table = family.table(name, session, commit.end.topic_ids)
        chain = table.opened.chain
        decision = decide_for_table(commit, chain.tip, topics or None)
        if isinstance(decision, Skip):
            assert chain.tip is not None
            return chain.tip.txn_version, 0
        chain.link = family.chain.link
        chain.query_id = family.chain.query_id
        mine = in_session(self._rows, session)
        rows = _above(mine.where(mine[NAME] == name), decision)
        more = {**self._more, NUMBER: decision.txn_version}
        out = table.target.as_stored(stored(rows))
        done = table.opened.commit(out, decision, self._batch_id, more, None)
        return decision.txn_version, done.rows


class ManyTables:
    """A family of Delta tables."""

    writes = "many tables"
    gets_replay = False
    has_columns = True

    def __init__(self, sink: Sink) -> None:
        assert sink.family is not None
        self.sink = sink
        self._of: TableFamily = sink.family

    def keys(self) -> tuple[str, ...]:
        """None: rows are appended."""
        return ()

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """The tables' columns, the table's name and the record's place."""
        from pyspark.sql import functions as F  # noqa: N812

        sink, names = self.sink, made.columns
        if len({name.lower() for name in names}) < len(names):
            refuse_twice(pipeline, sink, names)
        there = record_columns(names)
        missing = [word for word in RECORD if word not in there]
        if missing:
            message = why_no_place(sink.input, missing)
            raise refusal(sink.place, f"sinks.{sink.name}.path", message)
        by_lower = {name.lower(): name for name in names}
        column = there["topic"] if self._of.by_topic else by_lower.get(str(self._of.column).lower())
        if column is None:
            message = f"no column `{self._of.column}` in `{sink.input}`; it has: {', '.join(names)}"
            raise refusal(sink.place, f"sinks.{sink.name}.path", message)
        name = F.lower(made[quoted(column)].cast("string"))
        place = {PLACE[word]: made[quoted(there[word])] for word in RECORD}
        return made.withColumns({NAME: name, **place})

    def as_stored(self, made: DataFrame) -> DataFrame:
        """Unchanged: each table has types of its own."""
        return made

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenFamily:
        """Creates the registry. A table is created with its first rows."""
        return OpenFamily(self.sink, self._of, run, open_registry(self._of, run), stored)

    def open(self, run: TargetRun) -> OpenFamily:
        """Without the tables' columns: for moves of the offsets."""
        chain = FamilyChain(run.session(), self._of, run)
        return OpenFamily(self.sink, self._of, run, chain, None)

    def probe(self, connect: Connect) -> str | None:
        """None: `pipeline check` examines the folder instead."""
        return None

    def findings(self, trouble: str | None) -> list[Finding]:
        """None."""
        return []

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen | None:
        """Reads the registry's log."""
        registry = replace(self.sink, path=self._of.registry, family=None, type="delta")
        seen = DeltaTarget(registry).describe(name, open_folder)
        if seen is None or not isinstance(seen.tip, Tip):
            return seen
        return replace(seen, tip=with_held(seen.tip))

    def folders(self) -> Iterator[tuple[str, str]]:
        """The folder of the registry, next to the tables."""
        yield f"sinks.{self.sink.name}.path", self._of.registry

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """Next to the registry."""
        return TableAt(path=f"{self._of.registry}_lost")


def writers() -> int:
    """The number of tables that are written at once."""
    return max(2, min(WRITERS_MAX, 2 * (os.cpu_count() or 1)))


def _cached(rows: DataFrame) -> DataFrame:
    """The rows, each table's together: a table's job then reads its part of the cache alone."""
    spark = rows.sparkSession
    parts = spark.sparkContext.defaultParallelism
    if is_one_process(spark):
        parts = min(parts, os.cpu_count() or parts)
    return rows.repartition(parts, NAME).sortWithinPartitions(NAME).persist()


def _above(rows: DataFrame, decision: Commit) -> DataFrame:
    """The rows that the table lacks."""
    from pyspark.sql import functions as F  # noqa: N812

    for (topic, partition), offset in sorted(decision.skip_below.items()):
        at = (F.col(PLACE["topic"]) == topic) & (F.col(PLACE["partition"]) == partition)
        rows = rows.where(~(at & (F.col(PLACE["offset"]) < offset)))
    return rows


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= REASON_CHARACTERS_MAX else text[: REASON_CHARACTERS_MAX - 3] + "..."
