"""The registry of a table family: a small Delta table with the sink's chain and no other rows.

Each of its commits lists the family's tables with their transaction versions, and the tables that
are held, so a start needs nothing but its newest commit. A folder listing cannot distinguish a
deleted table from one that never was.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.family_chain import Family, as_they_are, family_said, with_held
from pipelines.exactly_once.offset_chain import Commit, HandedOn, Tip
from pipelines.exactly_once.other_chains import OtherChain
from pipelines.model.table_family import TableFamily, name_of
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_log import LogEntry
from pipelines.sinks.delta_tables import ensure_table
from pipelines.sinks.direct_table import (
    CameBetweenError,
    DirectTable,
    LocalFiles,
    NotDirectError,
)
from pipelines.sinks.target import TargetRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COLUMNS = "table STRING"
"""A Delta table has a column; this one has no rows."""


class FamilyChain(DeltaChain):
    """The sink's chain. Mutable, beyond its base: what the registry knows of the tables."""

    def __init__(
        self,
        spark: SparkSession,
        of: TableFamily,
        run: TargetRun,
        direct: DirectTable | None = None,
    ) -> None:
        """`direct`: the registry gets its commits without Spark."""
        files = LocalFiles() if direct is not None else None
        super().__init__(spark, of.registry, run.link, run.on_retry, files=files)
        self._of, self._run = of, run
        self._direct = direct
        self.family = Family()

    def load(self) -> Tip | Unreadable | HandedOn | None:
        """The last commit; at the offsets up to which all tables, also held ones, have rows."""
        found = super().load()
        if not isinstance(found, Tip):
            return found
        said = family_said(found.said)
        # Each start tries the held tables again.
        self.family = replace(said, held={}, held_from={})
        self.tip = with_held(found)
        if self._run.trusts_tables:
            tips = {name: self._tip_of(name) for name in self.family.tables}
            named = name_of if self._of.by_topic else None
            self.tip, self.family = as_they_are(self.tip, self.family, tips, named)
        return self.tip

    def _tip_of(self, name: str) -> Tip | None:
        found = DeltaChain(self._spark, self._of.path_of(name), self.link).load()
        return found if isinstance(found, Tip) else None

    def take_over(self, other: OtherChain) -> None:
        """Continue the chains of another name in all tables, and then in the registry: after a
        crash in between the next start finds the registry's and repeats it. Raises StoppedError."""
        old = DeltaChain(self._spark, self.path, self.link.under(other.name))
        found = old.load()
        for name in family_said(found.said).tables if isinstance(found, Tip) else ():
            chain = DeltaChain(self._spark, self._of.path_of(name), self.link, self._run.on_retry)
            if chain.is_there() and not isinstance(chain.load(), Tip):
                chain.take_over(other)
        super().take_over(other)

    def record(
        self, session: SparkSession, commit: Commit, batch_id: int, more: Mapping[str, Any]
    ) -> LogEntry:
        """Commit the offsets and the list of the tables. Raises StoppedError."""
        direct, number = self._direct, commit.txn_version
        if direct is not None:
            try:
                return self.add(
                    lambda version, said: direct.add([], version, self.link, number, said),
                    commit,
                    batch_id,
                    more,
                )
            except NotDirectError:
                self._direct = None  # others have given the registry rules of its own
        nothing = session.createDataFrame([], COLUMNS)
        return self.append(nothing, commit, batch_id, more)

    def _metadata(self, commit: Commit, batch_id: int, more: Mapping[str, Any] | None) -> str:
        return super()._metadata(commit, batch_id, {**(more or {}), **self.family.said()})


def open_registry(of: TableFamily, run: TargetRun, *, is_direct: bool) -> FamilyChain:
    """The registry's chain; creates the registry if it is missing. `is_direct`: whether tables of
    plain rules get their commits without Spark."""
    from pyspark.sql.types import StructType

    spark, columns = run.session(), StructType.fromDDL(COLUMNS)
    if is_direct:
        schema: Any = columns.jsonValue()
        direct = DirectTable(of.registry, schema["fields"], {})
        chain = FamilyChain(spark, of, run, direct)
        with suppress(NotDirectError, CameBetweenError):
            chain.load()
            if direct.check(chain.version) is None:
                direct.create()
            return chain
    ensure_table(spark, of.registry, None, columns)
    return FamilyChain(spark, of, run)
