"""The Iceberg target: `type: iceberg`, an append-only table in an Iceberg catalog."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.base.errors import RunError, SetupError
from pipelines.base.finding import ERROR, OK, Finding
from pipelines.exactly_once.offset_chain import Commit, HandedOn
from pipelines.exactly_once.other_chains import ChainName
from pipelines.model.column_types import Type
from pipelines.model.pipeline import Pipeline, Sink
from pipelines.model.schema_evolution import NO_STEPS, Steps, fit, other_rows
from pipelines.sinks.commits import Link
from pipelines.sinks.defaults import AppendOnly, OpenDefaults
from pipelines.sinks.iceberg.catalog import ConflictError, TablePlace, needs_package
from pipelines.sinks.iceberg.chain import CONFLICTS_MAX, IcebergChain
from pipelines.sinks.iceberg.columns import (
    required_columns,
    schema_of,
    spark_columns,
    types_of,
    unsupported,
)
from pipelines.sinks.iceberg.files import RowFiles, SparkFiles
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written, table_by_checkpoint
from pipelines.spark.errors import refusal
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.analysis_errors import refuse_twice
from pipelines.transforms.deduplicate import Span

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame


class OpenIceberg(OpenDefaults):
    """A table that is open for commits. Mutable: the column changes that are due."""

    def __init__(
        self, sink: Sink, chain: IcebergChain, run: TargetRun, schema: Mapping[str, Any]
    ) -> None:
        """`schema`: Spark's JSON of the target's columns, empty if no column may change."""
        self.chain = chain
        self._sink = sink
        self.run = run
        self._schema = schema
        self._steps = NO_STEPS

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Compare the table's columns. Raises RunError."""
        sink = self._sink
        due: Steps | str = other_rows(said, sink.mode.value, sink.keys)
        due = due or self._columns_due(wants, said)
        if isinstance(due, str):
            raise RunError(f"sink `{sink.name}`: {sink.told} {due}")
        self._steps = due
        return due == NO_STEPS

    def _columns_due(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> Steps | str:
        table = self.chain.refresh()
        required = required_columns(table.schema())
        if required:
            return f"has columns that may not be null ({', '.join(required)}): make them optional"
        if table.spec().fields:
            return "is partitioned, which is not supported: write to a new table"
        have, there = spark_columns(table.schema()), said.get("columns", ())
        return fit(have, wants, there, self._sink.evolution, merges=False, exact=True)

    def change(self) -> None:
        """Add columns, and remove files of runs that died before their commit."""
        names = [path[0] for path, _ in self._steps.add]
        for _ in range(CONFLICTS_MAX):
            try:
                self._add(self.chain.refresh(), names)
                break
            except ConflictError:
                continue  # the other commit may have added the columns: check again
        else:
            what = f"sink `{self._sink.name}`: {self.chain.path}"
            raise RunError(f"{what}: no column can be added, other commits always come between")
        self._steps = NO_STEPS
        self.chain.sweep()

    def _add(self, table: Table, names: Collection[str]) -> None:
        there = {field.name.lower() for field in table.schema().fields}
        new = {n: kind for n, kind in self._types(names).items() if n.lower() not in there}
        if new:
            with table.update_schema() as schema:
                for name, kind in new.items():
                    schema.add_column(name, kind)

    def _types(self, names: Collection[str]) -> Mapping[str, Any]:
        every = types_of(self._schema) if names else {}
        return {name: every[name] for name in names}

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Write files and add them to the table."""
        assert span is None, "copies are left out of Delta tables only"
        entry = self.chain.append(self._as_named(rows), commit, batch_id, more)
        return Written(rows=entry.metrics["numOutputRows"], version=entry.version)

    def _as_named(self, rows: Any) -> Any:
        """Rename columns to the table's case: Spark matches `ID` with `id`, Iceberg does not."""
        names = {field.name.lower(): field.name for field in self.chain.table.schema().fields}
        wanted = [names.get(column.lower(), column) for column in rows.columns]
        return rows if wanted == list(rows.columns) else rows.toDF(*wanted)

    def half_write(self, rows: DataFrame) -> None:
        """Files that no snapshot names."""
        self.chain.half_write(self._as_named(rows))


class IcebergTarget(AppendOnly):
    """A table of an Iceberg catalog."""

    writes = "an Iceberg table"
    gets_replay = False
    has_columns = True

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._place = TablePlace(sink)

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """Unchanged. Raises ConfigError if Iceberg lacks a column's type."""
        refuse_twice(pipeline, self.sink, made.columns)
        wrong = unsupported(made.schema.jsonValue())
        if wrong:
            raise refusal(self.sink.place, f"sinks.{self.sink.name}", "; ".join(wrong))
        return made

    def as_stored(self, made: DataFrame) -> DataFrame:
        """Unchanged: there are no keys to find rows by."""
        return made

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenIceberg:
        """Creates a missing table. Raises SetupError."""
        schema = stored.schema.jsonValue()
        needs_package(self.sink)
        return self._opened(run, self._place.ensure(schema_of(schema)), schema)

    def open(self, run: TargetRun) -> OpenIceberg:
        """Raises SetupError."""
        return self._opened(run, self._place.find(), {})

    def _opened(
        self, run: TargetRun, table: Table | None, schema: Mapping[str, Any]
    ) -> OpenIceberg:
        def files() -> RowFiles:
            return SparkFiles(run.session())

        chain = IcebergChain(table, self._place.told, run.link, files, run.on_retry)
        return OpenIceberg(self.sink, chain, run, schema)

    def probe(self, connect: Connect) -> str | None:
        """Whether the catalog answers. The right to write the table shows in a run."""
        trouble = self._place.trouble()
        if trouble:
            return trouble
        try:
            self._place.find()
        except SetupError as error:
            return str(error).removeprefix(f"sink `{self.sink.name}`: ")
        return ""

    def findings(self, trouble: str | None) -> list[Finding]:
        """`trouble` None: not probed."""
        if trouble is None:
            return []
        what = f"sink `{self.sink.name}`: table {self._place.told}"
        if trouble:
            return [Finding(ERROR, f"{what}: {trouble}", f"correct it at {self.sink.place}")]
        return [Finding(OK, f"{what}: its catalog answers")]

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen:
        """Reads the catalog, without Spark. Raises SetupError."""
        table = self._place.find()
        link = Link(pipeline=name.pipeline, sink=name.sink, run="")
        chain = IcebergChain(table, self._place.told, link, _no_files)
        found = chain.load()
        return Seen(
            tip=None if isinstance(found, HandedOn) else found,
            others=chain.others,
            queries=chain.queries,
            newest=chain.newest(),
        )

    def folders(self) -> Iterator[tuple[str, str]]:
        """None to examine as a Delta table's folder: `probe` asks the catalog."""
        return iter(())

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """Next to the checkpoint."""
        return table_by_checkpoint(pipeline, self.sink)


def _no_files() -> RowFiles:
    raise AssertionError("nothing is written")
