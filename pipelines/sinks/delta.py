"""The Delta target: `type: delta`, a table by its path or its name in the catalog."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base.errors import RunError
from pipelines.base.finding import SKIPPED, Finding
from pipelines.base.quoting import delta_table
from pipelines.exactly_once.checkpoint_start import Unreadable
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.exactly_once.other_chains import ChainName
from pipelines.exactly_once.state_chain import STATE
from pipelines.model.column_types import Type
from pipelines.model.constraints import Due
from pipelines.model.freshness import files_added
from pipelines.model.maintenance import checkpoint_settings
from pipelines.model.pipeline import Mode, Pipeline, Sink
from pipelines.model.schema_evolution import NO_STEPS, other_rows
from pipelines.model.table_columns import Fields
from pipelines.model.table_features import Settings, created_with
from pipelines.model.table_fit import Fitting, fitting
from pipelines.sinks.commits import NO_BATCH
from pipelines.sinks.defaults import OpenDefaults
from pipelines.sinks.delta_commits import DeltaChain
from pipelines.sinks.delta_constraints import constrain, constraints_due, why_broken
from pipelines.sinks.delta_dry_write import dry_write, in_one_sentence
from pipelines.sinks.delta_features import refuse_missing_jars, settings_due
from pipelines.sinks.delta_log import DeltaLogReader, LogEntry
from pipelines.sinks.delta_maintenance import Keeper, TableFiles, files_of, keeper_of
from pipelines.sinks.delta_tables import (
    change_columns,
    cluster,
    ensure_table,
    folder_of,
    has_setting,
    layout_of,
    schema_fields,
    set_settings,
)
from pipelines.sinks.direct_rows import DirectRows, direct_rows_of
from pipelines.sinks.direct_table import (
    CameBetweenError,
    FailedError,
    LocalFiles,
    NotDirectError,
)
from pipelines.sinks.stored_keys import as_stored, changes
from pipelines.sinks.target import Connect, Seen, TableAt, TargetRun, Written
from pipelines.spark.errors import complaint, refusal
from pipelines.spark.files import HadoopFiles
from pipelines.storage.folders import OpenFolder, open_local
from pipelines.transforms.aggregate import Merge, fold, partials
from pipelines.transforms.analysis_errors import (
    refuse_flag,
    refuse_no_time,
    refuse_own,
    refuse_twice,
)
from pipelines.transforms.dataframes import types
from pipelines.transforms.deduplicate import Span, new_rows, without_copies
from pipelines.transforms.scd2 import history, identity, versions
from pipelines.transforms.table_types import as_typed, casts
from pipelines.transforms.upsert import HIDDEN, flag_of, latest_rows, upsert

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = logging.getLogger("josefine.pipelines")

_REDUCED = {Mode.MERGE: partials, Mode.UPSERT: latest_rows, Mode.SCD2: versions}


class OpenDelta(OpenDefaults):
    """A table that is open for commits. Mutable: the column changes that are due."""

    def __init__(
        self,
        sink: Sink,
        chain: DeltaChain,
        run: TargetRun,
        constraints: Due = (),
        settings: Settings = (),
        direct: DirectRows | None = None,
    ) -> None:
        """`constraints`, `settings`: those that the table lacks. `direct`: appends batches."""
        self.chain = chain
        self._sink = sink
        self.run = run
        self._constraints = constraints
        self._settings = settings
        self._direct = direct
        self._files: TableFiles | None = None
        self._fitting = Fitting()

    def fit(self, wants: Mapping[str, Type], said: Mapping[str, Any]) -> bool:
        """Compare the columns with the table's. Raises RunError."""
        sink, chain, spark = self._sink, self.chain, self.run.session()
        found: Fitting | str = other_rows(said, sink.mode.value, _row_keys(sink))
        found = found or fitting(
            (self._direct and self._direct.fields()) or schema_fields(spark, chain.path),
            wants,
            said,
            sink.evolution,
            merges=sink.merges,
            table=delta_table(chain.path),
            has=partial(has_setting, spark, chain.path),
        )
        if isinstance(found, str):
            raise RunError(f"sink `{sink.name}`: {sink.told} {found}")
        self._fitting = found
        if found.removed:
            facts = {**chain.link.facts, "removed": [*found.removed]}
            chain.link = replace(chain.link, facts=facts)
        return found.steps == NO_STEPS

    def change(self) -> None:
        """Change columns first: a constraint may use a new one."""
        spark, sink, path = self.run.session(), self._sink, self.chain.path
        set_settings(spark, path, self._settings)
        change_columns(spark, path, self._fitting.steps)
        constrain(spark, sink, path, self._constraints)
        if sink.cluster_by:
            cluster(spark, path, sink.cluster_by)

    def commit(
        self,
        rows: DataFrame,
        commit: Commit,
        batch_id: int,
        more: Mapping[str, Any],
        span: Span | None,
    ) -> Written:
        """Append or merge, by the sink's mode."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        sink, chain = self._sink, self.chain
        entry = self._directly(rows, commit, batch_id, more)
        if entry is not None:
            return self._written(entry)
        how = _merge_of(sink, rows.schema, span)
        if how is not None and sink.mode is Mode.UPSERT:
            # A column that left the query keeps its old value in an updated row unless it is set.
            nulls = dict.fromkeys(self._fitting.removed, "null")
            how = replace(how, update={**nulls, **how.update})
        try:
            if how is None:
                return self._written(chain.append(rows, commit, batch_id, more))
            return self._written(chain.merge(rows, how, commit, batch_id, more))
        except (PySparkException, Py4JError) as error:
            why = why_broken(sink, chain.path, commit, batch_id, error)
            if why is None:
                raise
            raise why from error

    def _directly(
        self, rows: DataFrame, commit: Commit, batch_id: int, more: Mapping[str, Any]
    ) -> LogEntry | None:
        """Commit without Spark; None: nothing is committed, and Spark has to."""
        if self._direct is None:
            return None
        try:
            return self._direct.write(self.chain, rows, commit, batch_id, more)
        except (NotDirectError, CameBetweenError, FailedError) as error:
            # For the rest of the run. Spark can, or reports in its own words what is wrong.
            log.info("sink %s is written by Spark from here on: %s", self._sink.name, error)
            self._direct = None
            return None

    def _written(self, entry: LogEntry) -> Written:
        metrics = entry.metrics
        if self._files is not None:
            self._files.care.committed(files_added(metrics))
        names = (f"numTargetRows{what}" for what in ("Inserted", "Updated", "Deleted"))
        changed = sum(metrics.get(name, 0) for name in names)
        return Written(rows=metrics.get("numOutputRows", changed), version=entry.version)

    def write_nothing(self, stored: DataFrame, path: str) -> None:
        """Make the changes that are due to the table at `path`, an empty copy, and commit zero
        rows to it."""
        from pyspark.sql import functions as F  # noqa: N812

        sink, spark = self._sink, self.run.session()
        chain = DeltaChain(spark, path, self.run.link)
        copy = OpenDelta(sink, chain, self.run, self._constraints, self._settings)
        copy._fitting = self._fitting
        copy.change()
        chain.load()
        removes = sink.latest is not None and flag_of(sink) == HIDDEN
        rows = stored.withColumn(HIDDEN, F.lit(False)) if removes else stored
        typed = as_typed(rows, spark.read.format("delta").load(path).schema)
        commit = Commit(start={}, end=TopicOffsets(), txn_version=1)
        span = Span(rows=0) if sink.deduplicate else None
        copy.commit(typed.where("false"), commit, NO_BATCH, {}, span)

    def half_write(self, rows: DataFrame) -> None:
        """Write files that no log entry names."""
        self.chain.half_write(rows)

    def keeper(self, stopping: Callable[[], bool]) -> Keeper | None:
        """OPTIMIZE and VACUUM, if the file asks for them."""
        sink, path = self._sink, self.chain.path
        self._files = files_of(self.run.session(), path, sink)
        if not sink.upkeep and self._files is None:
            return None
        return keeper_of(self.run.session(), path, sink, stopping, self._files)


class DeltaTarget:
    """A Delta table."""

    writes = "a table"
    gets_replay = True
    has_columns = True

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self._stored: tuple[dict[str, Column], Mapping[str, str]] | None = None
        self._direct: DirectRows | None = None

    def keys(self) -> tuple[str, ...]:
        """With scd2 the keys and the columns of `order_by`."""
        return _row_keys(self.sink)

    def rows(self, pipeline: Pipeline, made: DataFrame) -> DataFrame:
        """The table's columns, and those that a merge needs."""
        return _table_rows(pipeline, self.sink, made)

    def as_stored(self, made: DataFrame) -> DataFrame:
        """The rows with the table's types, and their keys as it stores them."""
        # The same in each batch of a run, so the table is read and compared once.
        if self._stored is None:
            self._stored = self._compared(made)
        typed, changed = self._stored
        if typed:
            made = made.withColumns(typed)
        return as_stored(made, changed) if changed else made

    def _compared(self, made: DataFrame) -> tuple[dict[str, Column], Mapping[str, str]]:
        """(the columns that get another type, the keys that are stored in another way)."""
        sink, spark = self.sink, made.sparkSession
        keys = sink.deduplicate.keys if sink.deduplicate is not None else sink.keys
        if self._direct is not None and (fields := self._direct.fields()) is not None:
            only = {key.lower() for key in keys} if sink.merges else None
            return casts(made.schema, _schema(fields), only), changes(fields, (), keys)
        path = sink.path or folder_of(spark, str(sink.table))
        table = spark.read.format("delta").load(path).schema
        # Of a merged table only the keys are columns of these rows; MERGE casts its aggregates.
        only = {key.lower() for key in keys} if sink.merges else None
        changed = changes(*layout_of(spark, path), keys) if keys else {}
        return casts(made.schema, table, only), changed

    def prepare(self, run: TargetRun, stored: DataFrame, topic_ids: Collection[str]) -> OpenDelta:
        """Creates a missing table. Raises RunError if the table cannot take the rows, by a dry
        write of none; nothing is created or changed then."""
        spark, sink = run.session(), self.sink
        refuse_missing_jars(spark, sink)
        direct = self._direct = direct_rows_of(sink, spark)
        is_new = not _is_there(spark, sink)
        fields: Fields = stored.schema.jsonValue()["fields"]
        settings = created_with(checkpoint_settings(run.every_ms), sink.wishes) if is_new else ()
        is_made = is_new and direct is not None and direct.create(fields, dict(settings))
        if is_new and not is_made and _needs_proof(sink):
            dry_write(spark, sink, partial(_first_commit, sink, run, stored))
        columns = sink.partition_by if is_new else ()
        if direct is not None and (is_made or not is_new):
            path = str(sink.path)
        else:
            with in_one_sentence(sink, "no table was created"):
                path = ensure_table(spark, sink.path, sink.table, stored.schema, settings, columns)
        files = LocalFiles() if direct is not None else None
        chain = DeltaChain(spark, path, run.link, run.on_retry, files=files)
        constraints = constraints_due(spark, sink, path)
        due = () if is_new else settings_due(spark, sink, path)
        opened = OpenDelta(sink, chain, run, constraints, due, direct)
        if is_new:
            return opened
        tip = chain.load()
        said = tip.said if isinstance(tip, Tip) else {}
        if STATE in said:  # whether the state is the file's comes first, in `settle`
            return opened
        # Compared here too, so that a refusal comes before the dead letters' table is created.
        is_fit = opened.fit(types(stored), said)
        if not (said and is_fit):
            dry_write(spark, sink, partial(opened.write_nothing, stored), like=path)
        return opened

    def open(self, run: TargetRun) -> OpenDelta:
        """Looks up the path in the catalog if the file has a name only."""
        spark, sink = run.session(), self.sink
        path = sink.path or folder_of(spark, str(sink.table))
        return OpenDelta(sink, DeltaChain(spark, path, run.link, run.on_retry), run)

    def probe(self, connect: Connect) -> str | None:
        """None: `pipeline check` examines its folder instead."""
        return None

    def findings(self, trouble: str | None) -> list[Finding]:
        """A note for a table by its name: `pipeline check` cannot find it without Spark."""
        sink = self.sink
        if not sink.table:
            return []
        what = f"sinks.{sink.name}.table: {sink.table}: only Spark's catalog knows where it is"
        return [Finding(SKIPPED, what)]

    def describe(self, name: ChainName, open_folder: OpenFolder = open_local) -> Seen | None:
        """Reads the Delta log, if `open_folder` reaches it."""
        folder = open_folder(self.sink.path) if self.sink.path else None
        if folder is None:
            return None
        reader = DeltaLogReader(folder.files, folder.path, name.app_id)
        found, _ = reader.last_tip()
        return Seen(
            tip=found if isinstance(found, (Tip, Unreadable)) else None,
            others=lambda: [other for other in reader.other_chains().values() if other],
            queries=reader.queries,
            newest=next(reader.own(), None),
        )

    def folders(self) -> Iterator[tuple[str, str]]:
        """The table's path."""
        if self.sink.path:
            yield f"sinks.{self.sink.name}.path", self.sink.path

    def loss_table(self, pipeline: Pipeline) -> TableAt:
        """The table's path or name with the suffix `_lost`."""
        sink = self.sink
        if sink.table is None:
            return TableAt(path=f"{sink.path}_lost")
        return TableAt(table=f"{sink.path or sink.table}_lost")


def _schema(fields: Fields) -> StructType:
    from pyspark.sql.types import StructType

    return StructType.fromJson({"type": "struct", "fields": [*fields]})


def _needs_proof(sink: Sink) -> bool:
    """Whether the first commit does more than to create a table and append, which its creation
    proves: Delta refuses that before it makes a folder."""
    is_plain = sink.mode is Mode.APPEND and sink.deduplicate is None
    return not is_plain or bool(sink.constraints or sink.cluster_by)


def _is_there(spark: SparkSession, sink: Sink) -> bool:
    if sink.path is None:
        return bool(spark.catalog.tableExists(str(sink.table)))
    return DeltaLogReader(HadoopFiles(spark), sink.path, "").versions() != []


def _first_commit(sink: Sink, run: TargetRun, stored: DataFrame, path: str) -> None:
    """Make a table at `path` as a run makes it, and commit zero rows."""
    spark = run.session()
    settings = created_with((), sink.wishes)
    ensure_table(spark, path, None, stored.schema, settings, sink.partition_by)
    constraints = tuple((name, condition.text) for name, condition in sink.constraints.items())
    opened = OpenDelta(sink, DeltaChain(spark, path, run.link), run, constraints)
    opened.write_nothing(stored, path)


def _table_rows(pipeline: Pipeline, sink: Sink, rows: DataFrame) -> DataFrame:
    """The rows for the table, made from the sink's input. Raises ConfigError."""
    from pyspark.errors import PySparkException

    names = rows.columns
    if len({name.lower() for name in names}) < len(names):
        refuse_twice(pipeline, sink, names)
    if sink.deduplicate is not None:
        refuse_no_time(sink, sink.deduplicate, rows)
        try:
            return without_copies(rows, sink.deduplicate)
        except PySparkException as error:
            path = f"sinks.{sink.name}.deduplicate"
            raise complaint(sink.deduplicate.key_places[0], path, error) from error
    if sink.mode is Mode.APPEND:
        return rows
    order = sink.latest.columns if sink.latest else ()
    named = {*sink.keys, *order, *(a.argument for a in sink.aggregates if a.argument)}
    missing = sorted(named - set(names))
    path = f"sinks.{sink.name}"
    if missing:
        message = f"no column {', '.join(missing)} in `{sink.input}`; it has: {', '.join(names)}"
        raise refusal(sink.place, path, message)
    if sink.mode is Mode.SCD2:
        refuse_own(sink, rows)
    if sink.latest is not None:
        refuse_flag(sink, rows)
    try:
        reduced = _REDUCED[sink.mode](rows, sink)
        # Spark analyzes here, where the file's position of the sink can be named, not in a batch.
        _ = reduced.schema
    except PySparkException as error:
        raise complaint(sink.place, path, error) from error
    return reduced


def _merge_of(sink: Sink, schema: StructType, span: Span | None) -> Merge | None:
    """How rows with these columns are merged into the table; None: they are appended."""
    if sink.deduplicate is not None:
        assert span is not None
        return new_rows(sink.deduplicate, schema, span)
    if sink.mode is Mode.APPEND:
        return None
    if sink.mode is Mode.SCD2:
        return history(sink, schema)
    return fold(sink) if sink.merges else upsert(sink, schema)


def _row_keys(sink: Sink) -> tuple[str, ...]:
    """The columns that identify a row of the table."""
    return identity(sink) if sink.mode is Mode.SCD2 else sink.keys
