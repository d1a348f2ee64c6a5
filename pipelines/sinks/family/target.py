"""The target of a table family: one Delta table for each topic or each value of a column.

A batch is read, decoded and cached once, and committed to the tables by chains of their own
(`batch`); the registry's commit follows. A table that fails is held, and the others continue
(`family_chain`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import RunError
from pipelines.base.finding import Finding
from pipelines.base.quoting import quoted
from pipelines.exactly_once.family_chain import due_names, with_held
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.schema_evolution import other_rows
from pipelines.model.table_family import NAME_RULE, TableFamily, name_of, why_no_place
from pipelines.sinks.defaults import AppendOnly, OpenDefaults
from pipelines.sinks.delta import DeltaTarget
from pipelines.sinks.direct_rows import why_not_direct
from pipelines.sinks.family.batch import BatchWrite
from pipelines.sinks.family.registry import FamilyChain, open_registry
from pipelines.sinks.family.rows import NAME, PLACE, cached, counted
from pipelines.sinks.family.tables import FamilyTables
from pipelines.sinks.staging import Staging
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written
from pipelines.spark.errors import refusal
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.analysis_errors import refuse_twice
from pipelines.transforms.checks import RECORD, record_columns
from pipelines.transforms.dataframes import stored
from pipelines.transforms.deduplicate import Span

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OpenFamily(OpenDefaults):
    """A family that is open for commits. Mutable: the registry's chain and the open tables."""

    def __init__(
        self,
        sink: Sink,
        of: TableFamily,
        run: TargetRun,
        chain: FamilyChain,
        tables: FamilyTables | None,
    ) -> None:
        """`tables`: None if nothing is written."""
        self.chain = chain
        self._sink, self._of, self.run = sink, of, run
        self._tables = tables
        self._staging = staging_of(of)

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
        assert self._tables is not None
        kept = cached(rows)
        try:
            counts = self._counts(kept)
            write = BatchWrite(self._tables, self.chain, kept, commit, batch_id, more)
            written, failed = write.write(self._due(commit, counts), counts, self._staging)
        finally:
            kept.unpersist()
        # The registry comes last: after a crash before it the batch is planned again.
        chain, before = self.chain, self.chain.family
        numbers = {name: number for name, (number, _) in written.items()}
        named = name_of if self._of.by_topic else None
        chain.family = before.after(commit, numbers, failed, named)
        try:
            entry = chain.record(rows.sparkSession, commit, batch_id, more)
        except BaseException:
            chain.family = before
            raise
        done = sum(count for _, count in written.values())
        return Written(rows=done, version=entry.version, held=dict(chain.family.held))

    def _counts(self, rows: DataFrame) -> dict[str, int]:
        """Table → the number of its rows. Raises RunError for a name that is not valid and
        for too many tables."""
        counts = counted(rows, self._of.tables_max)
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

    def half_write(self, rows: DataFrame) -> None:
        """Write files of the first table that no log entry names."""
        name = rows.select(NAME).first()
        if name is not None:
            at = self._of.path_of(name[0])
            some = stored(rows.where(rows[NAME] == name[0]))
            some.write.format("parquet").mode("append").save(at)


def staging_of(of: TableFamily) -> Staging:
    """The staging folder of a family, below its registry's."""
    return Staging(Path(of.registry, "_staging"))


class ManyTables(AppendOnly):
    """A family of Delta tables."""

    writes = "many tables"
    gets_replay = False
    has_columns = True

    def __init__(self, sink: Sink) -> None:
        assert sink.family is not None
        self.sink = sink
        self._of: TableFamily = sink.family

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
        sink, of = self.sink, self._of
        staging_of(of).clean(time.time())
        is_direct = not why_not_direct(sink, of.path_of("a"), run.session())
        chain = open_registry(of, run, is_direct=is_direct)
        tables = FamilyTables(sink, of, run, chain, stored, is_direct=is_direct)
        return OpenFamily(sink, of, run, chain, tables)

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
